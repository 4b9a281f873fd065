"""The command line as an app of one file and as a zipapp; run by nox in its own environment."""

import json
import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

import gateway_sdk
from gateway_sdk.cli.app import SUMMARIES
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID
from tests.support.documents import BROWSER

SOURCE = Path(gateway_sdk.__file__).parent
Program = list[str]


def make_one_file(folder: Path) -> Program:
    (folder / "gateway.py").write_text("from gateway_sdk.cli import main\n\nmain()\n")
    made = [sys.executable, "-m", "PyInstaller", "--onefile", "--log-level=WARN", "gateway.py"]
    subprocess.run(made, cwd=folder, check=True)
    return [str(folder / "dist" / "gateway")]


def make_zipapp(folder: Path) -> Program:
    """Zip our package alone: Python imports no compiled modules, such as pydantic's, from a zip."""
    shutil.copytree(SOURCE, folder / "app" / "gateway_sdk")
    zipapp.create_archive(folder / "app", folder / "gateway.pyz", main="gateway_sdk.cli:main")
    shutil.rmtree(folder / "app")
    return [sys.executable, str(folder / "gateway.pyz")]


@pytest.fixture(scope="module", params=[make_one_file, make_zipapp])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    made: Program = request.param(tmp_path_factory.mktemp("program"))
    return made


def run(program: Program, *arguments: str, **environment: str) -> str:
    """Return the output of a command; nothing of this environment is passed on."""
    home = str(Path(program[-1]).parent)
    return subprocess.run(
        [*program, *arguments],
        env={**environment, "HOME": home},
        cwd=home,
        capture_output=True,
        check=True,
        text=True,
    ).stdout


@pytest.mark.parametrize("command", SUMMARIES)
def test_every_command_is_there(program: Program, command: str) -> None:
    assert f"Usage: gateway {command}" in run(program, command, "--help")


def test_a_command_calls_a_gateway(program: Program, gateway_env: dict[str, str]) -> None:
    countries = json.loads(run(program, "countries", "--json", **gateway_env))

    assert len(countries) > 200


def test_the_sandbox_has_its_rates(program: Program) -> None:
    days = ("--start", "2026-01-05", "--end", "2026-01-06")

    assert "2026-01-05" in run(program, "rates", "EUR", "USD", *days, "--csv", "--sandbox")


def test_files_beside_the_modules_are_there(
    program: Program, gateway_env: dict[str, str], tmp_path: Path
) -> None:
    assert "person" in json.loads(run(program, "customer", "example"))

    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER, encoding="utf-8")
    url = gateway_env["GATEWAY_BASE_URL"]
    login = {
        "GATEWAY_BASE_URL": url,
        "GATEWAY_AUTH_URL": f"{url}{AUTHORIZE_PATH}",
        "GATEWAY_CLIENT_ID": SANDBOX_CLIENT_ID,
        "BROWSER": f"{sys.executable} {browser} %s",
    }
    run(program, "login", **login)

    assert "Until " in run(program, "status", **login)
