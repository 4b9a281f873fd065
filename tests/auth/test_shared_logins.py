import asyncio
import gc
import traceback
import weakref
from typing import Any

import pytest

from gateway_sdk import (
    AuthorizationDeniedError,
    ConfigurationError,
    GatewayError,
    LoginError,
    LoginTimeoutError,
)
from gateway_sdk.auth import SharedTokenSource, Token
from gateway_sdk.auth.token import text_of
from gateway_sdk.outcome import Repeatability
from tests.support.logins import Clock, Person, Store, make_token
from tests.support.secrecy import CANARY, texts_of

DENIED = AuthorizationDeniedError(
    "the authorization server refused the login",
    code="access_denied",
    description="not on Sundays",
    uri="https://login.test/help",
)


async def refusal(source: SharedTokenSource) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await source.token()
    return caught.value


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (LookupError(CANARY), "the login failed: LookupError"),
        (TimeoutError(CANARY), "the login failed: TimeoutError"),
        (asyncio.CancelledError(CANARY), "the login was cancelled"),
        (None, "acquire must return a Token"),
        (f"{CANARY}-text", "acquire must return a Token"),
        (
            make_token("old", expires_at=999_000.0),
            "the login returned a token that has already expired",
        ),
    ],
)
async def test_a_login_without_a_usable_token_is_a_login_error(answer: Any, told: str) -> None:
    """Every failure of a login is a LoginError without secrets; no token is stored."""
    store = Store()
    source = SharedTokenSource(store, Person(answer), clock=Clock())

    error = await refusal(source)

    assert type(error) is LoginError
    assert str(error) == told
    assert CANARY not in texts_of(error)
    assert store.saves == 0


@pytest.mark.parametrize("mistake", [DENIED, LoginTimeoutError("nobody came", refused=2)])
async def test_each_caller_gets_its_own_error(mistake: LoginError) -> None:
    """All waiting callers get equal errors, but each its own object."""
    source = SharedTokenSource(Store(), person := Person(mistake))

    errors = await asyncio.gather(*(refusal(source) for _ in range(20)))

    assert person.asked == 1
    assert len({id(error) for error in [*errors, mistake]}) == 21
    for number, error in enumerate(errors):
        assert type(error) is type(mistake)
        assert vars(error) == vars(mistake)
        assert (error.args, str(error)) == (mistake.args, str(mistake))
        assert error.__suppress_context__
        error.of_call(f"call-{number}", Repeatability.READ, ())
    assert [error.operation for error in errors] == [f"call-{number}" for number in range(20)]
    assert mistake.operation is None
    assert (await refusal(source)).operation is None


async def test_a_failed_login_is_not_repeated_for_a_while() -> None:
    """For `hold` seconds the same error is raised without a login; then a login is tried."""
    clock, person = Clock(), Person(DENIED)
    source = SharedTokenSource(Store(), person, hold=30, clock=clock)

    first = await refusal(source)
    clock.now += 29.9
    second = await refusal(source)
    assert person.asked == 1
    clock.now += 0.2

    assert text_of(await source.token()) == f"{CANARY}-2"
    assert vars(first) == vars(second)
    assert isinstance(second, AuthorizationDeniedError)
    assert second.description == "not on Sundays"


async def test_the_hold_begins_when_the_login_failed() -> None:
    """The hold begins when the login fails, not when it starts."""
    clock, person = Clock(), Person(DENIED)
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person, hold=30, clock=clock)
    asking = asyncio.create_task(refusal(source))
    await person.started.wait()
    clock.now += 60
    person.may_finish.set()
    await asking

    await refusal(source)

    assert person.asked == 1


async def test_a_clock_that_is_set_back_ends_the_hold() -> None:
    """A failure in the future does not count: the hold would last until then."""
    clock = Clock()
    source = SharedTokenSource(Store(), person := Person(DENIED), clock=clock)
    await refusal(source)

    clock.now -= 1_000_000

    assert await source.token()
    assert person.asked == 2


async def test_without_a_hold_each_caller_tries() -> None:
    """With hold=0 the next caller tries a failed login again."""
    source = SharedTokenSource(Store(), person := Person(DENIED, DENIED), hold=0, clock=Clock())

    await refusal(source)
    await refusal(source)

    assert await source.token()
    assert person.asked == 3


async def test_a_success_ends_the_hold() -> None:
    """After a login, an earlier failure is forgotten."""
    clock = Clock()
    source = SharedTokenSource(Store(), person := Person(DENIED), hold=30, clock=clock)
    await refusal(source)
    clock.now += 31
    token = await source.token()
    clock.now -= 10

    assert text_of(await source.token(rejected=token)) == f"{CANARY}-3"
    assert person.asked == 3


async def test_a_token_from_elsewhere_ends_the_hold() -> None:
    """During a hold, a token that another process stored is used."""
    store = Store()
    source = SharedTokenSource(store, Person(DENIED), clock=Clock())
    await refusal(source)

    await store.save(kept := make_token("kept"))

    assert await source.token() is kept


async def test_other_errors_than_a_failed_login_are_not_held() -> None:
    """A wrong setting opened no window: it is raised each time."""
    wrong = ConfigurationError("pass paste=")
    source = SharedTokenSource(Store(), person := Person(wrong, wrong), clock=Clock())

    errors = [await refusal(source), await refusal(source)]

    assert [str(error) for error in errors] == ["pass paste="] * 2
    assert person.asked == 2


async def test_a_held_failure_holds_nothing_of_the_login() -> None:
    """The kept error holds no frame of the login, whose variables are secret."""

    class Held:
        pass

    async def acquire() -> Token:
        held = Held()
        gone.append(weakref.ref(held))
        raise LoginError("no")

    gone: list[weakref.ref[Held]] = []
    source = SharedTokenSource(Store(), acquire, clock=Clock())

    depths = []
    for _ in range(5):
        error = await refusal(source)
        while error.__context__ is not None:
            error = error.__context__  # type: ignore[assignment]
        depths.append(len(list(traceback.walk_tb(error.__traceback__))))
    del error
    gc.collect()

    assert len(gone) == 1
    assert gone[0]() is None
    assert len(set(depths[1:])) == 1
