import importlib
import subprocess
import sys
from typing import Any

import pytest

PACKAGES = ("gateway_sdk", "gateway_sdk.auth", "gateway_sdk.models")
LATE = (
    "gateway_sdk.auth._login",
    "gateway_sdk.auth._shared_source",
    "gateway_sdk.auth.flow",
    "gateway_sdk.auth._stores.store",
    "gateway_sdk.bulk",
    "gateway_sdk._content.body",
    "gateway_sdk._transport.connection",
    "gateway_sdk.models._base",
    "webbrowser",
)


SESSION = "GatewaySession('http://127.0.0.1:1', access_token='t')"
ENVIRONMENT = "import os; os.environ.update(GATEWAY_BASE_URL='http://127.0.0.1:1', "
STORED = f"{ENVIRONMENT}GATEWAY_AUTH_URL='https://login.test/', GATEWAY_CLIENT_ID='c'); "
OF_A_LOGIN = {"h11", "authlib", "webbrowser", "gateway_sdk.auth._login", "gateway_sdk.auth.flow"}
OF_STORES = {"keyring", "redis", "platformdirs", "gateway_sdk.auth._stores"}
OF_OTHER_STORES = {"gateway_sdk.auth._stores.services"}
OF_A_BULK_RUN = {"sqlite3", "gateway_sdk.bulk._start", "gateway_sdk.bulk._runner"}
# What a program does, and what it must not load for that.
USES = {
    "a session": (SESSION, OF_A_LOGIN | OF_STORES | OF_A_BULK_RUN),
    "from_env": (
        f"{ENVIRONMENT}GATEWAY_ACCESS_TOKEN='t'); GatewaySession.from_env()",
        OF_A_LOGIN | OF_STORES | OF_A_BULK_RUN,
    ),
    "a shared source": (
        "from gateway_sdk import auth; auth.SharedTokenSource(auth.MemoryStore())",
        OF_A_LOGIN | OF_A_BULK_RUN | OF_OTHER_STORES | OF_STORES - {"gateway_sdk.auth._stores"},
    ),
    "a stored login": (
        f"{STORED}GatewaySession.from_env()",
        OF_A_LOGIN | OF_A_BULK_RUN | {"keyring", "redis"},
    ),
    "bulk": ("from gateway_sdk import bulk; bulk.run", OF_A_LOGIN | OF_STORES),
    "a login": ("from gateway_sdk.auth import login", OF_STORES | OF_A_BULK_RUN),
    # Of authlib, it uses what builds a URL, and nothing that signs or sends.
    "an address of a login": (
        "from gateway_sdk import auth; auth.ImplicitFlow('https://a', 'c').start('http://[::1]:1')",
        {"authlib.integrations", "authlib.jose", "cryptography", "joserfc", "requests", "h11"},
    ),
}


def run(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def test_what_only_some_programs_use_is_loaded_late() -> None:
    loaded = run("import sys; from gateway_sdk import GatewaySession; print(*sys.modules)").split()

    assert set(LATE) & set(loaded) == set()
    assert sum(name.startswith("gateway_sdk") for name in loaded) <= 45


@pytest.mark.parametrize("use", USES)
def test_a_use_loads_nothing_of_others(use: str) -> None:
    code, others = USES[use]
    before = "import sys; before = set(sys.modules)"  # coverage, of the tests, loads sqlite3
    program = f"{before}; from gateway_sdk import GatewaySession; {code}"
    program += "; print(*(set(sys.modules) - before))"

    assert others & set(run(program).split()) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_when_it_is_used(package: str) -> None:
    module: Any = importlib.import_module(package)

    for name in module.__all__:
        code = f"import {package} as package; print(type(package.{name}).__name__ is not None)"
        assert getattr(module, name) is not None
        assert name in dir(module)
    assert {"TYPE_CHECKING", "lazy"}.isdisjoint(dir(module))
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
        "import gateway_sdk.auth._login.login, gateway_sdk.bulk._start;"
        "from gateway_sdk import auth, bulk; print(callable(auth.login), callable(bulk.run))"
    )

    assert run(code) == "True True"
