"""What PyInstaller is told, and what all freezers see; tests/frozen makes the apps themselves."""

import ast
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway_sdk._pyinstaller import hook_dirs
from gateway_sdk.cli import app


def test_the_hooks_name_the_files_of_each_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = {
        path.stem.removeprefix("hook-"): path
        for folder in hook_dirs()
        for path in Path(folder).glob("hook-*.py")
    }
    fake = SimpleNamespace(collect_data_files=lambda package: [package])
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", fake)

    files = {name: runpy.run_path(str(path))["datas"] for name, path in hooks.items()}

    assert files == {"gateway_sdk": ["gateway_sdk"], "gateway_sdk.sandbox": ["currency_converter"]}


def test_freezers_see_every_command() -> None:
    tree = ast.walk(ast.parse(Path(app.__file__).read_text(encoding="utf-8")))
    imports = (node for node in tree if isinstance(node, ast.ImportFrom))
    seen = {it.name for one in imports if one.module == "gateway_sdk.cli" for it in one.names}

    assert seen == app.COMMANDS.keys()
