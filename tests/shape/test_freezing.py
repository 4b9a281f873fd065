"""What PyInstaller is told, and what all freezers see; tests/frozen makes the apps themselves."""

import ast
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway_sdk._pyinstaller import hook_dirs
from gateway_sdk.cli import app


@pytest.mark.parametrize("there", [["gateway_sdk"], ["gateway_sdk", "currency_converter"]])
def test_the_hook_names_the_files_of_each_package(
    monkeypatch: pytest.MonkeyPatch, there: list[str]
) -> None:
    fake = SimpleNamespace(
        is_package=there.__contains__, collect_data_files=lambda package: [package]
    )
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", fake)
    (folder,) = hook_dirs()

    found = runpy.run_path(str(Path(folder) / "hook-gateway_sdk.py"))["datas"]

    assert found == there


def test_freezers_see_every_command() -> None:
    tree = ast.walk(ast.parse(Path(app.__file__).read_text(encoding="utf-8")))
    imports = (node for node in tree if isinstance(node, ast.ImportFrom))
    seen = {it.name for one in imports if one.module == "gateway_sdk.cli" for it in one.names}

    assert seen == app.COMMANDS.keys()
