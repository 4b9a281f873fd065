import asyncio
import logging
from typing import Any

import pytest
from pydantic import SecretStr

from gateway_sdk import LoginError, LoginRequiredError, TokenStoreError
from gateway_sdk.auth import SharedTokenSource, Token
from gateway_sdk.auth.token import text_of
from tests.support import virtual_time
from tests.support.logins import Clock, Person, Store, at_once, make_token
from tests.support.secrecy import CANARY, logged, texts_of

OTHER_MISTAKES: dict[str, Any] = {
    "an error of the user's": LookupError(CANARY),
    "an error of the system": PermissionError(13, CANARY),
    "a cancellation of its own": asyncio.CancelledError(CANARY),
}


async def test_the_store_is_asked_first() -> None:
    """A stored token is used, and no login takes place."""
    kept, person = make_token("kept"), Person()
    source = SharedTokenSource(Store(kept), person)

    assert await source.token() is kept
    assert person.asked == 0


async def test_a_rejected_token_is_not_taken_from_the_store_again() -> None:
    """In a process with a user, a refused token stays refused, in the store too."""
    clock, store = Clock(), Store(kept := make_token("kept"))
    source = SharedTokenSource(store, Person(), clock=clock)

    assert await source.token() is kept
    first = await source.token(rejected=kept)
    await store.save(kept)
    clock.now += 1_000_000
    second = await source.token(rejected=first)

    assert [text_of(first), text_of(second)] == [f"{CANARY}-1", f"{CANARY}-2"]


async def test_another_process_may_have_renewed_it() -> None:
    """After a 401 the store is read before a login is opened."""
    store, person = Store(make_token("old")), Person()
    source = SharedTokenSource(store, person)
    old = await source.token()
    await store.save(newer := make_token("newer"))

    assert await source.token(rejected=old) is newer
    assert person.asked == 0


async def test_a_token_in_memory_outlives_its_store() -> None:
    """If the store fails, the token in memory is still used."""
    store = Store(make_token("kept"))
    source = SharedTokenSource(store)
    token = await source.token()

    store.down = TokenStoreError("down")

    assert await source.token() is token


async def test_an_unreadable_store_is_an_error_without_a_login() -> None:
    """A store that cannot be read is an error; when it works again, it is used."""
    store, person = Store(make_token("kept")), Person()
    store.down = TokenStoreError("the shelf is stuck")
    source = SharedTokenSource(store, person)

    with pytest.raises(TokenStoreError, match=r"^the shelf is stuck$"):
        await source.token()
    store.down = None

    assert await source.token() is await store.load()
    assert person.asked == 0


@pytest.mark.parametrize("mistake", OTHER_MISTAKES.values(), ids=OTHER_MISTAKES)
async def test_any_error_of_a_store_is_a_store_error(mistake: BaseException) -> None:
    """Of an error of the user's store only the type is shown: its text may hold a token."""
    store = Store()
    store.down = mistake

    with pytest.raises(TokenStoreError, match=type(mistake).__name__) as caught:
        await SharedTokenSource(store, Person()).token()

    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize("kept", [f"{CANARY}-text", SecretStr(CANARY), 7, {"access_token": CANARY}])
