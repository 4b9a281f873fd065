"""The errors that hold a reply of the gateway."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway_sdk.errors.root import AuthError, GatewayError
from gateway_sdk.models.records import ErrorPayload

_TRANSIENT_4XX: Final = frozenset({408, 429})
_LASTING_5XX: Final = frozenset({501, 505})  # unknown method or HTTP version: no retry helps


class _ReplyError(GatewayError):
    """The base of the two errors that hold a reply."""

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
        self.transient = status in _TRANSIENT_4XX or (
            status in range(500, 600) and status not in _LASTING_5XX
        )


class StatusError(_ReplyError):
    """The gateway answered with an error status.

    Attributes:
        status: The HTTP status; only it decides the class of the error.
        payload: The gateway's error record; None if the body is not a JSON object.
        body: The decompressed bytes of the reply. They are incomplete if the reply was too large
            or the connection broke off; the message then says so.
        headers: The reply's headers; case does not matter in names.
        retry_after: Seconds that the gateway asks to wait; None if it does not ask.
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
    """404: the resource does not exist."""


class ConflictError(StatusError):
    """409: the state of the resource does not allow this."""


class RateLimitedError(StatusError):
    """429: too many requests; `retry_after` is the wait that the gateway asks for, if any."""


class ServerError(StatusError):
    """5xx: the gateway, or a server behind it, failed."""


class RedirectError(StatusError):
    """3xx: the gateway names another address; the SDK never sends credentials there."""


class TokenRejectedError(UnauthorizedError, AuthError):
    """401, and 401 again with a renewed access token.

    If a call did not send it, because the tokens of the last two logins were refused to others,
    its outcome is NOT_SENT and the body is empty.
    """


class UnexpectedReplyError(_ReplyError):
    """The status is 2xx, but the body is not what the interface promises.

    Attributes:
        status: The HTTP status.
        body: The bytes of the reply, decompressed where that was possible.
        headers: The reply's headers; case does not matter in names.
        problems: The wrong fields and the reasons, without values; empty if it is not JSON.
    """

    problems: str = ""
