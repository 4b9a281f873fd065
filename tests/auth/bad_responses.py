"""Invalid responses, and valid ones that look invalid: number, name, parts, expected result."""

from dataclasses import dataclass
from typing import Final

from gateway_sdk.auth import Token
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    MalformedResponseError,
    StateMismatchError,
)
from tests.auth.responses import CALLBACK, CANARY, GOOD, granted

Expected = type[LoginError] | Token

_DENIED: Final = AuthorizationDeniedError
_MALFORMED: Final = MalformedResponseError
_NOT_OURS: Final = StateMismatchError


@dataclass(frozen=True)
class Case:
    """A response in its parts, or as the whole URL that a user pasted."""

    number: int
    name: str
    expected: Expected
    fragment: str = ""
    query: str = ""
    pasted: str = ""

    def __str__(self) -> str:
        """Return the test's id."""
        return f"{self.number}-{self.name}"


def _with_token(text: str) -> str:
    return f"access_token={text}&token_type=Bearer&state={{state}}"


def _with_life(text: str) -> str:
    """Return a valid response with this expires_in."""
    return f"{GOOD}&expires_in={text}"


def _with_words(text: str) -> str:
    """Return an error response with these texts of the server."""
    return f"error=access_denied&state={{state}}&error_description={text}"


_NO_STATE: Final = f"access_token={CANARY}&token_type=Bearer"

