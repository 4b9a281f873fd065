"""The files that an app needs beside the modules: pages, and the rates of the sandbox."""  # noqa: N999

from importlib import import_module
from typing import Any

hooks: Any = import_module("PyInstaller.utils.hooks")
# The second one comes with the extra `sandbox`.
packages = filter(hooks.is_package, ("gateway_sdk", "currency_converter"))
datas = [found for package in packages for found in hooks.collect_data_files(package)]
