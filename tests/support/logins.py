"""Clocks, users who log in, and stores, all controlled by a test."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token, TokenKey, _shared_source, token
from gateway_sdk.auth.source import FunctionTokenSource
from gateway_sdk.auth.token import text_of
from tests.support.secrecy import CANARY

KEY = TokenKey("https://login.test/authorize", "client-1", "https://gateway.test")


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def set_time(monkeypatch: pytest.MonkeyPatch, day: Clock, monotonic: Clock | None = None) -> Clock:
    """Let tokens and their sources read these clocks; one that is never set runs as the other."""
    clocks = SimpleNamespace(time=day, monotonic=monotonic or day)
    for module in (token, _shared_source):
        monkeypatch.setattr(module, "time", clocks)
    return day


def make_token(name: object, *, expires_at: float | None = None, life: float = 3600.0) -> Token:
    """Make a token whose text is a canary; *life* is its lifetime in seconds if it has an end."""
    began = None if expires_at is None else expires_at - life
    return Token(f"{CANARY}-{name}", expires_at=expires_at, obtained_at=began)


class Person:
    """Logs in when a test allows it: with the given results in turn, then with new tokens."""

    def __init__(self, *answers: object) -> None:
        self.asked = 0  # logins that began
        self.done = 0  # logins that ended, with or without a token
        self.started = asyncio.Event()  # set as soon as a login has begun
        self.ended = asyncio.Event()  # set as soon as a login has ended
        self.may_finish = asyncio.Event()  # while it is cleared, logins wait for it
        self.may_finish.set()
        self._answers = list(answers)

    async def __call__(self) -> Token:
        self.asked += 1
        self.started.set()
        try:
            await self.may_finish.wait()
        finally:
            self.done += 1
            self.ended.set()
        answer = self._answers.pop(0) if self._answers else make_token(self.asked)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]  # which may be the point of a test


class Store(MemoryStore):
    """Counts its uses, and fails while it has an error to raise."""

    def __init__(self, token: Token | None = None, key: TokenKey | None = None) -> None:
        super().__init__(key)
        self._token = token
        self.down: BaseException | None = None  # what every use raises; None if the store works
        self.loads = 0  # how often it was read
        self.saves = 0  # how often it was written

    async def load(self) -> Token | None:
        """Return the token after a turn of the event loop, as a real store does."""
        self.loads += 1
        await asyncio.sleep(0)
        if self.down:
            raise self.down
        return await super().load()

    async def save(self, token: Token) -> None:
        self.saves += 1
        await asyncio.sleep(0)
        if self.down:
            raise self.down
        await super().save(token)


def at_once(source: SharedTokenSource) -> Token:
    """Return the source's token, and fail if it takes a single turn of the event loop."""
    coroutine = source.token()
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    token: Token = ended.value.value
    return token


async def names(
    source: SharedTokenSource | FunctionTokenSource, count: int, rejected: Any = None
) -> set[str]:
    """Return the names of the tokens that so many callers get at the same time."""
    tokens = await asyncio.gather(*(source.token(rejected) for _ in range(count)))
    return {text_of(token).removeprefix(f"{CANARY}-") for token in tokens}


async def leave(*callers: "asyncio.Task[Any]") -> None:
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert all(caller.cancelled() for caller in callers)


async def begin(
    source: SharedTokenSource, person: Person, *rejected: Token
) -> "asyncio.Task[Token]":
    """Ask for a token until a login has begun, which the person does not finish yet."""
    person.may_finish.clear()
    person.started.clear()
    caller = asyncio.create_task(source.token(*rejected))
    await person.started.wait()
    return caller
