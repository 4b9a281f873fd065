"""Which token a shared source returns, for how long, and what its store may do."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from gateway_sdk import (
    ConfigurationError,
    LoginError,
    LoginRequiredError,
    TokenRejectedError,
    TokenStoreError,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token
from gateway_sdk.auth._shared_source import _MAX_REFUSED
from gateway_sdk.auth.source import StaticTokenSource, TokenSource
from gateway_sdk.auth.token import CachedToken, text_of
from tests.support import virtual_time
from tests.support.failing_steps import turns
from tests.support.logins import KEY, Clock, Person, Store, at_once, begin, make_token, set_time
from tests.support.secrecy import CANARY, logged, texts_of


async def why_not(source: SharedTokenSource, rejected: Token | None = None) -> str:
    """Return the text of a LoginRequiredError, after searching it for secrets."""
    with pytest.raises(LoginRequiredError, match=r": log in with `gateway login`$") as caught:
        await source.token(rejected)
    assert CANARY not in texts_of(caught.value)
    return str(caught.value).partition(": log in")[0]


async def test_a_token_comes_from_memory_then_the_store_then_a_login() -> None:
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)
    token = await source.token()
    assert text_of(token) == f"{CANARY}-1"
    assert await store.load() is token
    other = SharedTokenSource(store, person)
    assert await other.token() is token
    store.loads = 0
    assert [at_once(other), await other.token()] == [token] * 2
    assert (person.asked, store.loads) == (1, 0)


@pytest.mark.parametrize(
    ("life", "leeway", "seconds_left"),
    [(3600, 30, 30), (3600, 0, 0), (60, 30, 6), (60, 3600, 6), (1, 30, 0.1), (100, 2, 2)],
)
async def test_a_token_is_renewed_beside_the_calls_shortly_before_its_end(
    clock: Clock, life: float, leeway: float, seconds_left: float
) -> None:
    """It is renewed within the leeway, at most a tenth of its lifetime, and used until then."""
    first = make_token("first", expires_at=clock.now + life, life=life)
    second = make_token("second", expires_at=clock.now + 2 * life, life=life)
    source = SharedTokenSource(Store(), Person(first, second), leeway=leeway)
    assert await source.token() is first
    clock.now += life - seconds_left - 0.01
    assert await source.token() is first
    await turns(10)
    clock.now += 0.02
    assert await source.token() is (first if seconds_left else second)
    await turns(10)
    assert await source.token() is second


@pytest.mark.parametrize("stored", [False, True])
async def test_a_clock_that_is_set_back_harms_no_token_and_prolongs_none(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, stored: bool
) -> None:
    set_time(monkeypatch, clock, monotonic := Clock(0))
    token = make_token("first", expires_at=clock.now + 3600)
    if stored:
        clock.now -= 500_000
        source = SharedTokenSource(Store(token))
    else:
        source = SharedTokenSource(Store(), Person(token))
        assert await source.token() is token
        clock.now -= 500_000
    for seconds in (0, 3599):
        clock.now += seconds
        monotonic.now += seconds
        assert await source.token() is token
    clock.now += 1
    monotonic.now += 1
    assert source.ready() is None


async def test_a_clock_that_was_ahead_and_is_set_right_ends_no_token(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Nobody can log in here, so the gateway decides."""
    set_time(monkeypatch, clock, monotonic := Clock(0))
    token = make_token("first", expires_at=clock.now + 3 * 3600)
    clock.now += 2 * 3600
    sources: list[TokenSource] = [SharedTokenSource(Store(token)), StaticTokenSource(token)]
    for source in sources:
        assert await source.token() is token
    clock.now -= 2 * 3600
    for clock_of in (clock, monotonic):
        clock_of.now += 1.5 * 3600
    for source in sources:
        assert await source.token() is token
    for clock_of in (clock, monotonic):
        clock_of.now += 1.5 * 3600
    for source in sources:
        with pytest.raises(LoginRequiredError, match="expired"):
            await source.token()