async def test_a_store_must_return_tokens(kept: Any) -> None:
    """An object that is no Token is neither sent nor shown."""
    with pytest.raises(TokenStoreError, match="no Token") as caught:
        await SharedTokenSource(Store(kept), Person()).token()

    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (TokenStoreError("the disk is full"), "the disk is full"),
        *((mistake, type(mistake).__name__) for mistake in OTHER_MISTAKES.values()),
    ],
    ids=["an error of a store", *OTHER_MISTAKES],
)
async def test_a_token_that_cannot_be_kept_is_used(
    mistake: BaseException, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If saving fails, one warning is logged, and the token is used."""
    caplog.set_level(logging.DEBUG)
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)
    person.may_finish.clear()
    asking = asyncio.create_task(source.token())
    await person.started.wait()
    store.down = mistake
    person.may_finish.set()

    token = await asking

    assert at_once(source) is token
    (warning,) = [record for record in caplog.records if record.name.startswith("gateway_sdk")]
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == f"the access token is not saved for other processes: {told}"
    assert CANARY not in logged(caplog.records)


@pytest.mark.parametrize("step", ["load", "save"])
async def test_a_source_may_be_closed_while_the_store_is_busy(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no error of the store: waiting callers get an error, and nothing is logged."""
    busy = asyncio.Event()

    async def work(*_: object) -> None:
        busy.set()
        await asyncio.Event().wait()

    store = Store()
    monkeypatch.setattr(store, step, work)
    source = SharedTokenSource(store, Person())
    asking = asyncio.create_task(source.token())
    await busy.wait()

    await source.aclose()
    done = (await asyncio.gather(asking, return_exceptions=True))[0]

    if step == "load":
        assert isinstance(done, LoginError)
        assert str(done) == "the login was ended"
    else:
        assert done is source.ready()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


class Slow(Store):
    """Takes some seconds for each load, by a clock that a test controls."""

    def __init__(self, token: Token | None, seconds: float) -> None:
        super().__init__(token)
        self.monotonic = Clock(0)
        self._seconds = seconds

    async def load(self) -> Token | None:
        self.monotonic.now += self._seconds
        return await super().load()


@pytest.mark.parametrize(("seconds", "kept"), [(0.2, 0.2), (5, 5), (50, 5)])
async def test_a_slow_failure_of_a_store_is_kept_for_as_long_as_it_took(
    seconds: float, kept: float
) -> None:
    """A store that hangs does not delay each call; it is asked again after a while."""
    store = Slow(make_token("kept"), seconds)
    store.down = TokenStoreError("hangs")
    source = SharedTokenSource(store, monotonic=store.monotonic)

    errors = []
    for _ in range(100):
        with pytest.raises(TokenStoreError, match="hangs") as caught:
            await source.token()
        errors.append(caught.value)
    assert store.loads == 1
    assert len({id(error) for error in errors}) == 100
    store.down = None
    store.monotonic.now += kept

    assert await source.token() is await store.load()


async def test_a_success_counts_while_the_store_is_read() -> None:
    """A caller that waits for a new token gets the old one if a call has just succeeded with it."""

    async def fail() -> None:
        source.note_success(kept)
        raise TokenStoreError("down")

    store = Store(make_token("kept"))
    source = SharedTokenSource(store)
    kept = await source.token()
    store.load = fail  # type: ignore[method-assign]

    assert await source.token(rejected=kept) is kept


async def test_a_quick_answer_is_not_kept() -> None:
    """A store that replies at once is asked each time: its token may have changed."""
    store = Slow(None, 0.09)
    source = SharedTokenSource(store, monotonic=store.monotonic)

    for _ in range(3):
        with pytest.raises(LoginRequiredError):
            await source.token()

    assert store.loads == 3


async def test_a_slow_answer_is_forgotten_when_another_token_is_saved() -> None:
    """After a login the store is read again."""
    store = Slow(None, 5)
    source = SharedTokenSource(store, Person(), monotonic=store.monotonic)
    first = await source.token()
    newer = make_token("newer")
    await store.save(newer)

    assert await source.token(rejected=first) is newer


async def test_a_token_in_memory_goes_on_being_used_while_the_store_hangs() -> None:
    """No call waits for a store while a token in memory works."""
    clock = Clock()
    store = Store(make_token("kept", expires_at=clock.now + 25))
    source = SharedTokenSource(store, clock=clock)
    kept = await source.token()
    hangs = asyncio.Event()

    async def load() -> None:
        hangs.set()
        await asyncio.Event().wait()

    store.load = load  # type: ignore[method-assign]
    for _ in range(10):
        assert at_once(source) is kept
        await asyncio.sleep(0)

    assert hangs.is_set()
    await source.aclose()


@pytest.mark.parametrize("step", ["load", "save"])
def test_a_store_that_never_replies_is_an_error(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a minute the store counts as failed."""

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        store = Store()
        monkeypatch.setattr(store, step, hang)
        source = SharedTokenSource(store, Person(), monotonic=virtual_time.now)
        if step == "load":
            with pytest.raises(TokenStoreError, match="cannot be read: TimeoutError"):
                await source.token()
        else:
            await source.token()
        assert virtual_time.now() == 60

    virtual_time.run(scenario())

    assert ("not saved for other processes: TimeoutError" in caplog.text) is (step == "save")
