"""The files that an app needs beside the modules, such as the page of a login."""  # noqa: N999

from importlib import import_module
from typing import Any

hooks: Any = import_module("PyInstaller.utils.hooks")
datas = hooks.collect_data_files("gateway_sdk")