CASES: Final = (
    Case(1, "empty", _NOT_OURS),
    Case(2, "only a hash", _NOT_OURS, "#"),
    Case(2, "only a hash, pasted", _NOT_OURS, pasted=f"{CALLBACK}#"),
    Case(3, "wrong state", _NOT_OURS, f"{_NO_STATE}&state=another"),
    Case(3, "longer state", _NOT_OURS, f"{GOOD}A"),
    Case(3, "state after a space", _NOT_OURS, f"{_NO_STATE}&state=%20{{state}}"),
    Case(3, "wrong state in query", _NOT_OURS, _NO_STATE, "state=another"),
    Case(4, "no state", _NOT_OURS, _NO_STATE),
    Case(4, "empty state", _NOT_OURS, f"{_NO_STATE}&state="),
    Case(4, "state without a value", _NOT_OURS, f"{_NO_STATE}&state"),
    Case(4, "state under another name", _NOT_OURS, f"{_NO_STATE}&State={{state}}"),
    Case(5, "state twice, same", _NOT_OURS, f"{GOOD}&state={{state}}"),
    Case(5, "state twice, one name encoded", _NOT_OURS, f"{GOOD}&st%61te={{state}}"),
    Case(6, "state twice, right one first", _NOT_OURS, f"{GOOD}&state=another"),
    Case(6, "state twice, right one last", _NOT_OURS, f"state=another&{GOOD}"),
    Case(7, "state in both", _NOT_OURS, GOOD, "state={state}"),
    Case(7, "wrong state in query too", _NOT_OURS, GOOD, "state=another"),
    Case(8, "state in the other case", _NOT_OURS, f"{_NO_STATE}&state={{swapped}}"),
    Case(9, "non-ASCII state", _NOT_OURS, f"{_NO_STATE}&state=\xe4%C3%A4"),
    Case(9, "state that is no UTF-8", _NOT_OURS, f"{_NO_STATE}&state=%FF%FE"),
    Case(9, "state with a lone surrogate", _NOT_OURS, f"{_NO_STATE}&state=\ud800"),
    Case(10, "denied", _DENIED, "error=access_denied&state={state}"),
    Case(11, "denied without state", _NOT_OURS, "error=access_denied"),
    Case(11, "denied with wrong state", _NOT_OURS, "error=access_denied&state=another"),
    Case(12, "denied in query", _DENIED, query="error=access_denied&state={state}"),
    Case(12, "denied in query without state", _NOT_OURS, query="error=access_denied"),
    Case(13, "error and token", _DENIED, f"{GOOD}&error=access_denied"),
    Case(13, "error in query, token in fragment", _DENIED, GOOD, "error=server_error"),
    Case(14, "unknown code", _DENIED, f"{GOOD}&error={CANARY}"),
    Case(14, "empty code", _DENIED, "error=&state={state}"),
    Case(15, "description with ESC", _DENIED, _with_words("%1B[31mred%1B]0;t%07")),
    Case(15, "description with quotes", _DENIED, _with_words("%22%27%3Cscript%3E%5C")),
    Case(15, "description of 10 KB", _DENIED, _with_words("x" * 10_000)),
    Case(15, "description that is no UTF-8", _DENIED, _with_words("%FF%C3%28")),
    Case(16, "token twice", _MALFORMED, f"{GOOD}&access_token={CANARY}"),
    Case(16, "token twice, different", _MALFORMED, f"access_token=x&{GOOD}"),
    Case(16, "token_type twice", _MALFORMED, f"{GOOD}&token_type=Bearer"),
    Case(16, "error twice", _MALFORMED, "error=a&error=a&state={state}"),
    Case(16, "unknown parameter twice", _MALFORMED, f"{GOOD}&x=1&%78=1"),
    Case(17, "all in query", _MALFORMED, query=GOOD),
    Case(17, "token in query", _MALFORMED, "state={state}", _NO_STATE),
    Case(17, "token in query with an error", _MALFORMED, query=f"{GOOD}&error=access_denied"),
    Case(18, "token in both", _MALFORMED, GOOD, f"access_token={CANARY}"),
    Case(19, "empty token", _MALFORMED, _with_token("")),
    Case(20, "token with space", _MALFORMED, _with_token(f"{CANARY}%20x")),
    Case(20, "token after a space", _MALFORMED, _with_token(f"%20{CANARY}")),
    Case(21, "token with CRLF", _MALFORMED, _with_token(f"{CANARY}%0D%0AX-Evil:%201")),
    Case(21, "token before a newline", _MALFORMED, _with_token(f"{CANARY}%0A")),
    Case(22, "token with NUL", _MALFORMED, _with_token(f"{CANARY}%00")),
    Case(23, "non-ASCII token", _MALFORMED, _with_token(f"{CANARY}%C3%A4")),
    Case(23, "non-ASCII token, raw", _MALFORMED, _with_token(f"{CANARY}\u0661")),
    Case(24, "bad percent in token", _MALFORMED, _with_token(f"{CANARY}%ZZ")),
    Case(24, "bad percent in state", _NOT_OURS, f"{GOOD}%ZZ"),
    Case(24, "bad percent elsewhere", granted(), f"{GOOD}&x=%ZZ%"),
    Case(25, "raw + / =", granted(f"{CANARY}+/=="), _with_token(f"{CANARY}+/==")),
    Case(25, "encoded + / =", granted(f"{CANARY}+/=="), _with_token(f"{CANARY}%2B%2F%3d%3D")),
    Case(26, "no token_type", _MALFORMED, f"access_token={CANARY}&state={{state}}"),
    Case(26, "empty token_type", _MALFORMED, GOOD.replace("Bearer", "")),
    Case(27, "token_type mac", _MALFORMED, GOOD.replace("Bearer", "mac")),
    Case(27, "token_type bearers", _MALFORMED, GOOD.replace("Bearer", "Bearers")),
    Case(28, "BEARER", granted(), GOOD.replace("Bearer", "BEARER")),
    Case(29, "no expires_in", granted(), GOOD),
    Case(30, "empty expires_in", granted(), _with_life("")),
    Case(31, "expires_in 0", _MALFORMED, _with_life("0")),
    Case(31, "expires_in 000", _MALFORMED, _with_life("000")),
    Case(32, "expires_in -5", _MALFORMED, _with_life("-5")),
    Case(32, "expires_in -0", _MALFORMED, _with_life("-0")),
    Case(32, "expires_in of 11 digits below zero", _MALFORMED, _with_life("-" + "9" * 11)),
    Case(32, "expires_in -5.0", _MALFORMED, _with_life("-5.0")),
    Case(33, "expires_in 3600.0", granted(life=3600), _with_life("3600.0")),
    Case(33, "expires_in in quotation marks", granted(life=3600), _with_life("%223600%22")),
    Case(33, "expires_in with one mark", granted(), _with_life("%223600")),
    Case(34, "expires_in soon", granted(), _with_life("soon")),
    Case(35, "expires_in of 10 digits", granted(life=9_999_999_999), _with_life("9" * 10)),
    Case(35, "expires_in of 11 digits", granted(), _with_life("1" * 11)),
    Case(35, "expires_in of 20 digits", granted(), _with_life("1" * 20)),
    Case(36, "expires_in in Arabic digits", granted(), _with_life("%D9%A3%D9%A6")),
    Case(37, "expires_in +60", granted(life=60), _with_life("%2B60")),
    Case(37, "expires_in after a space", granted(), _with_life("%2060")),
    Case(37, "expires_in after a plus for a space", granted(), _with_life("+60")),
    Case(37, "expires_in before a newline", granted(), _with_life("60%0A")),
    Case(38, "expires_at forged", granted(), f"{GOOD}&expires_at=99999999999"),
    Case(38, "both forged", granted(life=60), f"{_with_life('60')}&expires_at=99999999999"),
    Case(39, "refresh_token", granted(), f"{GOOD}&refresh_token=x"),
    Case(40, "semicolons", _NOT_OURS, GOOD.replace("&", ";")),
    Case(41, "second hash in state", _NOT_OURS, f"{GOOD}#x"),
    Case(41, "second hash in token", _MALFORMED, _with_token(f"{CANARY}#x")),
    Case(42, "64 parameters", granted(), GOOD + "".join(f"&x{n}=1" for n in range(61))),
    Case(42, "65 parameters", _NOT_OURS, GOOD + "".join(f"&x{n}=1" for n in range(62))),
    Case(42, "65 parameters in query", _NOT_OURS, GOOD, "&".join(f"x{n}=1" for n in range(65))),
    Case(43, "60 KB", granted(CANARY * 5_585), _with_token(CANARY * 5_585)),
    Case(43, "70 KB", _MALFORMED, _with_token(CANARY * 6_517)),
    Case(43, "70 KB in query", _MALFORMED, GOOD, f"x={CANARY * 6_517}"),
    Case(44, "scope missing", granted(), GOOD),
    Case(44, "scope changed", granted(scope=frozenset({"read"})), f"{GOOD}&scope=read"),
    Case(44, "scope of two", granted(scope=frozenset({"a", "b"})), f"{GOOD}&scope=b+a"),
    Case(44, "scope empty", granted(scope=frozenset()), f"{GOOD}&scope="),
    Case(44, "scope that is none", _MALFORMED, f"{GOOD}&scope={CANARY}%22"),
    Case(45, "code instead of token", _MALFORMED, f"code={CANARY}&state={{state}}"),
    Case(45, "code in query", _MALFORMED, query=f"code={CANARY}&state={{state}}"),
    Case(46, "&amp;", _NOT_OURS, GOOD.replace("&", "&amp;")),
    Case(47, "wrong iss", _MALFORMED, f"{GOOD}&iss=https%3A%2F%2Fevil.test"),
    Case(47, "empty iss", _MALFORMED, f"{GOOD}&iss="),
    Case(47, "wrong iss on an error", _MALFORMED, "error=access_denied&state={state}&iss=x"),
    Case(48, "other scheme", _NOT_OURS, pasted=f"https://127.0.0.1:53412/callback#{GOOD}"),
    Case(48, "other host", _NOT_OURS, pasted=f"http://127.0.0.2:53412/callback#{GOOD}"),
    Case(48, "host by name", _NOT_OURS, pasted=f"http://localhost:53412/callback#{GOOD}"),
    Case(48, "other port", _NOT_OURS, pasted=f"http://127.0.0.1:53413/callback#{GOOD}"),
    Case(48, "no port", _NOT_OURS, pasted=f"http://127.0.0.1/callback#{GOOD}"),
    Case(48, "other path", _NOT_OURS, pasted=f"{CALLBACK}/#{GOOD}"),
    Case(48, "path in capitals", _NOT_OURS, pasted=f"http://127.0.0.1:53412/CALLBACK#{GOOD}"),
    Case(48, "user name", _NOT_OURS, pasted=f"http://u@127.0.0.1:53412/callback#{GOOD}"),
    Case(48, "no scheme", _NOT_OURS, pasted=f"127.0.0.1:53412/callback#{GOOD}"),
    Case(48, "no URL", _NOT_OURS, pasted=f"http://[{CANARY}/#{GOOD}"),
    Case(48, "bad port", _NOT_OURS, pasted=f"http://127.0.0.1:x{CANARY}/callback#{GOOD}"),
    Case(48, "lone surrogate", _NOT_OURS, pasted=f"{CALLBACK}\ud800#{GOOD}"),
    Case(48, "bad punycode", _NOT_OURS, pasted=f"http://xn--0/callback#{GOOD}"),
    Case(48, "only the fragment", _NOT_OURS, pasted=GOOD),
    Case(48, "nothing", _NOT_OURS),
    Case(49, "spaces around", granted(), pasted=f"  {CALLBACK}#{GOOD}\r\n"),
    Case(
        49,
        "broken lines",
        granted(),
        pasted=f"{CALLBACK[:9]}\n {CALLBACK[9:]}#{GOOD[:20]}\r\n\t{GOOD[20:]}",
    ),
    Case(
        50, "fragment encoded as a whole", _NOT_OURS, GOOD.replace("=", "%3D").replace("&", "%26")
    ),
)
