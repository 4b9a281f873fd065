"""Who does not answer: a user who is not there, a login that hangs, a store that hangs."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import LoginError, LoginTimeoutError, TokenStoreError
from gateway_sdk.auth import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    SharedTokenSource,
    Token,
    _shared_source,
)
from gateway_sdk.auth.token import text_of
from tests.support import virtual_time
from tests.support.failing_steps import turns
from tests.support.keyrings import locked_keyring
from tests.support.logins import KEY, Clock, Person, Store, make_token, set_time

HOUR = 3600.0


class LoopTime(Clock):
    """The time of day and the monotonic clock, both by the event loop."""

    def __call__(self) -> float:
        return self.now + virtual_time.now()


@pytest.fixture
def loop_time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return set_time(monkeypatch, LoopTime())


class Nobody:
    """Opens a window at each login, in which nobody logs in for five minutes."""

    def __init__(self) -> None:
        self.windows: list[float] = []
        self.is_back = False

    async def __call__(self) -> Token:
        self.windows.append(virtual_time.now())
        if self.is_back:
            return make_token(len(self.windows), expires_at=1_000_000 + virtual_time.now() + 60)
        await asyncio.sleep(300)
        raise LoginTimeoutError("the login was not finished within 300 s")

    async def calls(self, source: SharedTokenSource, minutes: int) -> set[str]:
        """Call once a minute, and return the errors' texts."""
        said: set[str] = set()
        for _ in range(minutes):
            try:
                async with asyncio.timeout(30):
                    await source.token()
            except (LoginTimeoutError, TimeoutError) as error:
                said.add(str(error))
            await asyncio.sleep(60)
        return said


def test_a_night_without_a_user_opens_few_windows(loop_time: Clock) -> None:
    """Each hold is twice as long, up to an hour; then the store can bring a token."""

    async def night() -> None:
        source = SharedTokenSource(store := MemoryStore(), nobody := Nobody())
        said = await nobody.calls(source, 600)
        begun = nobody.windows
        waits = [round((b - a - 300) / 60) for a, b in pairwise(begun)]
        assert waits == [1, 1, 2, 4, 8, 16, 32]
        assert any("nobody has finished the last 8 logins" in text for text in said)
        # In the morning, somebody logs in elsewhere; the next login opens a window as on any day.
        await store.save(
            found := make_token("found", expires_at=1_000_000 + virtual_time.now() + 60)
        )
        assert await source.token() is found
        await asyncio.sleep(60)
        nobody.is_back = True
        assert (await source.token()).expires_at
        assert len(begun) == 9

    virtual_time.run(night())


def test_a_login_that_hangs_ends_and_the_next_caller_starts_anew(loop_time: Clock) -> None:
    """As long as it hung, every call joined it."""
    asked: list[float] = []

    async def acquire() -> Token:
        asked.append(virtual_time.now())
        if len(asked) == 1:
            await asyncio.Event().wait()
        return make_token(len(asked))

    async def day() -> None:
        source = SharedTokenSource(Store(), acquire)
        with pytest.raises(LoginTimeoutError, match="failed: it has not ended within 600 s"):
            await source.token()
        await asyncio.sleep(30)
        assert text_of(await source.token()).endswith("-2")
        assert asked == [0, 630]

        asked.clear()
        source = SharedTokenSource(Store(), acquire, acquire_timeout=None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOUR):
                await source.token()
        await source.aclose()
        assert len(asked) == 1

    virtual_time.run(day())


def workers() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("gateway_sdk-file", "gateway_sdk-keyring")]


@pytest.fixture(params=["file", "keyring"])
def stuck(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Any, threading.Event]]:
    """Provide a store that hangs until the event is set."""
    with locked_keyring() as may_go:
        store: Any = KeyringStore(KEY)
        if request.param == "file":
            store = PrivateFileStore(KEY, tmp_path / "tokens")
            read = store._read
            monkeypatch.setattr(store, "_read", lambda: may_go.wait() and read())
        yield store, may_go


async def gives_up(work: Coroutine[Any, Any, object]) -> None:
    """Begin work, and leave it when it waits."""
    task = asyncio.ensure_future(work)
    await turns(3)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_store_that_hangs_takes_one_thread(stuck: tuple[Any, threading.Event]) -> None:
    """Who asks again joins; who asks for something else waits until it has ended."""
    store, may_go = stuck
    for _ in range(1440):
        await gives_up(store.load())
    await gives_up(store.save(make_token("lost")))
    assert len(workers()) == 1
    joining, saving = (
        asyncio.ensure_future(work) for work in (store.load(), store.save(Token("t")))
    )
    await turns(3)
    assert len(workers()) == 1
    may_go.set()
    assert await joining is None
    await saving


async def test_a_thread_that_cannot_start_leaves_the_store_usable(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(RuntimeError, match="thread"):
            await store.load()
    assert await store.load() is None


async def test_callers_do_not_wait_until_a_token_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go on, also with a second one; the store gets each, the last one last."""
    busy, saved = asyncio.Event(), list[str]()

    async def save(token: Token) -> None:
        await busy.wait()
        saved.append(text_of(token)[-1])

    monkeypatch.setattr(store := Store(), "save", save)
    source = SharedTokenSource(store, Person())
    first = await source.token()
    second = await source.token(first)
    assert (source.ready(), saved) == (second, [])
    busy.set()
    await source._saving.join()
    assert saved == ["1", "2"]


PROGRAM = """
import asyncio, sys
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource, Token, TokenKey

folder, *key = sys.argv[1:]

async def acquire():
    return Token("new")

async def main():
    await SharedTokenSource(PrivateFileStore(TokenKey(*key), folder), acquire).token()

asyncio.run(main())
"""


async def test_a_program_that_ends_at_once_has_saved_its_token(store: PrivateFileStore) -> None:
    command = [sys.executable, "-c", PROGRAM, str(store.path.parent)]
    command += [KEY.authorization_url, KEY.client_id, KEY.gateway]
    await asyncio.to_thread(subprocess.run, command, check=True)
    saved = await store.load()
    assert saved is not None
    assert text_of(saved) == "new"
    assert [path.name for path in store.path.parent.iterdir()] == [store.path.name]


@pytest.mark.parametrize("hangs", [False, True])
async def test_the_end_of_a_program_waits_a_little_for_the_store(
    hangs: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of the user is cancelled with its task, and asked once more."""
    asked: list[str] = []

    async def save(token: Token) -> None:
        asked.append(text_of(token)[-1])
        if hangs or len(asked) == 1:
            await asyncio.Event().wait()

    monkeypatch.setattr(store := Store(), "save", save)
    monkeypatch.setattr(_shared_source, "_LAST_SAVE", 0.01)
    source = SharedTokenSource(store, Person())
    await source.token()
    await turns(2)
    await source.aclose()
    assert asked == ["1", "1"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert ("not saved" in caplog.text) is hangs


async def test_a_folder_that_hangs_is_no_login_for_each_thread(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a file is waited for no longer than a login takes, in the same one thread."""
    monkeypatch.setattr(_shared_source, "DEFAULT_LOGIN_TIMEOUT", 0.01)
    monkeypatch.setattr(_shared_source, "_TIMEOUT", 0.01)
    may_go = threading.Event()
    monkeypatch.setattr(store, "_read", may_go.wait)
    for _ in range(3):
        with pytest.raises(TokenStoreError, match="cannot be read: TimeoutError"):
            await SharedTokenSource(store, Person(LoginError("no"))).token()
    assert len(workers()) == 1
    may_go.set()
