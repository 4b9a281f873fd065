"""The ways in which a gateway can misbehave, each a wrapper around the app that serves a call."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import httpx
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox.connection import BodyCutError, hang_up
from gateway_sdk.sandbox.replies import error_reply

Sleep = Callable[[float], Awaitable[object]]

REVOKED = {"WWW-Authenticate": 'Bearer error="invalid_token"'}


class Exchange(NamedTuple):
    """One call in the hands of a fault: the app that would serve it, and how to talk to its client.

    *sleep* takes seconds.
    """

    app: ASGIApp
    scope: Scope
    receive: Receive
    send: Send
    sleep: Sleep

    async def proceed(self, send: Send | None = None) -> None:
        """Let the app serve the call."""
        await self.app(self.scope, self.receive, send or self.send)

    async def reply(self, response: Response) -> None:
        """Reply in place of the app, which never learns of the call."""
        await response(self.scope, self.receive, self.send)

    async def hang_up(self, in_process: httpx.TransportError) -> None:
        """Close the connection; in process raise this error."""
        await hang_up(self.scope, self.receive, in_process)


@dataclass(frozen=True)
class Fault:
    """One misbehaviour; make it by one of the constructors below."""

    name: str
    play: Callable[[Exchange], Awaitable[None]] = field(repr=False)

    @classmethod
    def latency(cls, seconds: float) -> Self:
        """Start serving the call only after some seconds."""
        _require(seconds >= 0, "seconds", seconds)

        async def play(exchange: Exchange) -> None:
            await exchange.sleep(seconds)
            await exchange.proceed()

        return cls(f"latency of {seconds} s", play)

    @classmethod
    def status(cls, status: int, *, headers: dict[str, str] | None = None) -> Self:
        """Refuse with this status, 400 to 599, and an ErrorPayload; nothing is applied."""
        _require(400 <= status <= 599, "status", status)  # noqa: PLR2004 - what errors are

        async def play(exchange: Exchange) -> None:
            await exchange.reply(error_reply(exchange.scope, status, "a fault on request", headers))

        return cls(f"status {status}", play)

    @classmethod
    def too_many_requests(cls, *, retry_after: int | str | None = None) -> Self:
        """Refuse with 429; *retry_after* is in seconds, or an HTTP date."""
        return cls.status(429, headers=_retry_after(retry_after))

    @classmethod
    def unavailable(cls, *, retry_after: int | str | None = None) -> Self:
        """Refuse with 503; *retry_after* is in seconds, or an HTTP date."""
        return cls.status(503, headers=_retry_after(retry_after))

    @classmethod
    def unauthorized(cls) -> Self:
        """Refuse with 401 as if the token had been revoked."""
        return cls.status(401, headers=REVOKED)

    @classmethod
    def malformed_error(cls, status: int) -> Self:
        """Refuse with this status and a body that calls itself JSON and is cut-off JSON."""
        _require(400 <= status <= 599, "status", status)  # noqa: PLR2004 - what errors are

        async def play(exchange: Exchange) -> None:
            body = f'{{"status": {status}, "reason'
            await exchange.reply(Response(body, status, media_type="application/json"))

        return cls(f"malformed error of status {status}", play)

    @classmethod
    def drop_before_read(cls) -> Self:
        """Close the connection without reading the request; nothing is applied."""

        async def play(exchange: Exchange) -> None:
            await exchange.hang_up(httpx.ReadError("connection reset by peer"))

        return cls("drop before read", play)

    @classmethod
    def drop_after_read(cls) -> Self:
        """Serve the call, with all its effects, and close the connection instead of replying."""

        async def play(exchange: Exchange) -> None:
            await exchange.proceed(_swallow)
            lost = httpx.RemoteProtocolError("Server disconnected without sending a response.")
            await exchange.hang_up(lost)

        return cls("drop after read", play)

    @classmethod
    def drip(cls, delay: float, *, pieces: int = 10) -> Self:
        """Send the reply's body in so many pieces, each *delay* seconds after the one before."""
        _require(delay >= 0, "delay", delay)
        _require(pieces >= 1, "pieces", pieces)

        async def play(exchange: Exchange) -> None:
            await exchange.proceed(_dripping(exchange, delay, pieces))

        return cls(f"drip of {delay} s", play)

    @classmethod
    def cut_body(cls) -> Self:
        """Serve the call, send half of the reply's body and close the connection."""

        async def play(exchange: Exchange) -> None:
            reply: list[Message] = []

            async def hold(message: Message) -> None:
                reply.append(message)

            await exchange.proceed(hold)
            if reply:  # there is none when the client has left, or another fault has hung up
                await _send_cut(exchange, *reply)

        return cls("cut body", play)


async def _swallow(_: Message) -> None:
    pass


def _dripping(exchange: Exchange, delay: float, pieces: int) -> Send:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            for piece in _pieces(message["body"], pieces):
                await exchange.sleep(delay)
                await exchange.send({"type": message["type"], "body": piece, "more_body": True})
            message = {**message, "body": b""}
        await exchange.send(message)

    return send


def _pieces(body: bytes, count: int) -> Iterator[bytes]:
    size = -(-len(body) // count) or 1
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def _send_cut(exchange: Exchange, start: Message, *parts: Message) -> None:
    body = b"".join(part["body"] for part in parts)
    half = body[: len(body) // 2]
    # One byte more than the whole, so that an empty body can be cut as well.
    headers = MutableHeaders(raw=start["headers"])
    headers["content-length"] = str(len(body) + 1)
    await exchange.send(start)
    await exchange.send({"type": "http.response.body", "body": half, "more_body": True})
    await exchange.hang_up(BodyCutError(start["status"], start["headers"], half))


def _retry_after(value: int | str | None) -> dict[str, str] | None:
    return None if value is None else {"Retry-After": str(value)}


def _require(fits: bool, name: str, value: float) -> None:  # noqa: FBT001 - reads as a sentence
    if not fits:
        raise ValueError(f"{name} is out of range: {value}")
