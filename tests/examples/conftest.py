from collections.abc import AsyncIterator

import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox


@pytest.fixture
def sandbox() -> Sandbox:
    """Provide a sandbox that behaves."""
    return Sandbox()


@pytest.fixture
async def environment(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, str]]:
    """Serve the sandbox on a socket and point the environment at it."""
    async with sandbox.serve() as base_url:
        variables = {
            "GATEWAY_BASE_URL": base_url,
            "GATEWAY_ACCESS_TOKEN": SANDBOX_ACCESS_TOKEN,
            "GATEWAY_TENANT_ID": "demo",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield variables
