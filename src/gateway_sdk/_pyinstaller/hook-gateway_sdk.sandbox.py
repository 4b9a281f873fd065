"""The rates of the sandbox, which come with their package as a file."""  # noqa: N999

from importlib import import_module
from typing import Any

hooks: Any = import_module("PyInstaller.utils.hooks")
datas = hooks.collect_data_files("currency_converter")
