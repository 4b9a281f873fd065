"""No text of a response is in a message, a pickle, a traceback or a log."""

import logging
from urllib.parse import quote

import pytest

from gateway_sdk.auth import LoginAttempt
from gateway_sdk.errors import AuthorizationDeniedError, LoginError
from tests.auth.bad_responses import CASES, Case
from tests.auth.responses import (
    CALLBACK,
    CANARY,
    FLOW,
    GOOD,
    WAYS,
    Finish,
    finish,
    log_book,
    paste,
    state_of,
    told,
)


def shown(case: Case, attempt: LoginAttempt, way: Finish) -> str:
    """Finish a login with a response, and return all that its token or its error shows."""
    try:
        token = (
            paste(attempt, case.pasted) if case.pasted else way(attempt, case.fragment, case.query)
        )
    except LoginError as error:
        return told(error)
    return f"{token} {token!r}"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_answer_leaks(case: Case, way: Finish) -> None:
    """Neither token nor state is in the error, the result, the attempt, or a log record."""
    with log_book() as lines:
        attempt = FLOW.start(CALLBACK)
        texts = [shown(case, attempt, way), f"{attempt!r} {attempt} {FLOW!r}"]

    for text in (*texts, *lines):
        assert CANARY not in text
        assert state_of(attempt) not in text
        assert state_of(attempt).swapcase() not in text


@pytest.mark.parametrize("name", ["error", "error_description", "error_uri"])
@pytest.mark.parametrize("words", ["{canary}", "see #access_token={canary}", "{state}"])
def test_texts_of_a_server_do_not_leak(name: str, words: str) -> None:
    """If a server repeats secrets in its error, they are only in the error's attributes."""
    attempt = FLOW.start(CALLBACK)
    said = words.format(canary=CANARY, state=state_of(attempt))
    code = "" if name == "error" else "error=access_denied&"

    with log_book() as lines, pytest.raises(AuthorizationDeniedError) as caught:
        finish(attempt, f"{code}{name}={quote(said)}&state={{state}}")

    error = caught.value
    assert said in (error.code, error.description, error.uri)
    for text in (told(error), *lines):
        assert said not in text


def test_a_used_answer_does_not_leak() -> None:
    """A response that comes twice, or for another login, is refused without showing it."""
    attempt, other = FLOW.start(CALLBACK), FLOW.start(CALLBACK)
    finish(attempt, GOOD)
    foreign = GOOD.replace("{state}", state_of(attempt))

    with log_book() as lines:
        with pytest.raises(LoginError) as again:
            finish(attempt, GOOD)
        with pytest.raises(LoginError) as elsewhere:
            finish(other, foreign)

    for text in (told(again.value), told(elsewhere.value), *lines):
        assert CANARY not in text
        assert state_of(attempt) not in text
        assert state_of(other) not in text


def test_a_leak_would_be_seen() -> None:
    """The helpers of these tests do find a secret in a cause, an argument or a log record."""
    secret = "LEAKED"
    nothing: dict[str, str] = {}

    def fail(*, chained: bool) -> None:
        try:
            nothing[secret]
        except KeyError as error:
            raise LoginError from (error if chained else None)

    with log_book() as lines:
        logging.getLogger("somebody").debug("%s", secret)
        logging.getLogger("somebody").warning("nothing", extra={"kept": secret})
    for chained in (True, False):
        with pytest.raises(LoginError) as caught:
            fail(chained=chained)
        lines.append(told(caught.value))
    lines.append(told(LoginError(secret)))

    assert len(lines) == 5
    assert all(secret in line for line in lines)
