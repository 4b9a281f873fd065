"""What a caller gave wrong, at every service of the examples and tutorials: 422, nothing sent."""

from typing import Any

import httpx
import pytest
from examples.service.app import from_environment
from fastapi import FastAPI

from examples import web_service
from gateway_sdk.sandbox import Sandbox
from tests.support.documents import ROOT, blocks

TUTORIAL = ROOT / "docs/tutorials/web-service.md"


def of_the_tutorial() -> FastAPI:
    (block,) = (block for block in blocks(TUTORIAL) if block.file == "service.py")
    names: dict[str, Any] = {"__name__": "service"}
    exec(compile(block.text, "service.py", "exec"), names)  # noqa: S102 - it is ours
    app: FastAPI = names["app"]
    return app


SERVICES = {
    "tutorial": of_the_tutorial,
    "web_service": lambda: web_service.app,
    "service": from_environment,
}
WRONG = {
    "empty tenant": ("/wallets/w-1/orders/o-1", b""),
    "tenant with a control character": ("/wallets/w-1/orders/o-1", b"ac\x01me"),
    "NUL in an id": ("/wallets/w-1/orders/%00", b"acme"),
    "line break in an id": ("/wallets/w%0A1/orders/o-1", b"acme"),
    "dots": ("/wallets/%2e%2e/orders/o-1", b"acme"),
    "backslash and dots": ("/wallets/w-1/orders/o%5C..", b"acme"),
    "dots that are encoded twice": ("/wallets/w-1/orders/x%252f%252e%252e", b"acme"),
}


@pytest.mark.parametrize(("path", "tenant"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", SERVICES)
async def test_what_the_caller_gave_wrong_is_422(
    name: str, path: str, tenant: bytes, gateway_env: dict[str, str], gateway_sandbox: Sandbox
) -> None:
    app = SERVICES[name]()
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as caller,
    ):
        refused = await caller.delete(path, headers=[(b"tenant", tenant)])

    assert refused.status_code == 422, refused.text
    assert not gateway_sandbox.received
