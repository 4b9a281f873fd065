"""A proxy that decodes paths: no id that the SDK accepts reaches what another id names."""

import asyncio
import base64
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import unquote

import httpx

from gateway_sdk import GatewaySession, InvalidArgumentError
from tests.real import servers
from tests.real.ledger import CALL
from tests.real.load import CALLERS, TALLY, open_session
from tests.support.witness import Witness

TIMES: Final = 10_000
PIECES: Final = (
    *(
        "..",
        ".",
        "../../w2/orders/o9",
        "x/../../y",
        "/",
        "//",
        "\\",
        "\\..",
        "%2e",
        "%2E%2e",
        "%2F",
    ),
    *("%5c", "%252e", "%252f", "%25", "%", "..;x", ";", "?", "#", " ", "+", "é", "€", "w-1", "o9"),
)

Call = Callable[[GatewaySession, str, Any], Coroutine[Any, Any, Any]]
PATHS: Final[dict[str, Call]] = {
    "/customer/1.0.0/update/{}/revisions": (
        lambda gateway, it, more: gateway.customer.revise_customer(it, {"a": "b"}, **more)
    ),
    "/wallet/1.0.0/{}/trading-order-history": (
        lambda gateway, it, more: gateway.wallet.trading_order_history(it, **more)
    ),
    "/wallet/1.0.0/{}/orders/o-1": (
        lambda gateway, it, more: gateway.wallet.cancel_order(it, "o-1", **more)
    ),
    "/wallet/1.0.0/w-1/orders/{}": (
        lambda gateway, it, more: gateway.wallet.cancel_order("w-1", it, **more)
    ),
    "/aml/1.0.0/document/{}/status": (
        lambda gateway, it, more: gateway.aml.change_document_status(it, "ok", **more)
    ),
    "/aml/1.0.0/document/update/{}": (
        lambda gateway, it, more: gateway.aml.update_document(it, b"scan", **more)
    ),
}


def merged(path: str) -> str:
    """Return a path as nginx reads it, which takes slashes in a row as one."""
    return re.sub("/+", "/", path)


def ids(number: int) -> Iterator[str]:
    random = Random(8)  # noqa: S311 - the same ids in each run
    for count in range(number):
        pieces = "".join(random.choices(PIECES, k=random.randint(1, 4)))
        yield pieces if count % 4 else base64.b64encode(random.randbytes(24)).decode()


async def test_no_id_reaches_another_resource(folder: Path) -> None:
    given = enumerate(ids(TIMES))
    wanted: dict[str, str] = {}

    async def keep_calling() -> None:
        for count, text in given:
            path, call = list(PATHS.items())[count % len(PATHS)]
            try:
                await call(gateway, text, {"headers": {CALL: str(count)}})
            except InvalidArgumentError as error:
                assert "would address another path" in str(error)  # noqa: PT017 - few do
            else:
                wanted[str(count)] = merged(path.format(text))

    async with (
        servers.nginx(folder, 5) as place,
        open_session(f"{place.url}/decoded", Witness(), observers=()) as gateway,
    ):
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(keep_calling())
        ledger = place.ledger()

    assert {call: merged(unquote(target)) for call, target in ledger.targets.items()} == wanted
    assert TIMES // 3 < len(wanted) < TIMES
    TALLY["ids through a proxy that decodes, sent"] += len(wanted)
    TALLY["ids through a proxy that decodes, refused"] += TIMES - len(wanted)


async def test_this_proxy_does_decode(folder: Path) -> None:
    """What the SDK refuses would cancel the order of another wallet."""
    target = "/wallet/1.0.0/w1/orders/..%2F..%2Fw2%2Forders%2Fo9"
    async with servers.nginx(folder, 5) as place, httpx.AsyncClient(trust_env=False) as client:
        await client.delete(f"{place.url}/decoded{target}", headers={CALL: "1"})

    assert place.ledger().targets == {"1": "/wallet/1.0.0/w2/orders/o9"}
