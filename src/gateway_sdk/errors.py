"""Every error of this package.

    GatewayError
    ├── ConfigurationError            also ValueError: a wrong or missing setting
    ├── InvalidArgumentError          also ValueError: a wrong argument, before anything is sent
    ├── SessionStateError             also RuntimeError: closed, another event loop, after a fork
    ├── ConnectionFailedError         the last attempt was not sent
    ├── UploadFailedError             the content that was being sent raised, or changed
    ├── ReplyLostError                sent, no complete reply
    │   └── ReplyTimeoutError         the same, because it took too long
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
        └── TokenRejectedError        also UnauthorizedError: a renewed token was refused too

Texts and pickles hold no body, no words of the gateway, no filled path and no secret: what the
gateway said is on the error object, for as long as it stays in its process.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from gateway_sdk.models.error import ErrorPayload
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, outcome_of

_OUTCOME_TEXT = {
    Outcome.NOT_SENT: "nothing was sent",
    Outcome.REFUSED: "the gateway refused it: nothing was changed",
    Outcome.UNKNOWN: "it is unknown whether the gateway did it",
    Outcome.APPLIED: "the gateway did it",
}

_PICKLED = frozenset({"operation", "outcome", "attempts", "repeatability", "status", "retry_after"})


class GatewayError(Exception):
    """The root of every error of this package.

    Attributes:
        operation: The operation's name, such as "cancel_order"; None outside of a call.
        outcome: What the whole call did, over all its attempts.
        attempts: Every attempt, oldest first; empty if none was made.
        repeatability: What sending the operation twice would do; None outside of a call.
    """

    operation: str | None = None
    outcome: Outcome = Outcome.NOT_SENT
    attempts: tuple[Attempt, ...] = ()
    repeatability: Repeatability | None = None

    def of_call(
        self, operation: str, repeatability: Repeatability, attempts: tuple[Attempt, ...]
    ) -> Self:
        """Write on the error which call it ended, and return it."""
        self.operation = operation
        self.repeatability = repeatability
        self.attempts = attempts
        self.outcome = outcome_of(attempts, repeatability)
        return self

    @property
    def safe_to_repeat(self) -> bool:
        """Whether making the same call again can do no harm."""
        return self.repeatability is not Repeatability.ONCE or self.outcome in (
            Outcome.NOT_SENT,
            Outcome.REFUSED,
        )

    def __str__(self) -> str:
        message = super().__str__()
        if self.operation is None:
            return message
        # What reads changes nothing, so there its outcome is no news.
        told: list[str] = []
        if self.repeatability is not Repeatability.READ:
            told.append(_OUTCOME_TEXT[self.outcome])
        if len(self.attempts) > 1:
            told.append(f"{len(self.attempts)} attempts")
        return f"{self.operation}: {message}" + (f" ({'; '.join(told)})" if told else "")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.args, self._pickled())

    def _pickled(self) -> dict[str, Any]:
        """Return what leaves the process with the error."""
        return {name: value for name, value in vars(self).items() if name in _PICKLED}


def _unpickle(
    kind: type[GatewayError], args: tuple[Any, ...], kept: dict[str, Any]
) -> GatewayError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(kept)
    return error


class ConfigurationError(GatewayError, ValueError):
    """A setting is wrong or missing; the message names it."""


class InvalidArgumentError(GatewayError, ValueError):
    """An argument of a call is wrong; nothing was sent."""


class SessionStateError(GatewayError, RuntimeError):
    """The session is closed, or belongs to another event loop or to the parent process."""


class ConnectionFailedError(GatewayError):
    """The last attempt did not get as far as sending: no connection, no TLS, no free slot."""


class UploadFailedError(GatewayError):
    """The content could not be sent to its end: it raised an error, or changed meanwhile."""


class ReplyLostError(GatewayError):
    """A request was sent and no complete reply came back.

    Attributes:
        status: The HTTP status, if the head of the reply came before it broke off.
    """

    outcome = Outcome.UNKNOWN
    status: int | None = None

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ReplyTimeoutError(ReplyLostError):
    """A request was sent and the gateway was silent for longer than the time-out allows."""


class DeadlineExceededError(GatewayError, TimeoutError):
    """The call as a whole took longer than its deadline."""


class _ReplyError(GatewayError):
    """What the two errors that hold a reply share."""

    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        message: str,
        *,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.headers = headers


class StatusError(_ReplyError):
    """The gateway answered with an error status.

    Attributes:
        status: The HTTP status; it alone picks the class.
        payload: The gateway's own words; None if the body is no JSON object.
        body: The bytes of the reply, decompressed; cut at the largest reply that is read.
        headers: The reply's headers; names are matched without regard to case.
        retry_after: Seconds that the gateway asks to wait; None if it does not say.
    """

    payload: ErrorPayload | None = None
    retry_after: float | None = None

    def _pickled(self) -> dict[str, Any]:
        payload = self.payload and self.payload.without_text()
        return {**super()._pickled(), "payload": payload}


class InvalidRequestError(StatusError):
    """400 or 422: the gateway did not understand the request."""


class UnauthorizedError(StatusError):
    """401: the gateway did not accept the access token."""


class ForbiddenError(StatusError):
    """403: the access token does not allow this."""


class NotFoundError(StatusError):
    """404: there is no such thing."""


class ConflictError(StatusError):
    """409: the thing is in a state that does not allow this."""


class RateLimitedError(StatusError):
    """429: too many requests; `retry_after` says how long to wait, if the gateway does."""


class ServerError(StatusError):
    """5xx: something went wrong behind the gateway's door."""


class RedirectError(StatusError):
    """3xx: the gateway points elsewhere, where credentials are never sent."""


class UnexpectedReplyError(_ReplyError):
    """The reply is not what the interface promises, although its status says that all went well.

    Attributes:
        status: The HTTP status.
        body: The bytes of the reply, decompressed where that was possible.
        headers: The reply's headers; names are matched without regard to case.
        problems: Which fields are wrong and why, without their values; empty if it is no JSON.
    """

    problems: str = ""


class AuthError(GatewayError):
    """There is no access token to send."""


class TokenRejectedError(UnauthorizedError, AuthError):
    """401, and 401 again with a renewed access token."""
