"""Objects whose `__init__` raised: a traceback with locals can show them."""

import importlib
import inspect
import pkgutil
from logging import LoggerAdapter
from typing import Any

import pytest

import gateway_sdk
from gateway_sdk import ConfigurationError, GatewaySession, Token
from gateway_sdk.models import CreateRequest

FOREIGN = ("gateway_sdk.cli", "gateway_sdk._pyinstaller.")
"""No user makes classes of the command line; PyInstaller alone runs its hooks."""


def classes() -> list[type]:
    found: list[type] = []
    for module in pkgutil.walk_packages(gateway_sdk.__path__, "gateway_sdk."):
        if not module.name.startswith(FOREIGN):
            of_module = vars(importlib.import_module(module.name)).values()
            found += [
                kind
                for kind in of_module
                if inspect.isclass(kind)
                and kind.__module__ == module.name
                and _can_be_half_built(kind)
            ]
    return found


def _can_be_half_built(kind: Any) -> bool:
    made_by_dataclass = vars(kind).get("__dataclass_params__")
    if made_by_dataclass is not None and made_by_dataclass.init:
        return False  # it has every field before any code of ours runs
    if issubclass(kind, LoggerAdapter):
        return False  # modules make it while they are loaded
    try:
        kind.__new__(kind)
    except TypeError:
        return False  # it is abstract, an enumeration or a named tuple
    return True


CLASSES = classes()


def test_the_classes_that_matter_are_among_them() -> None:
    names = {kind.__name__ for kind in CLASSES}

    assert names >= {"Engine", "SharedState", "CreateRequest", "GatewayError", "Sandbox", "Token"}


def test_a_half_built_object_has_a_repr() -> None:
    kinds: list[Any] = list(CLASSES)
    for half_built in (kind.__new__(kind) for kind in kinds):
        assert repr(half_built)
        assert isinstance(str(half_built), str)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: GatewaySession("ftp://g.test", access_token="t"), ConfigurationError),
        (lambda: Token("not a token"), ConfigurationError),
        (lambda: CreateRequest(customer_typ="x"), ValueError),  # type: ignore[call-arg]
    ],
)
def test_the_locals_of_a_failed_construction_can_be_shown(make: Any, error: Any) -> None:
    with pytest.raises(error) as caught:
        make()

    for entry in caught.traceback:
        for value in entry.frame.f_locals.values():
            assert repr(value)
