"""A flow whose responses the tests write, and what errors and logs show of them."""

import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from gateway_sdk.auth import ImplicitFlow, LoginAttempt, Token

AUTHORIZE: Final = "https://as.test/authorize"
CALLBACK: Final = "http://127.0.0.1:53412/callback"
CANARY: Final = "CANARY-4711"
ISSUER: Final = "https://as.test"
NOW: Final = 1_800_000_000.0
SCOPE: Final = frozenset({"read", "write"})
FLOW: Final = ImplicitFlow(AUTHORIZE, "client-1", scope=SCOPE)
WITH_ISSUER: Final = ImplicitFlow(AUTHORIZE, "client-1", scope=SCOPE, issuer=ISSUER)
GOOD: Final = f"access_token={CANARY}&token_type=Bearer&state={{state}}"

Finish = Callable[[LoginAttempt, str, str], Token]


def state_of(attempt: LoginAttempt) -> str:
    """Return the state as the authorization server receives it."""
    (state,) = parse_qs(urlsplit(attempt.url).query)["state"]
    return state


def granted(
    value: str = CANARY, *, life: float | None = None, scope: frozenset[str] = SCOPE
) -> Token:
    """Return the token that a response at NOW should give."""
    ends = None if life is None else NOW + life
    return Token(value, expires_at=ends, obtained_at=NOW, scope=scope)


def clear(token: Token) -> str:
    return token.value.get_secret_value()


def fill(text: str, attempt: LoginAttempt) -> str:
    """Replace {state} by the state of an attempt, and {swapped} by the state in the wrong case."""
    state = state_of(attempt)
    return text.replace("{state}", state).replace("{swapped}", state.swapcase())


def flow_for(answer: str) -> ImplicitFlow:
    """Return the flow that reads a response: it requires an issuer if the response has one."""
    return WITH_ISSUER if re.search(r"[&?#]iss=", f"&{answer}") else FLOW


def finish(attempt: LoginAttempt, fragment: str, query: str = "") -> Token:
    return flow_for(f"{fragment}&{query}").finish(
        attempt, fragment=fill(fragment, attempt), query=fill(query, attempt), now=NOW
    )


def finish_url(attempt: LoginAttempt, fragment: str, query: str = "") -> Token:
    """Finish a login with the same response as the URL that a browser shows."""
    url = CALLBACK + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
    return paste(attempt, url)


def paste(attempt: LoginAttempt, url: str) -> Token:
    return flow_for(url).finish_url(attempt, fill(url, attempt), now=NOW)


WAYS: Final[dict[str, Finish]] = {"finish": finish, "finish_url": finish_url}


def told(error: BaseException) -> str:
    """Return everything that an error shows: as text, pickled, and as a traceback."""
    pickles = [pickle.dumps(error, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return "\n".join(
        [
            *(f"{one} {one!r} {one.args!r}" for one in chain),
            *(traceback.format_exception(error)),
            *(pickled.decode("latin-1") for pickled in pickles),
        ]
    )


@contextmanager
def log_book() -> Iterator[list[str]]:
    """Collect all log records of any level, with the arguments that a handler may print."""
    lines: list[str] = []

    class Book(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            known: dict[str, Any] = vars(record)
            lines.append(f"{record.levelname} {record.getMessage()} {known!r}")

    root, book = logging.getLogger(), Book()
    level = root.level
    root.addHandler(book)
    root.setLevel(logging.NOTSET)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(book)
