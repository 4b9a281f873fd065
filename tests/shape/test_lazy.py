import importlib
import subprocess
import sys
from typing import Any

import pytest

PACKAGES = ("gateway_sdk", "gateway_sdk.auth", "gateway_sdk.models")
LATE = (
    "gateway_sdk.auth._login",
    "gateway_sdk.auth._receiver",
    "gateway_sdk.auth._shared_source",
    "gateway_sdk.auth.flow",
    "gateway_sdk.auth.stores",
    "gateway_sdk.bulk",
    "gateway_sdk._content.body",
    "gateway_sdk._transport.connection",
    "gateway_sdk.models._base",
    "webbrowser",
)


def run(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def test_what_only_some_programs_use_is_loaded_late() -> None:
    loaded = run("import sys; from gateway_sdk import GatewaySession; print(*sys.modules)").split()

    assert set(LATE) & set(loaded) == set()
    assert sum(name.startswith("gateway_sdk") for name in loaded) <= 43


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_when_it_is_used(package: str) -> None:
    module: Any = importlib.import_module(package)

    for name in module.__all__:
        code = f"import {package} as package; print(type(package.{name}).__name__ is not None)"
        assert getattr(module, name) is not None
        assert name in dir(module)
    assert run(code) == "True"


def test_all_names_can_be_had_without_an_extra() -> None:
    code = "import sys; sys.modules['starlette'] = None; from gateway_sdk import *; print(bulk)"

    assert "gateway_sdk.bulk" in run(code)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        importlib.import_module(package).nothing  # noqa: B018 - reading it is the test


def test_a_late_name_is_the_function_and_not_its_module() -> None:
    code = (
        "import gateway_sdk.auth._login, gateway_sdk.bulk.run;"
        "from gateway_sdk import auth, bulk; print(callable(auth.login), callable(bulk.run))"
    )

    assert run(code) == "True True"
