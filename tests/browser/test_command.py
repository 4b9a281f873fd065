"""The command line with a real browser: one process logs in, another one uses the token."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRIVER = Path(__file__).with_name("driver.py")
LOGIN = ("-m", "gateway_sdk.cli", "login")
WORK = """
import asyncio
from gateway_sdk import GatewaySession

async def work():
    async with GatewaySession.from_env() as gateway:
        print(len(await gateway.country_data.list_countries()), "countries")

asyncio.run(work())
"""


class Ended(NamedTuple):
    status: int | None
    printed: str


@pytest_asyncio.fixture(loop_scope="session")
async def settings(tmp_path: Path) -> AsyncGenerator[dict[str, str]]:
    """Provide the environment of a user of the sandbox."""
    async with Sandbox().serve() as base_url:
        ours = {name: text for name, text in os.environ.items() if not name.startswith("GATEWAY_")}
        yield {
            **ours,
            "GATEWAY_BASE_URL": base_url,
            "GATEWAY_AUTH_URL": f"{base_url}{AUTHORIZE_PATH}",
            "GATEWAY_CLIENT_ID": SANDBOX_CLIENT_ID,
            "GATEWAY_TENANT_ID": "acme",
            "XDG_STATE_HOME": str(tmp_path),
        }


@pytest.fixture
def with_browser(executable: str, settings: dict[str, str]) -> Callable[[str], dict[str, str]]:
    """Provide an environment whose browser is Chromium, with this decision of the user."""

    def decided(decision: str) -> dict[str, str]:
        command = [sys.executable, str(DRIVER), executable, decision]
        return {**settings, "BROWSER": f"{shlex.join(command)} %s"}

    return decided


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def run(*arguments: str, environment: dict[str, str]) -> Ended:
    """Run Python until it and all its child processes have ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return Ended(process.returncode, printed.decode())


async def test_a_worker_uses_the_token_of_a_login(
    with_browser: Callable[[str], dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """`gateway login` opens the browser and stores the token, and a worker finds it."""
    logged_in = await run(*LOGIN, environment=with_browser("allow"))
    assert logged_in.status == 0, logged_in.printed
    assert "Logged in." in logged_in.printed
    assert "the browser says: You are logged in\n" in logged_in.printed
    assert len(files_in(tmp_path)) == 1

    worked = await run("-c", WORK, environment=settings)
    assert worked.status == 0, worked.printed
    assert worked.printed.endswith(" countries\n")


async def test_a_denial_in_the_browser_is_shown_in_the_terminal(
    with_browser: Callable[[str], dict[str, str]], settings: dict[str, str], tmp_path: Path
) -> None:
    """A user who refuses sees this in the browser and in the terminal, and nothing is stored."""
    denied = await run(*LOGIN, environment=with_browser("deny"))
    assert denied.status == 1, denied.printed
    assert "the login was refused (access_denied)" in denied.printed
    assert "the browser says: You are not logged in\n" in denied.printed
    assert files_in(tmp_path) == []

    worked = await run("-c", WORK, environment=settings)
    assert worked.status != 0
    assert "LoginRequiredError" in worked.printed
