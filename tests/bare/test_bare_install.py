"""What must work without any extra; run by nox in an environment that has none."""

import subprocess
import sys
from importlib.util import find_spec

import httpx
import pytest

from gateway_sdk import GatewaySession

HEAVY = (
    "aiohttp",
    "authlib.integrations",
    "babel",
    "httptools",
    "httpx2",
    "joserfc",
    "matplotlib",
    "opentelemetry",
    "rich",
    "starlette",
    "typer",
    "uvicorn",
)


@pytest.mark.parametrize("module", HEAVY)
def test_import_loads_nothing_of_the_extras(module: str) -> None:
    """Beyond what httpx loads: where click is installed it loads rich for its own command line."""
    code = (
        "import httpx, pydantic, sys, tenacity; before = set(sys.modules); import gateway_sdk;"
        f"sys.exit({module!r} in set(sys.modules) - before)"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=False)

    assert done.returncode == 0


async def test_a_call_works_without_any_extra() -> None:
    """A session calls the gateway with the package's own dependencies alone."""

    def reply(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"path": request.url.path})

    transport = httpx.MockTransport(reply)
    async with GatewaySession(
        "https://gateway.test", access_token="token", transport=transport
    ) as gateway:
        balance = await gateway.wallet.spot_trading_available_balance()

    assert balance == {"path": "/wallet/1.0.0/spot-trading/available-balance"}


@pytest.mark.skipif(find_spec("starlette") is not None, reason="the extra sandbox is installed")
def test_the_pytest_plugin_says_which_extra_its_fixtures_need(pytester: pytest.Pytester) -> None:
    """The plugin is loaded in every run; only a test that uses the sandbox fails without it."""
    pytester.makepyfile("def test_without(): pass\ndef test_with(gateway_session): pass")

    ended = pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:cacheprovider")

    ended.assert_outcomes(passed=1, errors=1)
    ended.stdout.fnmatch_lines(["E *MissingExtraError: *pip install 'gateway-sdk[[]sandbox]'*"])
    ended = pytester.runpython_c("import gateway_sdk.sandbox")
    ended.stderr.fnmatch_lines(["*MissingExtraError: *pip install 'gateway-sdk[[]sandbox]'"])
