"""What `inspect.signature` shows of public callables, and so mocks, `help()` and editors."""

import copy
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from operator import attrgetter
from types import FunctionType
from typing import Any, Final, Unpack
from unittest.mock import create_autospec

import httpx
import pytest
from pydantic import ValidationError, validate_call
from tenacity import retry

from gateway_sdk import GatewayError, GatewaySession, GatewayTransport, bulk, operations
from gateway_sdk._call.options import OPTIONS, PER_CALL, PerCall
from gateway_sdk._checks import shown
from gateway_sdk._transport.settings import CONNECTION
from gateway_sdk.session import DECLARED
from tests.support.calls import ARGUMENTS

URL: Final = "https://gateway.test"


def session(**settings: Any) -> GatewaySession:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=[]))
    given = {"access_token": "t", "tenant_id": "acme", "transport": transport, **settings}
    return GatewaySession(URL, **given)


async def measure(item: str) -> int:
    return len(item)


VALID: Final[dict[str, tuple[Any, ...]]] = {  # what cannot be left out
    **ARGUMENTS,
    "GatewaySession": (URL,),
    "run": (measure, ["a"]),
    "send": (operations.LIST_COUNTRIES,),
    "exchange_rate_series_bulk": ([],),
}
ALONE: Final[dict[str, Any]] = {
    "GatewaySession": GatewaySession, "GatewayTransport": GatewayTransport, "run": bulk.run,
}  # fmt: skip
METHODS: Final = [  # "send", "wallet.order_history", ...
    f"{area}.{name}".lstrip(".")
    for area, kind in {"": GatewaySession, **inspect.get_annotations(GatewaySession)}.items()
    for name, it in vars(kind).items()
    if name[0] != "_" and isinstance(it, FunctionType | classmethod)
]
NAMES: Final = [*DECLARED, "into", "path", "body", "on_progress", "key", "dead_line", "colour"]
WRONG: Final = (TypeError, GatewayError)


def found(name: str) -> Any:
    return ALONE.get(name) or attrgetter(name)(session())


def mocked(name: str) -> Any:
    if name in ALONE:
        return create_autospec(ALONE[name])
    return attrgetter(name)(create_autospec(GatewaySession, instance=True))


