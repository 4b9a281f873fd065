"""Every error of this package.

    GatewayError
    ├── ConfigurationError            also ValueError: a wrong or missing setting
    │   └── MissingExtraError         also ImportError: names the extra to install
    ├── InvalidArgumentError          also ValueError: a wrong argument, before anything is sent
    ├── SessionStateError             also RuntimeError: closed, another event loop, after a fork
    ├── OutageError                   a bulk run waited in vain for the gateway or a login
    ├── JournalError                  the journal of a bulk run cannot be had or written
    ├── ConnectionFailedError         the last attempt was not sent
    ├── UploadFailedError             the content raised an error or changed while it was sent
    ├── ReplyLostError                sent, but no complete reply came
    │   └── ReplyTimeoutError         no reply within the time-out
    ├── DeadlineExceededError         also TimeoutError: the whole call took too long
    ├── StatusError                   the gateway answered with an error status
    │   ├── InvalidRequestError       400, 422
    │   ├── UnauthorizedError         401
    │   ├── ForbiddenError            403
    │   ├── NotFoundError             404
    │   ├── ConflictError             409
    │   ├── RateLimitedError          429
    │   ├── ServerError               5xx
    │   └── RedirectError             3xx
    ├── UnexpectedReplyError          the reply is not what the interface promises
    └── AuthError                     no usable access token
        ├── LoginRequiredError        this process cannot ask a user to log in
        ├── LoginError                a login failed
        │   ├── AuthorizationDeniedError   the user or the server refused
        │   ├── StateMismatchError         a response of another login
        │   ├── MalformedResponseError     a response that violates RFC 6749
        │   ├── LoginTimeoutError          also TimeoutError: not finished in time
        │   └── ReceiverUnavailableError   the redirect URI's port is in use
        ├── TokenStoreError           the store cannot be read or written
        │   └── TokenRecordError           its record is invalid, or others could have read it
        └── TokenRejectedError        also UnauthorizedError: a renewed token was refused too

Messages and pickles hold no body, no text of the gateway, no path with values and no secret. The
reply of the gateway is in the attributes of the error, in its own process only.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from gateway_sdk import models
from gateway_sdk.errors._base import OF_SETTING, GatewayError
from gateway_sdk.outcome import PASSING, Advice, Outcome

__all__ = [
    "AuthError", "AuthorizationDeniedError", "ConfigurationError", "ConflictError",
    "ConnectionFailedError", "DeadlineExceededError", "ForbiddenError", "GatewayError",
    "InvalidArgumentError", "InvalidRequestError", "JournalError", "LoginError",
    "LoginRequiredError", "LoginTimeoutError", "MalformedResponseError", "MissingExtraError",
    "NotFoundError", "OutageError", "RateLimitedError", "ReceiverUnavailableError", "RedirectError",
    "ReplyLostError", "ReplyTimeoutError", "ServerError", "SessionStateError", "StateMismatchError",
    "StatusError", "TokenRecordError", "TokenRejectedError", "TokenStoreError",
    "UnauthorizedError", "UnexpectedReplyError", "UploadFailedError",
]  # fmt: skip

_TEMPORARY: Final = frozenset({*PASSING, *range(500, 600)} - {501, 505})
"""Statuses after which the same request may succeed; no retry helps an unknown method."""
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigurationError(GatewayError, ValueError):
    """A setting is wrong or missing; the message names it.

    Attributes:
        setting: The name of the setting, such as "base_url"; None if it is not about one setting.
        problem: What is wrong with it: the message without the name and without what only a
            caller in Python can do.
    """

    setting: str | None = None
    problem: str = ""

    def __init__(self, problem: str, *, setting: str | None = None, hint: str = "") -> None:
        super().__init__(f"{setting} {problem}{hint}" if setting else f"{problem}{hint}")
        self.setting, self.problem = setting, problem
        self._hints = OF_SETTING.get(setting or "")


class MissingExtraError(ConfigurationError, ModuleNotFoundError):
    """A feature needs packages that an extra installs; the message says how to install it.

    Attributes:
        extra: The name of the extra, such as "redis".
    """

    extra: str = ""


@contextmanager
def needing_extra(extra: str, what: str) -> Generator[None]:
    """Raise `MissingExtraError` for a package that the extra would install."""
    try:
        yield
    except ModuleNotFoundError as error:
        # A module of ours that is missing is no matter of extras.
        if isinstance(error, MissingExtraError) or (error.name or "").startswith("gateway_sdk"):
            raise
        told = f"{what} needs the extra [{extra}]: pip install 'gateway-sdk[{extra}]'"
        missing = MissingExtraError(told)
        missing.extra = extra
        raise missing from None


class InvalidArgumentError(GatewayError, ValueError):
    """An argument of a call is wrong; nothing was sent.

    Attributes:
        field: The argument or the field of a request, such as "take" or "person.email", the first
            if several are wrong; None if it is not about one.
        problem: What is wrong with it: the message without the name.
    """

    field: str | None = None
    problem: str = ""

    def __init__(self, problem: str, *, field: str | None = None) -> None:
        super().__init__(f"{field} {problem}" if field else problem)
        self.field, self.problem = field, problem


class SessionStateError(GatewayError, RuntimeError):
    """The session is closed, or belongs to another event loop or to the parent process.

    Its `advice` is REPEAT if the session is closed: a call of a new one may succeed.
    """

    outcome = Outcome.UNKNOWN


def misused(text: str) -> SessionStateError:
    """Return the error for a use before anything is sent, perhaps outside of a call."""
    error = SessionStateError(text)
    error.outcome = Outcome.NOT_SENT
    return error


class JournalError(GatewayError):
    """The journal of a bulk run cannot be used; nothing is lost."""


class OutageError(GatewayError):
    """A bulk run waited in vain for the gateway, or for a login, as long as its `patience`.

    Its `__cause__` is the error of the last items; its `advice` is LOG_IN if a login is missing.
    """

    _advice = Advice.REPEAT


class ConnectionFailedError(GatewayError):
    """The last attempt was not sent: no connection, no TLS, or no free slot.

    Lasting causes have the advice FIX and are not tried again: an invalid certificate, a server
    without TLS, a host name that does not exist, a proxy that needs credentials.

    Attributes:
        reason: The cause in a few words, such as "connection refused".
    """

    reason: str = ""
    _advice = Advice.REPEAT


class UploadFailedError(GatewayError):
    """The content could not be sent completely: it raised an error, or changed meanwhile."""

    outcome = Outcome.UNKNOWN


class ReplyLostError(GatewayError):
    """A request was sent, and no complete reply came.

    A reply with an error status that breaks off after its head is a `StatusError`.

    Attributes:
        status: The HTTP status, always 2xx, if the head of the reply came before it broke off.
    """

    outcome = Outcome.UNKNOWN
    _advice = Advice.REPEAT
    status: int | None = None


class ReplyTimeoutError(ReplyLostError):
    """A request was sent, and the gateway did not answer within the time-out."""


Phase: TypeAlias = Literal[
    "token", "slot", "rate_limit", "connection", "request", "reply", "backoff"
]
"""What a call waits for: an access token, one of max_connections, its turn under the rate limit, a
connection, the sending of the request, the reply, the next attempt."""


class DeadlineExceededError(GatewayError, TimeoutError):
    """The call as a whole took longer than its deadline.

    Its `advice` after the phase "token" is REPEAT, but LOG_IN once the source of the token has said
    so, or has given no answer for 30 s to any call of the session.

    Attributes:
        phase: What the call waited for when it was ended; with a transport of yours, "reply" from
            the moment at which it has the request. None for an item of a bulk run that ended at
            the deadline of the run.
    """

    outcome = Outcome.UNKNOWN
    _advice = Advice.REPEAT
    phase: Phase | None = None


class _ReplyError(GatewayError):
    """The base of the two errors that hold a reply."""

    outcome = Outcome.UNKNOWN
    body: bytes = b""
    headers: Mapping[str, str] = _NO_HEADERS

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,  # unknown
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        super().__init__(message)
        self.status, self.body, self.headers = status, body, headers
        if status:
            self._advice = Advice.REPEAT if status in _TEMPORARY else self._advice


class StatusError(_ReplyError):
    """The gateway answered with an error status.

    Attributes:
        status: The HTTP status; only it decides the class of the error. 0 if the error was made
            again from its text.
        payload: The gateway's error record; None if the body is not a JSON object.
        body: The decompressed bytes of the reply. They are incomplete if the reply was too large
            or the connection broke off; the message then says so.
        headers: The reply's headers; case does not matter in names.
        retry_after: Seconds that the gateway asks to wait; None if it does not ask.
    """

    payload: "models.ErrorPayload | None" = None
    retry_after: float | None = None

    def __str__(self) -> str:
        # The words themselves may hold personal data.
        known = self.payload and self.payload.message
        return self._text(": error.payload.message has the reason") if known else super().__str__()


class InvalidRequestError(StatusError):
    """400 or 422: the gateway did not understand the request."""


class UnauthorizedError(StatusError):
    """401: the gateway did not accept the access token."""

    _advice = Advice.LOG_IN


class ForbiddenError(StatusError):
    """403: the access token does not allow this."""


class NotFoundError(StatusError):
    """404: the resource does not exist."""


class ConflictError(StatusError):
    """409: the state of the resource does not allow this."""


class RateLimitedError(StatusError):
    """429: too many requests; `retry_after` is the wait that the gateway asks for, if any."""


class ServerError(StatusError):
    """5xx: the gateway, or a server behind it, failed."""


class RedirectError(StatusError):
    """3xx: the gateway names another address; the SDK never sends credentials there."""


class UnexpectedReplyError(_ReplyError):
    """The status is 2xx, but the body is not what the interface promises.

    Attributes:
        status: The HTTP status.
        body: The bytes of the reply, decompressed where that was possible.
        headers: The reply's headers; case does not matter in names.
        problems: The wrong fields and the reasons, which may quote a key, the tag of a union, and
            what validators of yours say; empty if it is not JSON.
    """

    problems: str = ""


class AuthError(GatewayError):
    """There is no access token to send."""

    _advice = Advice.LOG_IN


class LoginRequiredError(AuthError):
    """There is no usable token, and this process cannot ask a user to log in."""


class LoginError(AuthError):
    """A login failed."""


class AuthorizationDeniedError(LoginError):
    """The user or the authorization server refused the login (RFC 6749, 4.2.2.1).

    Texts and pickles show the code only if it is a standard one. The attributes hold the server's
    texts in printable characters, on one line and shortened.

    Attributes:
        code: The error code, such as "access_denied".
        description: The server's text; "" if it has none.
        uri: The address of a page about the error; "" if there is none.
    """

    code: str = ""
    description: str = ""
    uri: str = ""


class StateMismatchError(LoginError):
    """A response belongs to another login: its state is missing, repeated, wrong or used."""


class MalformedResponseError(LoginError):
    """The response of this login violates RFC 6749, 4.2.2."""


class LoginTimeoutError(LoginError, TimeoutError):
    """The login was not finished in time.

    Attributes:
        refused: How many responses of other logins were received.
    """

    refused: int = 0


class ReceiverUnavailableError(LoginError):
    """The receiver cannot listen at the redirect URI on this machine."""


class TokenStoreError(AuthError):
    """The token store cannot be read or written; its record is unchanged."""


class TokenRecordError(TokenStoreError):
    """The token store works, but its record is invalid, or others could have read it.

    With `acquire`, a `SharedTokenSource` replaces such a record by the token of a new login.
    """


class TokenRejectedError(UnauthorizedError, AuthError):
    """401, and 401 again with a renewed access token.

    If a call did not send it, because the tokens of the last two logins were refused to others,
    its outcome is NOT_SENT and the body is empty.
    """
