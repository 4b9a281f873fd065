"""What is missing without an extra, and what is not a matter of extras."""

import importlib

import pytest

from gateway_sdk import MissingExtraError
from gateway_sdk._extras import needing_extra


def test_a_missing_package_names_its_extra() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[otel\]'") as caught,
        needing_extra("otel", "gateway_sdk.otel"),
    ):
        importlib.import_module("no_such_package")

    assert caught.value.extra == "otel"


def test_a_missing_module_of_ours_is_no_matter_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needing_extra("otel", "gateway_sdk.otel"):
        importlib.import_module("gateway_sdk.no_such_module")

    assert not isinstance(caught.value, MissingExtraError)
