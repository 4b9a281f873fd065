import asyncio
import copy
import pickle
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
from gateway_sdk.auth.token import CachedToken, text_of
from tests.support.logins import KEY, Clock, Person, Store, at_once, make_token
from tests.support.secrecy import CANARY, texts_of


async def turns(count: int) -> None:
    """Let every task run for a few turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_without_a_token_a_login_takes_place() -> None:
    """The token of a login is returned and stored."""
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)

    token = await source.token()

    assert text_of(token) == f"{CANARY}-1"
    assert await store.load() is token
    assert person.asked == 1


async def test_a_token_in_memory_costs_no_wait() -> None:
    """With a usable token, asking for one does not wait for a turn of the event loop."""
    store = Store(make_token("kept"))
    source = SharedTokenSource(store)
    await source.token()

    assert at_once(source) == await store.load()
    store.loads = 0
    assert [await source.token() for _ in range(100)] == [at_once(source)] * 100
    assert store.loads == 0


async def test_a_token_that_came_meanwhile_is_found_without_the_store() -> None:
    """Who waited for the lock of a login asks before it logs in."""
    store = Store(make_token("kept"))
    source = SharedTokenSource(store)
    token = await source.token()
    store.loads = 0

    assert await source._find() == token
    assert store.loads == 0


@pytest.mark.parametrize(
    ("life", "leeway", "seconds_left"),
    [
        (3600, 30, 30),
        (3600, 0, 0),
        (60, 30, 6),
        (60, 3600, 6),
        (1, 30, 0.1),
        (100, 2, 2),
    ],
)
async def test_a_token_is_renewed_beside_the_calls_shortly_before_its_end(
    life: float, leeway: float, seconds_left: float
) -> None:
    """It is renewed within the leeway, at most a tenth of its lifetime, and used until then."""
    clock = Clock()
    first = make_token("first", expires_at=clock.now + life, life=life)
    second = make_token("second", expires_at=clock.now + 2 * life, life=life)
    source = SharedTokenSource(Store(), Person(first, second), leeway=leeway, clock=clock)

    assert await source.token() is first
    clock.now += life - seconds_left - 0.01
    assert await source.token() is first
    await turns(10)
    clock.now += 0.02
    assert await source.token() is (first if seconds_left else second)
    await turns(10)
    assert await source.token() is second


@pytest.mark.parametrize("stored", [False, True])
async def test_a_clock_that_is_set_back_harms_no_token_and_prolongs_none(stored: bool) -> None:
    """A token from the future is used, but for no longer than its lifetime."""
    clock, monotonic = Clock(), Clock(0)
    token = make_token("first", expires_at=clock.now + 3600)
    if stored:
        clock.now -= 500_000
        source = SharedTokenSource(Store(token), None, clock=clock, monotonic=monotonic)
    else:
        source = SharedTokenSource(Store(), Person(token), clock=clock, monotonic=monotonic)
        assert await source.token() is token
        clock.now -= 500_000

    assert await source.token() is token
    clock.now += 3599
    monotonic.now += 3599
    assert await source.token() is token
    clock.now += 1
    monotonic.now += 1

    assert source.ready() is None


async def test_an_inconsistent_record_ends_at_its_expiry() -> None:
    """A token that ended before it was obtained counts as valid until its end."""
    clock = Clock()
    odd = Token("odd", expires_at=clock.now + 5, obtained_at=clock.now + 10)
    source = SharedTokenSource(Store(odd), clock=clock, monotonic=Clock(0))

    assert await source.token() is odd
    clock.now += 5
    assert source.ready() is None


@pytest.mark.parametrize("form", [lambda token: token, text_of, lambda t: SecretStr(text_of(t))])
async def test_a_rejected_token_is_replaced(form: Callable[[Token], Any]) -> None:
    """A token that the gateway refused is not returned again, in whichever form it is rejected."""
    person = Person()
    source = SharedTokenSource(Store(), person)
    first = await source.token()

    second = await source.token(rejected=form(first))

    assert text_of(second) == f"{CANARY}-2"
    assert await source.token() is second
    assert person.asked == 2


async def test_a_late_rejection_does_not_drop_the_newer_token() -> None:
    """A 401 for an older token returns the present one, at once and without a login."""
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)
    first = await source.token()
    second = await source.token(rejected=first)
    store.loads = 0

    late = source.token(rejected=first)
    with pytest.raises(StopIteration) as ended:
        late.send(None)

    assert ended.value.value is second
    assert person.asked == 2
    assert store.loads == 0


async def test_only_the_last_refused_tokens_are_remembered() -> None:
    """A process that runs for years does not collect all refused tokens."""
    source = SharedTokenSource(Store(make_token("kept")))
    await source.token()

    for number in range(10 * _MAX_REFUSED):
        await source.token(rejected=make_token(number))

    assert len(source._refused) == _MAX_REFUSED
    assert f"{CANARY}-{10 * _MAX_REFUSED - 1}" in source._refused


async def test_tokens_that_are_refused_again_and_again_end_the_call() -> None:
    """A caller does not renew without end if each token of the store is refused."""

    class Fickle(Store):
        async def load(self) -> Token | None:
            await super().load()
            token = make_token(self.loads)
            asyncio.get_running_loop().call_soon(source.reject, token)
            return token

    store = Fickle()
    source = SharedTokenSource(store)

    with pytest.raises(LoginRequiredError, match="refused each new access token at once: log in"):
        await source.token()

    assert store.loads == 3


async def test_logins_that_are_refused_as_they_come_end_the_call() -> None:
    """The same with logins, and without a hold between them."""

    async def acquire() -> Token:
        token = await person()
        asyncio.get_running_loop().call_soon(source.reject, token)
        return token

    person = Person()
    source = SharedTokenSource(Store(), acquire, hold=0)

    with pytest.raises(TokenRejectedError, match="refused each new access token at once"):
        await source.token()

    assert person.asked == 3


async def test_useless_logins_are_held_back_after_the_second() -> None:
    """A gateway that refuses every token costs two logins, and then none during the hold."""
    clock, person = Clock(), Person()
    source = SharedTokenSource(Store(), person, hold=30, clock=clock)

    first = await source.token()
    second = await source.token(rejected=first)
    with pytest.raises(TokenRejectedError, match="refuses the access tokens of the latest logins"):
        await source.token(rejected=second)
    with pytest.raises(TokenRejectedError):
        await source.token()
    assert person.asked == 2

    clock.now += 30.1
    assert text_of(await source.token()) == f"{CANARY}-3"


async def test_a_login_may_bring_the_same_token_again() -> None:
    """Some servers issue the same token again: after a login it counts as accepted."""
    token = make_token("again")
    person = Person(token, token)
    source = SharedTokenSource(Store(), person)

    await source.token()
    assert await source.token(rejected=token) is token
    assert await source.token() is token
    assert person.asked == 2


async def test_renewal_ahead_of_time_may_fail() -> None:
    """If a renewal fails within the leeway, the token is used until it expires."""
    clock = Clock()
    store = Store(make_token("kept", expires_at=clock.now + 1000))
    source = SharedTokenSource(store, clock=clock)
    kept = await source.token()
    store.down = TokenStoreError("away")

    clock.now += 980
    assert await source.token() is kept
    with pytest.raises(TokenStoreError):
        await source.token(rejected=kept)
    clock.now += 20
    with pytest.raises(TokenStoreError):
        await source.token()


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_a_token_that_is_not_refused_is_returned_even_late(refused: int) -> None:
    """A token of a login is returned even if all tokens before it were refused."""

    async def acquire() -> Token:
        token = await person()
        if person.asked <= refused:
            asyncio.get_running_loop().call_soon(source.reject, token)
        return token

    person = Person()
    source = SharedTokenSource(Store(), acquire, hold=0)

    assert text_of(await source.token()) == f"{CANARY}-{refused + 1}"
    assert person.asked == refused + 1


def test_a_source_shows_no_token_and_is_not_pickled() -> None:
    """Its repr names the store; it holds a secret, so it cannot be pickled or copied."""
    source = SharedTokenSource(MemoryStore())
    source._cached = CachedToken(make_token("held"), 0, 0, 0)

    assert repr(source) == "<SharedTokenSource in <MemoryStore>>"
    for save in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            save(source)


async def test_a_source_knows_its_gateway_from_its_store() -> None:
    """The gateway is the one of the store's key; without a key it is None."""
    assert SharedTokenSource(MemoryStore(KEY)).gateway == "https://gateway.test"
    assert SharedTokenSource(MemoryStore()).gateway is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"store": None}, "store"),
        ({"store": "keyring"}, "store"),
        ({"store": MemoryStore}, "store"),
        ({"acquire": "login"}, "acquire"),
        ({"acquire": make_token(1)}, "acquire"),
        ({"leeway": -1}, "leeway"),
        ({"leeway": None}, "leeway"),
        ({"leeway": float("nan")}, "leeway"),
        ({"hold": -1}, "hold"),
        ({"hold": float("inf")}, "hold"),
        ({"hold": True}, "hold"),
        ({"clock": 7}, "clock"),
        ({"monotonic": 7}, "monotonic"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    """A source with invalid arguments is not created."""
    with pytest.raises(ConfigurationError, match=f"^{named} must be") as caught:
        SharedTokenSource(**{"store": MemoryStore(), **arguments})

    assert CANARY not in texts_of(caught.value)


async def test_an_acquire_that_is_not_async_is_a_failed_login() -> None:
    """An `acquire` that is a plain function is a failed login."""
    source = SharedTokenSource(Store(), lambda: make_token("plain"))  # type: ignore[arg-type,return-value]

    with pytest.raises(LoginError, match="TypeError") as caught:
        await source.token()

    assert CANARY not in texts_of(caught.value)


def test_the_key_of_a_store_must_be_a_token_key() -> None:
    """A key of another type would switch off the check that a token goes to its own gateway."""
    store = Store()
    store.key = "https://gateway.test"  # type: ignore[assignment]  # that is the point

    with pytest.raises(ConfigurationError, match="must be a TokenKey"):
        SharedTokenSource(store)


async def test_a_renewal_that_comes_too_late_changes_nothing() -> None:
    """If another event loop has just renewed the token, no login takes place."""
    source = SharedTokenSource(store := Store(), person := Person())
    token = await source.token()
    store.loads = 0

    await source._renew()

    assert await source.token() is token
    assert (store.loads, person.asked) == (0, 1)
