"""Responses that the tests write, their results, and what errors and logs show of them."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from gateway_sdk.auth import ImplicitFlow, LoginAttempt, Token
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    MalformedResponseError,
    StateMismatchError,
)
from tests.support.secrecy import CANARY, texts_of

AUTHORIZE: Final = "https://as.test/authorize"
CALLBACK: Final = "http://127.0.0.1:53412/callback"
NOW: Final = 1_800_000_000.0
SCOPE: Final = frozenset({"read", "write"})
FLOW: Final = ImplicitFlow(AUTHORIZE, "client-1", scope=SCOPE)
WITH_ISSUER: Final = ImplicitFlow(AUTHORIZE, "client-1", scope=SCOPE, issuer="https://as.test")
NO_STATE: Final = f"access_token={CANARY}&token_type=Bearer"
GOOD: Final = f"{NO_STATE}&state={{state}}"


def state_of(attempt: LoginAttempt) -> str:
    (state,) = parse_qs(urlsplit(attempt.url).query)["state"]
    return state


def granted(
    value: str = CANARY, *, life: float | None = None, scope: frozenset[str] = SCOPE
) -> Token:
    ends = None if life is None else NOW + life
    return Token(value, expires_at=ends, obtained_at=NOW, scope=scope)


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
    url = CALLBACK + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
    return paste(attempt, url)


def paste(attempt: LoginAttempt, url: str) -> Token:
    return flow_for(url).finish_url(attempt, fill(url, attempt), now=NOW)


WAYS: Final[list[Callable[[LoginAttempt, str, str], Token]]] = [finish, finish_url]


def told(error: BaseException) -> str:
    """Return all that an error shows, and the errors behind it, shown or not."""
    chain = [error]
    while (link := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(link)
    return "\n".join(map(texts_of, chain))


@contextmanager
def log_book() -> Iterator[list[str]]:
    """Collect all log records of any level, with the arguments that a handler may print."""
    lines: list[str] = []
    root, book = logging.getLogger(), logging.Handler()
    book.emit = lambda record: lines.append(f"{record.getMessage()} {vars(record)!r}")  # type: ignore[method-assign]
    level = root.level
    root.addHandler(book)
    root.setLevel(logging.NOTSET)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(book)


_DENIED: Final = AuthorizationDeniedError
_MALFORMED: Final = MalformedResponseError
_NOT_OURS: Final = StateMismatchError


class Case(NamedTuple):
    """A response in its parts, or as the whole URL that a user pasted."""

    name: str
    expected: type[LoginError] | Token
    fragment: str = ""
    query: str = ""
    pasted: str = ""


def _with_token(text: str) -> str:
    return f"access_token={text}&token_type=Bearer&state={{state}}"


def _with_life(text: str) -> str:
    return f"{GOOD}&expires_in={text}"


CASES: Final = (
    Case("good", granted(), GOOD),
    Case("state in query", granted(), NO_STATE, "state={state}"),
    Case("right iss", granted(), f"{GOOD}&iss=https%3A%2F%2Fas.test"),
    Case("unknown parameters", granted(), f"{GOOD}&token_type_x=mac&session_state=1&=&x"),
    Case("empty", _NOT_OURS),
    Case("only a hash", _NOT_OURS, "#"),
    Case("wrong state", _NOT_OURS, f"{NO_STATE}&state=another"),
    Case("no state", _NOT_OURS, NO_STATE),
    Case("state twice, same", _NOT_OURS, f"{GOOD}&state={{state}}"),
    Case("state twice, one name encoded", _NOT_OURS, f"{GOOD}&st%61te={{state}}"),
    Case("state twice, right one first", _NOT_OURS, f"{GOOD}&state=another"),
    Case("state in both", _NOT_OURS, GOOD, "state={state}"),
    Case("wrong state in query too", _NOT_OURS, GOOD, "state=another"),
    Case("state in the other case", _NOT_OURS, f"{NO_STATE}&state={{swapped}}"),
    Case("non-ASCII state", _NOT_OURS, f"{NO_STATE}&state=\xe4%C3%A4"),
    Case("state with a lone surrogate", _NOT_OURS, f"{NO_STATE}&state=\ud800"),
    Case("denied", _DENIED, "error=access_denied&state={state}"),
    Case("denied without state", _NOT_OURS, "error=access_denied"),
    Case("denied in query", _DENIED, query="error=access_denied&state={state}"),
    Case("error and token", _DENIED, f"{GOOD}&error=access_denied"),
    Case("error in query, token in fragment", _DENIED, GOOD, "error=server_error"),
    Case("unknown code", _DENIED, f"{GOOD}&error={CANARY}"),
    Case("token twice", _MALFORMED, f"{GOOD}&access_token={CANARY}"),
    Case("unknown parameter twice", _MALFORMED, f"{GOOD}&x=1&%78=1"),
    Case("all in query", _MALFORMED, query=GOOD),
    Case("token in query", _MALFORMED, "state={state}", NO_STATE),
    Case("token in both", _MALFORMED, GOOD, f"access_token={CANARY}"),
    Case("empty token", _MALFORMED, _with_token("")),
    Case("token with space", _MALFORMED, _with_token(f"{CANARY}%20x")),
    Case("token with CRLF", _MALFORMED, _with_token(f"{CANARY}%0D%0AX-Evil:%201")),
    *(
        Case(f"raw token {text!r}", _MALFORMED, _with_token(text.format(CANARY)))
        for text in ("{}\u0661", "{}\0", "\ud800{}", "{}\xe4")
    ),
    Case("bad percent in token", _MALFORMED, _with_token(f"{CANARY}%ZZ")),
    Case("raw + / =", granted(f"{CANARY}+/=="), _with_token(f"{CANARY}+/==")),
    Case("encoded + / =", granted(f"{CANARY}+/=="), _with_token(f"{CANARY}%2B%2F%3d%3D")),
    Case("no token_type", _MALFORMED, f"access_token={CANARY}&state={{state}}"),
    Case("token_type mac", _MALFORMED, GOOD.replace("Bearer", "mac")),
    Case("BEARER", granted(), GOOD.replace("Bearer", "BEARER")),
    Case("empty expires_in", granted(), _with_life("")),
    Case("expires_in 0", _MALFORMED, _with_life("0")),
    Case("expires_in -5", _MALFORMED, _with_life("-5")),
    Case("expires_in 3600.0", granted(life=3600), _with_life("3600.0")),
    Case("expires_in in quotation marks", granted(life=3600), _with_life("%223600%22")),
    Case("expires_in soon", granted(), _with_life("soon")),
    Case("expires_in of 10 digits", granted(life=9_999_999_999), _with_life("9" * 10)),
    Case("expires_in of 11 digits", granted(), _with_life("1" * 11)),
    Case("expires_in in Arabic digits", granted(), _with_life("%D9%A3%D9%A6")),
    Case("expires_in +60", granted(life=60), _with_life("%2B60")),
    Case("expires_in after a space", granted(), _with_life("%2060")),
    Case("expires_at forged", granted(), f"{GOOD}&expires_at=99999999999"),
    Case("refresh_token", granted(), f"{GOOD}&refresh_token=x"),
    Case("semicolons", _NOT_OURS, GOOD.replace("&", ";")),
    Case("second hash in token", _MALFORMED, _with_token(f"{CANARY}#x")),
    Case("64 parameters", granted(), GOOD + "".join(f"&x{n}=1" for n in range(61))),
    Case("65 parameters", _NOT_OURS, GOOD + "".join(f"&x{n}=1" for n in range(62))),
    Case("scope changed", granted(scope=frozenset({"read"})), f"{GOOD}&scope=read"),
    Case("scope once for each name", granted(), f"{GOOD}&scope=read&scope=write"),
    Case("scope empty", granted(scope=frozenset()), f"{GOOD}&scope="),
    Case("scope in quotes", granted(), f"{GOOD}&scope=%22read%20write%22"),
    Case("scope that is none", granted(scope=frozenset()), f"{GOOD}&scope=caf%C3%A9"),
    Case("token_type in quotes", granted(), GOOD.replace("Bearer", "%22Bearer%22")),
    Case("code instead of token", _MALFORMED, f"code={CANARY}&state={{state}}"),
    Case("&amp;", _NOT_OURS, GOOD.replace("&", "&amp;")),
    Case("wrong iss", _MALFORMED, f"{GOOD}&iss=https%3A%2F%2Fevil.test"),
    # RFC 9207, 2.4: compared as it stands.
    Case("iss with a slash", _MALFORMED, f"{GOOD}&iss=https://as.test/"),
    Case("https", granted(), pasted=f"https://127.0.0.1:53412/callback#{GOOD}"),
    Case("localhost", granted(), pasted=f"http://localhost:53412/callback#{GOOD}"),
    Case("no scheme", granted(), pasted=f"127.0.0.1:53412/callback#{GOOD}"),
    Case("in quotes", granted(), pasted=f"'{CALLBACK}#{GOOD}'"),
    Case("in brackets", granted(), pasted=f"<{CALLBACK}#{GOOD}>"),
    Case("bracketed paste", granted(), pasted=f"\x1b[200~{CALLBACK}#{GOOD}\x1b[201~"),
    Case("a user", _NOT_OURS, pasted=f"http://me@127.0.0.1:53412/callback#{GOOD}"),
    Case("other host", _NOT_OURS, pasted=f"http://127.0.0.2:53412/callback#{GOOD}"),
    Case("other port", _NOT_OURS, pasted=f"http://127.0.0.1:53413/callback#{GOOD}"),
    Case("other path", _NOT_OURS, pasted=f"{CALLBACK}/#{GOOD}"),
    Case("no URL", _NOT_OURS, pasted=f"http://[{CANARY}/#{GOOD}"),
    Case("lone surrogate", _NOT_OURS, pasted=f"{CALLBACK}\ud800#{GOOD}"),
    Case("spaces around", granted(), pasted=f"  {CALLBACK}#{GOOD}\r\n"),
    Case(
        "broken lines",
        granted(),
        pasted=f"{CALLBACK[:9]}\n {CALLBACK[9:]}#{GOOD[:20]}\r\n\t{GOOD[20:]}",
    ),
    Case("fragment encoded as a whole", _NOT_OURS, GOOD.replace("=", "%3D").replace("&", "%26")),
)
