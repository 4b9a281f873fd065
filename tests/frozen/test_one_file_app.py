"""An app of one file, made of the README's first program; run by nox in its own environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT, blocks

FIRST = next(block for block in blocks(ROOT / "README.md") if block.language == "python")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    (folder / "first.py").write_text(FIRST.text)
    made = [sys.executable, "-m", "PyInstaller", "--onefile", "--log-level=WARN", "first.py"]
    subprocess.run(made, cwd=folder, check=True)
    return folder / "dist" / "first"


def run(app: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the app as a user does who has no Python: nothing of this environment is passed on."""
    return subprocess.run(
        [app],
        env={**environment, "HOME": str(app.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_program_makes_its_call(app: Path, gateway_env: dict[str, str]) -> None:
    ended = run(app, **gateway_env)

    assert ended.returncode == 0, ended.stderr
    assert "countries, for example" in ended.stdout


def test_what_is_loaded_late_is_in_the_app_too(app: Path, gateway_env: dict[str, str]) -> None:
    """Stores and logins are imported by name, when a session has no token."""
    settings = {name: gateway_env[name] for name in ("GATEWAY_BASE_URL", "GATEWAY_TENANT_ID")}
    login = {"GATEWAY_AUTH_URL": "http://127.0.0.1/authorize", "GATEWAY_CLIENT_ID": "client"}

    ended = run(app, **settings, **login)

    assert "LoginRequiredError: " in ended.stderr
    assert "ModuleNotFoundError" not in ended.stderr