async def result_of(called: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Call it, and wait for what it says of its arguments."""
    came = called(*given, **named)
    if isinstance(came, AsyncIterator):
        async with aclosing(came) as results:  # type: ignore[type-var]
            _ = [one async for one in results]
    elif isinstance(came, Awaitable):
        await came
    elif isinstance(came, GatewaySession | GatewayTransport):
        await came.aclose()


def valid(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    named = {"GatewaySession": {"access_token": "t"}}
    named["from_env"] = {"access_token": "t", "base_url": URL}
    return VALID.get(name.rpartition(".")[2], ()), named.get(name, {})


@pytest.mark.parametrize("name", [*ALONE, *METHODS])
async def test_a_mock_refuses_what_the_session_refuses(name: str) -> None:
    given, named = valid(name)
    mock, known = mocked(name), inspect.signature(found(name)).parameters

    for one in NAMES:
        more = {one: known[one].default if one in known else 5, **named}
        if one in known:
            if inspect.isawaitable(came := mock(*given, **more)):
                await came
            await result_of(found(name), *given, **more)
            continue
        with pytest.raises(TypeError):
            mock(*given, **more)
        with pytest.raises(WRONG, match=rf"argument '{one}'"):
            await result_of(found(name), *given, **more)
    for wrong in (given[1:], (*given, *range(9))) if given else (range(9),):
        with pytest.raises(TypeError):
            mock(*wrong, **named)
        with pytest.raises(TypeError):
            await result_of(found(name), *wrong, **named)


@pytest.mark.parametrize("name", [*ALONE, *METHODS])
async def test_a_default_that_is_shown_counts_as_not_given(name: str) -> None:
    given, named = valid(name)
    signature = inspect.signature(found(name))
    if "transport" in signature.parameters:  # beside which `max_connections` has no effect
        named["transport"] = httpx.MockTransport(lambda _: httpx.Response(200, json=[]))
    bound = signature.bind(*given, **named)
    bound.apply_defaults()

    await result_of(found(name), *bound.args, **bound.kwargs)


@pytest.mark.parametrize("wrap", [lambda it: wraps(it)(lambda: None), retry, retry()])
@pytest.mark.parametrize("name", [*ALONE, *METHODS])
def test_what_wraps_it_has_its_signature(name: str, wrap: Callable[[Any], Any]) -> None:
    """Without `self`, which a web framework would ask its callers for."""
    assert inspect.signature(wrap(found(name))) == inspect.signature(found(name))


CHECKED: Final = [
    name for name in METHODS if name[:3] in ("cur", "cus", "cou", "wal") and "bulk" not in name
]


@pytest.mark.parametrize("name", CHECKED)
async def test_pydantic_checks_its_arguments(name: str) -> None:
    """As for a tool of a language model; it has no schema of bytearray, nor of AsyncIterable."""
    given, _ = valid(name)
    called = validate_call(found(name))

    await result_of(called, *given, deadline=5.0)
    with pytest.raises(ValidationError, match="deadline"):
        await result_of(called, *given, deadline="soon")


@pytest.mark.parametrize("name", [*ALONE, *METHODS])
def test_no_type_of_a_signature_is_a_text(name: str) -> None:
    """Tools that make a schema of it, as those for language models, would not know the type."""
    signature = inspect.signature(found(name))
    kinds = [signature.return_annotation, *(it.annotation for it in signature.parameters.values())]

    assert [kind for kind in kinds if isinstance(kind, str)] == []


def test_views_inherit_what_is_shown_as_a_default() -> None:
    gateway = session(headers={"X-Team": "a"}, deadline=7.0)
    defaults = {name: one.default for name, one in
                inspect.signature(gateway.with_options).parameters.items()}  # fmt: skip

    view = gateway.with_options(**defaults)

    assert defaults.keys() == OPTIONS.keys()
    options = attrgetter(*OPTIONS)
    assert options(view._caller.options) == options(gateway._caller.options)


def test_defaults_are_shown_with_their_values() -> None:
    known = inspect.signature(GatewaySession).parameters

    assert {name: repr(known[name].default) for name in DECLARED if name != "access_token"} == {
        name: repr(default) for name, (default, _) in DECLARED.items() if name != "access_token"
    }
    assert str(known["max_connections"]) == "max_connections: int = 50"
    assert str(inspect.signature(GatewaySession.from_env).parameters["tenant_id"]).endswith("= ...")
    assert str(inspect.signature(session().country_data.list_countries)).startswith(
        "(*, headers: collections.abc.Mapping[str, str | None] | None = ..., "
        "deadline: float | None = ...) -> "
    )


@pytest.mark.parametrize(
    ("known", "told_by"),
    [
        ({"base_url", "access_token", *DECLARED}, GatewaySession.__init__),
        (OPTIONS.keys(), GatewaySession.with_options),
        (CONNECTION.keys(), GatewayTransport),
    ],
)
def test_the_docstring_names_every_setting(known: set[str], told_by: Any) -> None:
    """Those of a session have a line each; the others point at it."""
    told = re.findall(r"^    (\w+): ", text := str(inspect.getdoc(told_by)), re.MULTILINE)
    if told_by is not GatewaySession.__init__:
        told = re.findall(r"`(\w+)`", text)

    assert known - {*told} == set()


def test_a_signature_that_is_made_late_is_like_any_other() -> None:
    def function(first: int, **settings: Unpack[PerCall]) -> None: ...

    shown(inherited=PER_CALL)(function)
    late: Any = function.__dict__["__wrapped__"].__signature__

    assert not hasattr(late, "other")
    assert [*late.parameters] == ["first", "headers", "deadline"]
    assert not hasattr(late, "other")
    assert late == late.replace() == copy.copy(late) == inspect.signature(function)
    assert hash(late) == hash(late.replace())
    assert late.bind(1, deadline=5).arguments == {"first": 1, "deadline": 5}
