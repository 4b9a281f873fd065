"""Sessions whose gateway knows one reply."""

from collections.abc import Mapping
from typing import Any

import httpx

from gateway_sdk import GatewaySession
from tests.support.secrecy import CANARY

JSON = "application/json"


def replying(
    body: bytes = b"",
    content_type: str | None = JSON,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **settings: Any,
) -> GatewaySession:
    given_headers = {**({"content-type": content_type} if content_type else {}), **(headers or {})}

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(
            status, headers=list(given_headers.items()), stream=httpx.ByteStream(body)
        )

    return GatewaySession(
        "https://gateway.test",
        access_token=CANARY + "-token",
        tenant_id=CANARY + "-tenant",
        token_header=CANARY + "-header",
        transport=httpx.MockTransport(answer),
        retry=None,
        **settings,
    )


async def read(*given_reply: Any, **settings: Any) -> Any:
    """Return what a reply becomes where the interface leaves it open."""
    return await replying(*given_reply, **settings).wallet.spot_trading_available_balance()
