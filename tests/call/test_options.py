"""Options of a session and its views, where they are not seen on the wire."""

import pickle
import ssl
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import httpx
import pytest

from gateway_sdk import ConfigurationError, GatewaySession, GatewayTransport, RateLimit
from gateway_sdk._call.options import OPTIONS, ViewSettings
from gateway_sdk._settings import DECLARED, ENVIRONMENT, EnvironmentSettings, SessionSettings
from gateway_sdk._transport.public import CONNECTION

URL = "https://g.test"


def test_an_attribute_named_token_makes_no_source() -> None:
    class Client:
        token: ClassVar = {"access_token": "x"}

    with pytest.raises(ConfigurationError, match="access_token must be"):
        GatewaySession("https://g.test", access_token=Client())  # type: ignore[arg-type]


def test_a_view_costs_no_cycle() -> None:
    gateway = GatewaySession("https://g.test", access_token="t")
    view = gateway.with_options(tenant_id="acme")
    gone = weakref.ref(view)
    _ = view.wallet

    del view, _

    assert gone() is None


OF_AN_ENGINE: dict[str, list[Any]] = {
    "max_connections": [50, 1],
    "verify": [True, "ca.pem", ssl.create_default_context()],
    "cert": ["client.pem"],
    "proxy": ["http://proxy.test:3128"],
    "trust_env": [True, False],
}


def seams() -> dict[str, Any]:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    return {"transport": transport, "http_client": httpx.AsyncClient(transport=transport)}


def test_every_setting_of_an_engine_is_looked_at() -> None:
    assert OF_AN_ENGINE.keys() == CONNECTION.keys()


@pytest.mark.parametrize("seam", ["transport", "http_client"])
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OF_AN_ENGINE.items() for value in values]
)
def test_what_has_no_effect_beside_a_transport_is_refused(
    seam: str, name: str, value: object
) -> None:
    given = {seam: seams()[seam], name: value}

    with pytest.raises(ConfigurationError, match=rf"^leave out {name}: .* effect beside {seam}="):
        GatewaySession("https://g.test", access_token="t", **given)


def test_all_that_has_no_effect_is_named_at_once() -> None:
    given: dict[str, Any] = {"verify": "ca.pem", "proxy": "http://p.test", "trust_env": False}

    with pytest.raises(ConfigurationError, match=r"^leave out verify, proxy, trust_env: "):
        GatewaySession("https://g.test", access_token="t", **given, transport=seams()["transport"])


@pytest.mark.parametrize("seam", ["transport", "http_client"])
def test_what_has_an_effect_beside_a_transport_is_taken(seam: str) -> None:
    given = {seam: seams()[seam], "proxy": None, "cert": None, "rate_limit": RateLimit(5)}

    assert "new" in repr(GatewaySession("https://g.test", access_token="t", **given))


def test_a_setting_has_a_type_a_default_and_a_check() -> None:
    login = {"auth_url", "client_id", "token_store"}

    assert {*SessionSettings.__optional_keys__, "access_token"} == DECLARED.keys()
    assert ViewSettings.__optional_keys__ == OPTIONS.keys()
    assert EnvironmentSettings.__optional_keys__ == {*DECLARED, "base_url", *login}
    assert ENVIRONMENT.keys() <= EnvironmentSettings.__optional_keys__


@pytest.mark.parametrize("name", DECLARED)
def test_a_wrong_setting_is_named_by_the_error(name: str) -> None:
    given: Any = {"access_token": "t", name: object()}

    with pytest.raises(ConfigurationError) as caught:
        GatewaySession("https://g.test", **given)

    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made here
    assert (error.setting, str(error)) == (name, f"{name} {error.problem}")


@pytest.mark.parametrize(
    ("what", "call"),
    [
        (
            "GatewaySession",
            lambda given: GatewaySession("https://g.test", access_token="t", **given),
        ),
        ("GatewayTransport", lambda given: GatewayTransport(**given)),
        (
            "with_options",
            lambda given: GatewaySession("https://g.test", access_token="t").with_options(**given),
        ),
    ],
)
def test_an_unknown_argument_is_refused(what: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{what} has no argument 'colour'$"):
        call({"colour": "red"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tenant", "did you mean tenant_id?"),
        ("tenantid", "did you mean tenant_id?"),
        ("token", "did you mean access_token or token_header or token_store?"),
        ("time_out", "did you mean timeout?"),
        ("connections", "did you mean max_connections?"),
    ],
)
def test_a_name_that_is_no_argument_is_refused_with_the_one_that_is_meant(
    name: str, hint: str
) -> None:
    given: Any = {"base_url": "https://g.test", "access_token": "t", name: "acme"}

    with pytest.raises(ConfigurationError) as caught:
        GatewaySession.from_env(**given)

    assert str(caught.value) == f"from_env has no argument {name!r}: {hint}"


def test_a_subclass_may_have_arguments_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class TeamSession(GatewaySession):
        def __init__(self, base_url: str, *, team: str, **options: Any) -> None:
            super().__init__(base_url, **options)
            self.team = team

    given: Any = {"base_url": "https://g.test", "access_token": "t", "team": "orders"}

    assert TeamSession.from_env(**given).team == "orders"
