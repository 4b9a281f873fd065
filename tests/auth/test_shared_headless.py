import asyncio
import time
from pathlib import Path

import pytest

from gateway_sdk import LoginRequiredError, TokenStoreError
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource, Token
from tests.support.logins import KEY, Clock, Store, at_once, make_token
from tests.support.secrecy import CANARY, texts_of


async def why_not(source: SharedTokenSource, rejected: Token | None = None) -> str:
    """Return the text of a LoginRequiredError, after searching it for secrets."""
    with pytest.raises(LoginRequiredError) as caught:
        await source.token(rejected)
    assert CANARY not in texts_of(caught.value)
    return str(caught.value)


async def test_without_a_token_the_command_is_named() -> None:
    """In a process without a user, the error names the command."""
    assert await why_not(SharedTokenSource(Store())) == (
        "there is no access token: log in with `gateway login`"
    )


async def test_the_error_for_an_expired_token() -> None:
    """The error says when the stored token expired."""
    clock = Clock()
    source = SharedTokenSource(Store(make_token("old", expires_at=clock.now - 5)), clock=clock)

    assert await why_not(source) == (
        "the access token expired at 1970-01-12 13:46:35 UTC: log in with `gateway login`"
    )


async def test_the_error_for_a_refused_token() -> None:
    """The error says that the gateway refused the token."""
    kept = make_token("kept")
    source = SharedTokenSource(Store(kept), clock=Clock())

    assert await why_not(source, rejected=kept) == (
        "the gateway refused the access token: log in with `gateway login`"
    )


async def test_a_token_that_another_process_keeps_is_found_without_a_restart() -> None:
    """The store is read for each call that has no usable token."""
    clock, store = Clock(), Store()
    source = SharedTokenSource(store, clock=clock)
    await why_not(source)

    await store.save(first := make_token("first", expires_at=clock.now + 100))
    assert await source.token() is first
    clock.now += 100
    await why_not(source)
    await store.save(second := make_token("second"))
    assert await source.token() is second
    await why_not(source, rejected=second)
    await store.save(third := make_token("third"))

    assert await source.token() is third


async def test_a_refused_token_is_tried_again_after_a_while() -> None:
    """If the gateway was at fault, workers recover without a login, soon after a short fault."""
    clock, kept = Clock(), make_token("kept")
    source = SharedTokenSource(Store(kept), hold=30, clock=clock)
    assert await source.token() is kept

    for pause in (1, 2, 4, 8, 16, 30, 30):
        await why_not(source, rejected=kept)
        clock.now += pause - 0.1
        await why_not(source)
        clock.now += 0.2
        assert await source.token() is kept


async def test_refusals_in_a_pause_do_not_prolong_it() -> None:
    """A thousand refused calls that were in flight together count as one refusal."""
    clock, kept = Clock(), make_token("kept")
    source = SharedTokenSource(Store(kept), hold=30, clock=clock)
    for _ in range(1000):
        await why_not(source, rejected=kept)
        clock.now += 0.0009

    clock.now += 0.11

    assert await source.token() is kept


async def test_a_success_ends_the_pause() -> None:
    """A success of another call shows that the refusal was wrong; the next one counts as first."""
    clock, kept = Clock(), make_token("kept")
    source = SharedTokenSource(Store(kept), hold=30, clock=clock)
    await source.token()
    for _ in range(5):
        await why_not(source, rejected=kept)
        source.note_success(kept)
        assert at_once(source) == kept
    source.note_success(make_token("other"))

    await why_not(source, rejected=kept)
    source.note_success(make_token("other"))
    await why_not(source)
    clock.now += 1

    assert await source.token() is kept


async def test_a_token_about_to_expire_is_used_by_a_new_process_too() -> None:
    """A token with 25 s left is used, also by a process that has just started."""
    clock = Clock()
    store = Store(make_token("kept", expires_at=clock.now + 25), KEY)
    source = SharedTokenSource(store, clock=clock)

    assert await source.token() == await store.load()
    clock.now += 24.9
    assert await source.token() == await store.load()
    clock.now += 0.2

    assert (await why_not(source)).startswith("the access token expired at")


async def test_a_token_about_to_expire_is_looked_for_beside_the_calls() -> None:
    """In the last 30 s the store is read once per second, while calls use the token in memory."""
    clock, monotonic = Clock(), Clock(0)
    store = Store(make_token("kept", expires_at=clock.now + 25))
    source = SharedTokenSource(store, clock=clock, monotonic=monotonic)
    kept = await source.token()
    store.loads = 0

    for _ in range(100):
        assert at_once(source) is kept
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        monotonic.now += 0.1
    assert store.loads in (10, 11)
    await store.save(newer := make_token("newer"))
    monotonic.now += 1

    assert at_once(source) is kept
    await source._renewal.join()
    assert at_once(source) is newer


async def test_an_expired_token_is_not_tried_again() -> None:
    """Waiting does not help a token that was refused and has expired."""
    clock = Clock()
    kept = make_token("kept", expires_at=clock.now + 10)
    source = SharedTokenSource(Store(kept), hold=30, clock=clock)
    await why_not(source, rejected=kept)

    clock.now += 31

    assert (await why_not(source)).startswith("the access token expired at")


async def test_without_a_hold_a_refused_token_is_returned_again() -> None:
    """With hold=0 the same token is returned: the session then knows that there is no other."""
    source = SharedTokenSource(Store(kept := make_token("kept")), hold=0, clock=Clock())

    assert await source.token(rejected=kept) is kept


async def test_by_default_it_is_the_time_of_day_that_counts() -> None:
    """Without a clock argument, tokens expire by the time of day."""
    alive = make_token("alive", expires_at=time.time() + 3600)
    dead = make_token("dead", expires_at=time.time() - 3600)

    assert await SharedTokenSource(Store(alive)).token() is alive
    await why_not(SharedTokenSource(Store(dead)))


async def test_an_unusable_record_is_an_error(tmp_path: Path) -> None:
    """In a process without a user, an invalid file is an error that names it; it is not changed."""
    store = PrivateFileStore(KEY, tmp_path)
    await store.save(make_token("old"))
    store.path.write_bytes(b"{")

    with pytest.raises(TokenStoreError, match=r"no valid token for https://gateway\.test: log in"):
        await SharedTokenSource(store).token()

    assert store.path.read_bytes() == b"{"
