"""The gateway that runs in application servers: each request is noted, then answered."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any, Final

from tests.real.ledger import ARRIVED, CALL, EXECUTED, EXPIRED, note_in

_LEDGER: Final = os.environ["LEDGER"]
_WORK: Final = 0.005
"""Seconds between executing and answering."""
_HELD: Final = Path(os.environ["HELD"])
"""No request is answered while there is such a file."""

Message = MutableMapping[str, Any]


def refusal(path: str, authorization: str) -> str:
    """Return the status of a request that is answered before its body is read, or nothing."""
    if authorization == f"Bearer {EXPIRED}":
        return "401 Unauthorized"
    return "404 Not Found" if path.startswith("/404/") else ""


def wsgi(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    call = environ["HTTP_" + CALL.upper().replace("-", "_")]
    connection = f"{os.getpid()}-{environ['REMOTE_PORT']}"
    note_in(_LEDGER, ARRIVED, call, connection)
    if refused := refusal(environ["PATH_INFO"], environ.get("HTTP_AUTHORIZATION", "")):
        start(refused, [("Content-Length", "0")])
        return []
    environ["wsgi.input"].read()
    note_in(_LEDGER, EXECUTED, call, connection)
    time.sleep(_WORK)
    while _HELD.exists():
        time.sleep(_WORK)
    body = json.dumps(call).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        raise NotImplementedError  # how an application says that it needs no lifespan
    fields = dict(scope["headers"])
    call = fields[CALL.lower().encode()].decode()
    connection = f"{os.getpid()}-{scope['client'][1]}"
    note_in(_LEDGER, ARRIVED, call, connection)
    if refused := refusal(scope["path"], fields.get(b"authorization", b"").decode()):
        empty = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": int(refused[:3]), "headers": empty})
        await send({"type": "http.response.body"})
        return
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    note_in(_LEDGER, EXECUTED, call, connection)
    await asyncio.sleep(_WORK)
    while _HELD.exists():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(_WORK)
    body = json.dumps(call).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
