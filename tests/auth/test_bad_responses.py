"""The result of each invalid response: for its login, and for the next response."""

import pytest

from gateway_sdk.auth import LoginAttempt, Token
from gateway_sdk.errors import LoginError, MalformedResponseError, StateMismatchError
from tests.auth.bad_responses import CASES, Case
from tests.auth.responses import CALLBACK, CANARY, FLOW, GOOD, WAYS, Finish, finish, granted, paste

WRONG = [case for case in CASES if not isinstance(case.expected, Token)]
FOREIGN = [case for case in CASES if case.expected is StateMismatchError]
OURS = [case for case in CASES if case.expected is not StateMismatchError]


def outcome(case: Case, attempt: LoginAttempt, way: Finish) -> Token | type[LoginError]:
    try:
        return (
            paste(attempt, case.pasted) if case.pasted else way(attempt, case.fragment, case.query)
        )
    except LoginError as error:
        return type(error)


def test_the_table_is_complete() -> None:
    """Every number from 1 to 50 is in the table, and no name is repeated."""
    assert {case.number for case in CASES} == set(range(1, 51))
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_response_has_its_result(case: Case, way: Finish) -> None:
    """A response gives one class of error or one token, whether given in parts or as a URL."""
    assert outcome(case, FLOW.start(CALLBACK), way) == case.expected


@pytest.mark.parametrize("case", FOREIGN, ids=str)
def test_a_response_with_another_state_leaves_the_attempt_open(case: Case) -> None:
    """Without the login's state no response ends an attempt: the valid one is still accepted."""
    attempt = FLOW.start(CALLBACK)

    outcome(case, attempt, finish)

    assert attempt.is_open
    assert finish(attempt, GOOD) == granted()


@pytest.mark.parametrize("case", OURS, ids=str)
def test_a_response_with_the_state_ends_the_attempt(case: Case) -> None:
    """With the login's state, a response ends its attempt: valid, denied or malformed."""
    attempt = FLOW.start(CALLBACK)

    outcome(case, attempt, finish)

    assert not attempt.is_open
    with pytest.raises(StateMismatchError, match="used before"):
        finish(attempt, GOOD)


@pytest.mark.parametrize("text", ["{} x", "{}\r\nX: 1", "{}\x00", "{}\n", "\ud800{}", "{}\xe4"])
def test_raw_characters_in_a_token_are_refused(text: str) -> None:
    """Characters that a browser would have encoded are refused too."""
    token = text.format(CANARY)

    with pytest.raises(MalformedResponseError, match="RFC 6750"):
        finish(FLOW.start(CALLBACK), GOOD.replace(CANARY, token))


@pytest.mark.parametrize(("length", "expected"), [(64 * 1024, granted), (64 * 1024 + 1, None)])
@pytest.mark.parametrize("in_query", [0, 1, 30_000])
def test_the_longest_response_has_64_kib(length: int, expected: object, in_query: int) -> None:
    """Fragment and query together may have 65536 characters, and no more."""
    attempt = FLOW.start(CALLBACK)
    state = len(attempt.url.partition("state=")[2])
    query = "x" * in_query
    fragment = GOOD + "&x=" + "1" * (length - in_query - len(GOOD) - 3 - state + len("{state}"))

    if expected is None:
        with pytest.raises(MalformedResponseError, match="longer than 65536"):
            finish(attempt, fragment, query)
    else:
        assert finish(attempt, fragment, query) == granted()


def test_an_attempt_accepts_only_its_own_response() -> None:
    """Of two attempts at the same time, each is ended by its own state, in any order."""
    first, second = FLOW.start(CALLBACK), FLOW.start(CALLBACK)
    state = first.url.partition("state=")[2]

    with pytest.raises(StateMismatchError, match="another login"):
        finish(second, GOOD.replace("{state}", state))

    assert finish(second, GOOD) == granted()
    assert finish(first, GOOD) == granted()


@pytest.mark.parametrize("fragment", [GOOD, "error=access_denied&state={state}", "state={state}"])
def test_an_attempt_cannot_be_used_twice(fragment: str) -> None:
    """A second response is refused, whether the first one was valid or not."""
    attempt = FLOW.start(CALLBACK)
    outcome(Case(0, "first", StateMismatchError, fragment), attempt, finish)

    for again in (GOOD, fragment, "error=access_denied&state={state}"):
        with pytest.raises(StateMismatchError, match="used before"):
            finish(attempt, again)
    with pytest.raises(StateMismatchError, match="another login"):
        finish(attempt, GOOD.replace("{state}", "another"))
