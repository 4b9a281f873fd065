"""What is known when an attempt fails: its outcome, and the error that the caller gets."""

from typing import Final, NoReturn

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.reply_errors import cut_reply, outcome_of_head
from gateway_sdk._transport.reason import Reason, late_reason_of, place_of_url, reason_of
from gateway_sdk._transport.transmission import DirectRequest, Transmission
from gateway_sdk.errors import (
    ConnectionFailedError,
    GatewayError,
    ReplyLostError,
    ReplyTimeoutError,
    StatusError,
    TokenRejectedError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.outcome import Outcome

_NOT_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""What our engines raise when no byte of the request was sent."""

_SELF_EXPLAINING: Final = (
    ConnectionFailedError,
    ReplyLostError,
    StatusError,
    UnexpectedReplyError,
)
"""Errors whose outcome follows from what the attempt proves."""


def outcome_of_attempt(
    error: BaseException, transmission: Transmission, reply: RawReply | None
) -> Outcome:
    """Return the outcome of an attempt that ended with this error.

    Args:
        error: The error.
        transmission: How far the attempt got.
        reply: The reply, if its head has come.
    """
    if isinstance(error, _SELF_EXPLAINING):
        return error.outcome
    if transmission.status is not None:
        # A proxy may have made this reply; without its body that cannot be known.
        fields = reply.fields if reply else None
        return outcome_of_head(transmission.status, fields, doubtful=transmission.forwarded)
    return Outcome.UNKNOWN if transmission.sent else Outcome.NOT_SENT


def raise_failure(
    error: Exception, request: DirectRequest, reply: RawReply | None, *, is_ours: bool
) -> NoReturn:
    """Raise the error for a failed attempt, with the outcome that is proven.

    Args:
        error: What the transport raised.
        request: What was sent.
        reply: The reply, if its head has come.
        is_ours: Whether the transport is one of our engines.
    """
    if isinstance(error, OSError) and is_ours:
        raise error  # our engines never raise it, so it is a bug that must be seen
    failure = _failure_of(error, request, reply)
    if isinstance(failure, ConnectionFailedError) and isinstance(error, httpx.HTTPError):
        # The frames of our engines hold the request with its token, for tracebacks with variables.
        raise failure from error.with_traceback(None) if is_ours else error
    raise failure from None  # the cause's text may show what the server sent


def _failure_of(error: Exception, request: DirectRequest, reply: RawReply | None) -> GatewayError:
    what = type(error).__name__
    gateway = place_of_url(request.base.address)
    if reply is not None:
        reply.finish()
        return cut_reply(reply, what)
    if isinstance(error, _NOT_SENT) and not request.transmission.sent:
        return _not_connected(error, request, gateway)
    kind = ReplyTimeoutError if isinstance(error, httpx.TimeoutException) else ReplyLostError
    reason = late_reason_of(error) or Reason(what, transient=True)
    lost = kind(f"no reply from {gateway}: {reason.text}")
    lost.transient = reason.transient
    return lost


def _not_connected(error: Exception, request: DirectRequest, gateway: str) -> ConnectionFailedError:
    """Return the error for a request that was not sent; it names a proxy that is the cause."""
    reason = reason_of(error, request.timeout)
    proxy = request.transmission.proxy
    if isinstance(error, httpx.ProxyError):
        message = f"no connection to {gateway}: {proxy or 'the proxy'} {reason.text}"
    else:
        message = f"no connection to {proxy or gateway}: {reason.text}"
    failed = ConnectionFailedError(message)
    failed.reason, failed.transient = reason.text, reason.transient
    return failed


def rejected(error: UnauthorizedError) -> TokenRejectedError:
    """Return the error for a 401 that was answered to a renewed token."""
    again = TokenRejectedError(
        "the gateway answered 401 Unauthorized, also with a new access token",
        status=error.status,
        body=error.body,
        headers=error.headers,
    )
    again.outcome, again.payload = error.outcome, error.payload
    again.retry_after = error.retry_after
    return again
