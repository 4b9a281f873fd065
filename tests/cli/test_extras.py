import subprocess
import sys

import pytest

from gateway_sdk.cli import main
from gateway_sdk.cli.failure import EXTRAS, how_to_install, require


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("typer", "cli", ["--help"]),
        ("rich", "cli", ["sandbox"]),
        ("starlette", "sandbox", ["sandbox", "--port", "0"]),
        ("uvicorn", "sandbox", ["sandbox", "--port", "0"]),
        ("babel", "sandbox", ["demo"]),
        ("matplotlib", "plot", ["demo"]),
        ("matplotlib", "plot", ["rates", "EUR", "USD", "--png", "x.png"]),
        ("starlette", "sandbox", ["countries", "--sandbox"]),
        ("simplejson", "cli", ["countries"]),
    ],
)
def test_missing_extra_is_named(module: str, extra: str, arguments: list[str]) -> None:
    """Without an extra the command says in one line how to get it, and nothing is started."""
    program = f"""
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacking())
sys.argv = ["gateway", *{arguments!r}]
from gateway_sdk.cli import main
main()
"""

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        f"gateway: this needs the extra [{extra}]: pip install '.[{extra}]' in a clone of "
        "gateway_sdk ('.[demo]' for every command)\n"
    )


def test_missing_extra_that_demo_does_not_bring_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is asked for, the library for Parquet is looked for."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(sys, "argv", ["gateway", "rates", "EUR", "USD", "--parquet", "x"])
    monkeypatch.setattr("gateway_sdk.cli.failure.find_spec", lambda _: None)

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "gateway: this needs the extra [parquet]: pip install '.[parquet]' in a clone of "
        "gateway_sdk\n"
    )


@pytest.mark.parametrize("module", [None, "rich.tabel", "gateway_sdk.cli.nonsense"])
def test_bug_is_not_taken_for_a_missing_extra(module: str | None) -> None:
    """Only the modules that an extra brings are cured by one."""
    assert how_to_install(module) is None


@pytest.mark.parametrize("module", sum(EXTRAS.values(), ()))
def test_modules_of_extras_exist(module: str) -> None:
    """The table of extras names modules that there are."""
    require(module)


def test_required_module_may_be_missing() -> None:
    """A module that is not installed is an error that names it."""
    with pytest.raises(ModuleNotFoundError) as caught:
        require("no_such_module")

    assert caught.value.name == "no_such_module"