@pytest.mark.parametrize("form", [lambda token: token, text_of, lambda t: SecretStr(text_of(t))])
async def test_a_rejected_token_is_replaced_once(form: Callable[[Token], Any]) -> None:
    source = SharedTokenSource(store := Store(), person := Person())
    first = await source.token()
    second = await source.token(rejected=form(first))
    assert text_of(second) == f"{CANARY}-2"
    assert await source.token() is second
    store.loads = 0
    late = source.token(rejected=form(first))
    with pytest.raises(StopIteration) as ended:
        late.send(None)
    assert ended.value.value is second
    assert (person.asked, store.loads) == (2, 0)


async def test_only_the_last_refused_tokens_are_remembered() -> None:
    source = SharedTokenSource(Store(make_token("kept")))
    await source.token()
    for number in range(10 * _MAX_REFUSED):
        await source.token(rejected=make_token(number))
    assert len(source._refused) == _MAX_REFUSED
    assert f"{CANARY}-{10 * _MAX_REFUSED - 1}" in source._refused


@pytest.mark.parametrize("refused", range(4))
async def test_a_caller_gets_the_third_token_or_an_error(refused: int) -> None:
    """A token that is not refused as it comes is returned, even late; three are the end."""

    async def acquire() -> Token:
        token = await person()
        if person.asked <= refused:
            asyncio.get_running_loop().call_soon(source.reject, token)
        return token

    source = SharedTokenSource(Store(), acquire, hold=0)
    person = Person()
    if refused < 3:
        assert text_of(await source.token()) == f"{CANARY}-{refused + 1}"
    else:
        with pytest.raises(TokenRejectedError, match="refused each new access token at once") as e:
            await source.token()
        assert e.value.status == 401
    assert person.asked == min(refused + 1, 3)


async def test_a_token_about_to_expire_is_looked_for_beside_the_calls(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """In the last 30 s the store is read once per second, while calls use the token in memory."""
    set_time(monkeypatch, clock, monotonic := Clock(0))
    store = Store(make_token("kept", expires_at=clock.now + 25))
    source = SharedTokenSource(store)
    kept = await source.token()
    store.loads = 0
    for _ in range(100):
        assert at_once(source) is kept
        await turns(2)
        monotonic.now += 0.1
    assert store.loads in (9, 10)
    store.down = TokenStoreError("away")
    monotonic.now += 1
    assert at_once(source) is kept
    await turns(3)
    assert at_once(source) is kept
    store.down = None
    await store.save(newer := make_token("newer"))
    monotonic.now += 1
    assert at_once(source) is kept
    await source._renewal.join()
    assert at_once(source) is newer


async def test_a_renewal_stops_if_another_event_loop_has_just_finished_one() -> None:
    source = SharedTokenSource(store := Store(), person := Person())
    asking = asyncio.create_task(source.token())
    await asyncio.sleep(0)
    source._cached = CachedToken(other := make_token("other"), 30)
    assert await asking is other
    assert (store.loads, person.asked) == (0, 0)


@pytest.mark.parametrize(
    ("kept", "reject", "told"),
    [
        (None, False, "there is no access token"),
        (
            make_token("x", expires_at=999_995),
            False,
            "the access token expired at 1970-01-12 13:46",
        ),
        (make_token("x"), True, "the gateway refused the access token"),
        (make_token("x", expires_at=1_000_010), True, "the gateway refused the access token"),
    ],
)
async def test_without_a_user_the_error_says_what_to_do(
    clock: Clock, kept: Token | None, reject: bool, told: str
) -> None:
    """An expired token is not tried again; one that another process keeps is found."""
    source = SharedTokenSource(store := Store(kept))
    assert (await why_not(source, kept if reject else None)).startswith(told)
    clock.now += 31
    if kept is not None and kept.expires_at:
        assert (await why_not(source)).startswith("the access token expired at")
    await store.save(newer := make_token("newer", expires_at=clock.now + 25))
    assert await source.token() is newer
    clock.now += 24.9
    assert await source.token() is newer
    clock.now += 0.2
    await why_not(source)
    await store.save(newest := make_token("newest"))
    assert await source.token() is newest


async def test_a_success_counts_while_the_store_is_read() -> None:
    """A caller that waits for a new token gets the old one if a call has just succeeded with it."""

    async def fail() -> None:
        source.note_success(kept)
        raise TokenStoreError("down")

    source = SharedTokenSource(store := Store(make_token("kept")))
    kept = await source.token()
    store.load = fail  # type: ignore[method-assign]
    assert await source.token(rejected=kept) is kept


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ("store", [None, "keyring", MemoryStore]),
        ("acquire", ["login", make_token(1)]),
        ("leeway", [-1, None, float("nan")]),
        ("hold", [-1, float("inf"), True]),
    ],
)
def test_bad_arguments_are_named(named: str, wrong: list[Any]) -> None:
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"^{named} must be") as caught:
            SharedTokenSource(**{"store": MemoryStore(), named: value})
        assert CANARY not in texts_of(caught.value)


