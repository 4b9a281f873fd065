"""Options of a session and its views, where they are not seen on the wire."""

import inspect
import weakref
from typing import ClassVar

import pytest

from gateway_sdk import ConfigurationError, GatewaySession
from gateway_sdk._options import _NOT_IN_HEADERS


def test_what_is_left_out_reads_as_that() -> None:
    """The signature of with_options shows that leaving an option out is not None."""
    signature = inspect.signature(GatewaySession.with_options)

    assert str(signature.parameters["tenant_id"]).endswith("= ...")


@pytest.mark.parametrize("name", _NOT_IN_HEADERS)
def test_headers_that_are_not_the_users(name: str) -> None:
    """A header that the SDK sets, or could not honour, is refused with the reason."""
    for spelling in (name, name.upper(), name.title()):
        with pytest.raises(ConfigurationError, match=f"must not set {spelling}: "):
            GatewaySession("https://g.test", access_token="t", headers={spelling: "x"})


def test_an_attribute_named_token_makes_no_source() -> None:
    """A client that keeps its token in an attribute cannot be asked for one."""

    class Client:
        token: ClassVar = {"access_token": "x"}

    with pytest.raises(ConfigurationError, match="access_token must be"):
        GatewaySession("https://g.test", access_token=Client())  # type: ignore[arg-type]


def test_a_view_costs_no_cycle() -> None:
    """A view goes when its last user lets go of it, without the garbage collector."""
    gateway = GatewaySession("https://g.test", access_token="t")
    view = gateway.with_options(tenant_id="acme")
    gone = weakref.ref(view)
    _ = view.wallet

    del view, _

    assert gone() is None
