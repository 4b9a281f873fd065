"""Functions of the user that are not async, or want other arguments than they get."""

import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock, create_autospec

import httpx
import pytest
import wrapt
from pydantic import SecretStr

from gateway_sdk import Advice, ConfigurationError, GatewaySession, LoginError, Outcome
from gateway_sdk._files import LockFile
from gateway_sdk.auth import (
    ImplicitFlow,
    MemoryStore,
    PrivateFileStore,
    SharedTokenSource,
    Token,
    login,
)
from tests.auth.responses import AUTHORIZE, CALLBACK, FLOW
from tests.support.calls import CALLS
from tests.support.logins import KEY
from tests.support.scripted import scripted

OK = httpx.Response(200, json={})
TOKEN = Token("t")


async def function() -> Token:
    return TOKEN


async def needing(scope: str) -> Token:
    return Token(scope)


def plain(*_: object) -> Token:
    return TOKEN


class Source:
    async def token(self, rejected: object = None) -> Token:
        return TOKEN


class Called:
    async def __call__(self) -> Token:
        return TOKEN


def giving(wanting: Callable[[str], Awaitable[Token]]) -> Callable[[], Awaitable[Token]]:
    """Give the function what it needs; for those who look at it, it still needs that."""

    @wraps(wanting)
    def give() -> Awaitable[Token]:
        return wanting("t")

    return give


@wrapt.decorator
def given_by_wrapt(wanting: Any, _: Any, args: Any, given: Any) -> Any:
    return wanting("t", *args, **given)


def with_signature(wanting: Any) -> Any:
    """As `functools.wraps` copies it from a function that has one."""
    twin = giving(wanting)
    vars(twin)["__signature__"] = inspect.signature(wanting)
    return twin


def source_with(token: Any) -> Any:
    source: Any = Source()
    source.token = token
    return source


OF_TYPES: dict[str, Any] = {"TOKEN": TOKEN}
if sys.version_info >= (3, 14):  # where annotations may be what only type checkers know
    for number, kind in enumerate(("Unknown", "TOKEN.Unknown", "'Unknown' | None")):
        exec(f"async def function_{number}() -> {kind}: return TOKEN", OF_TYPES)  # noqa: S102
FITTING: list[Any] = [
    *(function, lambda: needing("t"), partial(needing, "t"), partial(needing, scope="t"), Called()),
    *(Called().__call__, giving(needing), given_by_wrapt(needing), with_signature(needing)),
    *(AsyncMock(return_value=TOKEN, spec=function), create_autospec(function, return_value=TOKEN)),
    *(Source(), Source().token, source_with(lambda rejected: function())),
    *(source_with(AsyncMock(return_value="t")), partial(next, (function() for _ in range(1)))),
    *(OF_TYPES.get(f"function_{number}", function) for number in range(3)),
]


@pytest.mark.parametrize("given", FITTING)
async def test_what_can_be_called_is_called(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=given)
    await CALLS["order_history"](gateway)
    assert [it.headers["Authorization"] for it in engine.requests] == ["Bearer t"]


async def at_once(*, rejected: object = None) -> Token:
    return Token("t", scope=str(rejected))


UNFIT: list[Any] = [needing, partial(needing), lambda scope: scope, Called.__call__]


@pytest.mark.parametrize("given", [*UNFIT, *map(source_with, (function, at_once))])
def test_what_wants_other_arguments_is_refused_at_once(given: Any) -> None:
    """It would fail at the first call, or at the first 401, as if a login could help."""
    wanted = r"without arguments or an object with async token\(rejected=None\)$"
    with pytest.raises(ConfigurationError, match=wanted):
        GatewaySession("https://gateway.test", access_token=given)


@pytest.mark.parametrize("given", [*UNFIT, login])
def test_an_acquire_that_wants_arguments_is_refused_at_once(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^acquire must be .* lambda: login\(flow\)$"):
        SharedTokenSource(MemoryStore(), acquire=given)


class PlainStore(MemoryStore):
    load = plain  # type: ignore[assignment]


PLAIN: dict[str, Any] = {
    "access_token": plain,
    "access_token.token": source_with(plain),
    "acquire": SharedTokenSource(MemoryStore(), acquire=plain),  # type: ignore[arg-type]
    "store.load": SharedTokenSource(PlainStore(), acquire=function),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("named", PLAIN)
async def test_a_plain_function_is_named_at_each_call(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """No login helps against it: nobody may wait for one."""
    gateway, engine, _ = scripted(monkeypatch, access_token=PLAIN[named])
    for _ in range(2):
        problem = f"^create_customer: {named} is a plain function: make it async"
        with pytest.raises(ConfigurationError, match=problem) as caught:
            await CALLS["create_customer"](gateway)
        told = caught.value.outcome, caught.value.advice, engine.requests
        assert told == (Outcome.NOT_SENT, Advice.FIX, [])


@dataclass(frozen=True)
class Unchecked(Token):
    """Made by an `__init__` of its own."""


LINE = Unchecked(SecretStr("t\n"), None, 0.0, frozenset())


@pytest.mark.parametrize(
    ("acquire", "problem"),
    [
        (Mock(return_value=TOKEN), "acquire is a plain function: make it async"),
        (
            AsyncMock(return_value=LINE),
            "acquire returned what cannot be sent: the access token has white space",
        ),
    ],
)
async def test_an_acquire_that_has_to_be_corrected_is_called_once_in_a_while(
    tmp_path: Path, acquire: Any, problem: str
) -> None:
    """It may have opened a window. Nobody waits for the token of this login."""
    store = PrivateFileStore(KEY, tmp_path / "tokens")
    source = SharedTokenSource(store, acquire)

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=problem):
            await source.token()
    acquire.assert_called_once_with()
    lock = LockFile(store.path.with_suffix(".lock"))
    assert lock.acquire()
    lock.release()


@pytest.mark.parametrize("pasted", [plain, AsyncMock(return_value=None)])
async def test_a_paste_that_returns_no_text_ends_the_login(pasted: Any) -> None:
    with pytest.raises(LoginError, match=r"^(paste is a plain|the pasted address must be a str)"):
        await login(FLOW, redirect_uri="https://elsewhere.test/", show=str, paste=pasted)


async def test_a_login_names_what_is_no_flow() -> None:
    for wrong in (AUTHORIZE, None, ImplicitFlow):
        with pytest.raises(ConfigurationError, match=r"^flow must be an ImplicitFlow"):
            await login(wrong, redirect_uri=CALLBACK, browser=False)  # type: ignore[arg-type]
