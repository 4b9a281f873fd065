"""The errors that hold a reply of the gateway."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway_sdk.errors.root import GatewayError
from gateway_sdk.models.error import ErrorPayload

_TRANSIENT_4XX: Final = frozenset({408, 429})
_LASTING_5XX: Final = frozenset({501, 505})  # the gateway does not know the method, or the HTTP


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
        body: The bytes of the reply, decompressed; cut at the largest reply that is read, or
            where the connection broke off, which the text of the error then says.
        headers: The reply's headers; names are matched without regard to case.
        retry_after: Seconds that the gateway asks to wait; None if it does not say.
    """

    payload: ErrorPayload | None = None
    retry_after: float | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message, status=status, body=body, headers=headers)
        self.transient = status in _TRANSIENT_4XX or (
            status in range(500, 600) and status not in _LASTING_5XX
        )

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