async def test_a_source_knows_its_gateway_from_its_store() -> None:
    """A key of another type would switch off the check that a token goes to its own gateway."""
    assert SharedTokenSource(MemoryStore(KEY)).gateway == "https://gateway.test"
    store = Store()
    assert SharedTokenSource(store).gateway is None
    store.key = "https://gateway.test"  # type: ignore[assignment]  # that is the point
    with pytest.raises(ConfigurationError, match="must be a TokenKey"):
        SharedTokenSource(store)


def test_a_source_shows_no_token() -> None:
    source = SharedTokenSource(MemoryStore())
    source._cached = CachedToken(make_token("held"), 0)
    assert repr(source).startswith("<SharedTokenSource in <")
    assert CANARY not in repr(source)


MISTAKES: list[tuple[BaseException, str]] = [
    (TokenStoreError("the disk is full"), "the disk is full"),
    (LookupError(CANARY), "LookupError"),
    (PermissionError(13, CANARY), "PermissionError"),
    (asyncio.CancelledError(CANARY), "CancelledError"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES)
async def test_any_error_of_a_store_is_a_store_error_without_a_login(
    mistake: BaseException, told: str
) -> None:
    """Of an error of the user's store only the type is shown: its text may hold a token."""
    source = SharedTokenSource(store := Store(make_token("kept")), person := Person())
    store.down = mistake
    with pytest.raises(TokenStoreError, match=f"{told}$") as caught:
        await source.token()
    assert CANARY not in texts_of(caught.value)
    store.down = None
    token = await source.token()
    store.down = mistake
    assert await source.token() is token
    assert person.asked == 0


@pytest.mark.parametrize("kept", [f"{CANARY}-text", SecretStr(CANARY), 7, {"access_token": CANARY}])
async def test_a_store_must_return_tokens(kept: Any) -> None:
    with pytest.raises(TokenStoreError, match="no Token") as caught:
        await SharedTokenSource(Store(kept), Person()).token()
    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(("mistake", "told"), MISTAKES)
async def test_a_token_that_cannot_be_kept_is_used(
    mistake: BaseException, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source = SharedTokenSource(store := Store(), person := Person())
    asking = await begin(source, person)
    store.down = mistake
    person.may_finish.set()
    token = await asking
    assert at_once(source) is token
    (warning,) = [record for record in caplog.records if record.name.startswith("gateway_sdk")]
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == f"the access token is not saved for other processes: {told}"
    assert CANARY not in logged(caplog.records)


async def test_a_source_may_be_closed_while_the_store_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no error of the store; who waits gets one of the login."""
    busy = asyncio.Event()

    async def load() -> None:
        busy.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store := Store(), "load", load)
    source = SharedTokenSource(store, Person())
    asking = asyncio.create_task(source.token())
    await busy.wait()
    await source.aclose()
    with pytest.raises(LoginError, match="the login was ended"):
        await asking
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("step", ["load", "save"])
def test_a_store_that_never_replies_is_an_error(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        monkeypatch.setattr(store := Store(), step, hang)
        source = SharedTokenSource(store, Person())
        if step == "load":
            with pytest.raises(TokenStoreError, match="cannot be read: TimeoutError"):
                await source.token()
        else:
            await source.token()
            assert virtual_time.now() < 1  # callers go on with the token in memory
            await source._saving.join()
        assert virtual_time.now() == 60

    virtual_time.run(scenario())
    assert ("not saved for other processes: TimeoutError" in caplog.text) is (step == "save")
