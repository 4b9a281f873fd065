"""What is known when an attempt fails: its outcome, and the error that the caller gets.

Why there was no connection is said in plain words. No I/O here.
"""

import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, Final, NamedTuple, NoReturn, cast

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.reply_errors import cut_reply, outcome_of_reply, outcome_of_status
from gateway_sdk._transport.transmission import (
    OurError,
    Request,
    SilentNetworkError,
    Transmission,
    UnreadableReplyError,
)
from gateway_sdk._url import host_and_port, port_of
from gateway_sdk.errors import (
    ConnectionFailedError,
    GatewayError,
    ReplyLostError,
    ReplyTimeoutError,
    StatusError,
    UnexpectedReplyError,
    UploadFailedError,
)
from gateway_sdk.errors._base import AUTHORITY, CLIENT, HOST, PROXY, SCHEME, SLOTS, Hints
from gateway_sdk.outcome import Advice, Outcome

_SELF_EXPLAINING: Final = (ConnectionFailedError, ReplyLostError, StatusError, UnexpectedReplyError)
"""Errors whose outcome follows from what the attempt proves."""


def outcome_of_attempt(
    error: BaseException, transmission: Transmission, reply: RawReply | None
) -> Outcome:
    if isinstance(error, _SELF_EXPLAINING):
        return error.outcome
    if transmission.status is not None:
        # A proxy may have made this reply; without its body that cannot be known.
        doubtful = transmission.forwarded
        if reply is None:
            return outcome_of_status(transmission.status, doubtful=doubtful)
        return outcome_of_reply(reply, is_whole=False, doubtful=doubtful)
    return Outcome.NOT_SENT if transmission.is_unsent(error) else Outcome.UNKNOWN


# The error of another call, made in a transport of the user, says nothing about this one.
def raise_failure(
    error: Exception, request: Request, reply: RawReply | None, *, is_ours: bool
) -> NoReturn:
    """Raise the error for a failed attempt, with the outcome that is proven."""
    if isinstance(error, GatewayError) and error.operation is None:  # of this call
        if isinstance(error, UploadFailedError):
            raise error  # made for this call, and with what the content raised as its context
        own = copy(error)  # other calls may hold it too
        if request.transmission.failed_unsent is error:
            request.transmission.failed_unsent = own
        raise own from error.__cause__
    if isinstance(error, OSError) and is_ours:
        raise error  # our engines never raise it, so it is a bug that must be seen
    failure = _failure_of(error, request, reply)
    if isinstance(failure, ConnectionFailedError) and isinstance(error, httpx.HTTPError):
        # The frames of our engines hold the request with its token, for tracebacks with variables.
        # A client puts it on the error itself, and tblib, which Dask uses, pickles causes.
        cast("Any", error).request = None
        raise failure from error.with_traceback(None) if is_ours else error
    raise failure from None  # the cause's text may show what the server sent


def _failure_of(error: Exception, request: Request, reply: RawReply | None) -> GatewayError:
    kind = ReplyTimeoutError if isinstance(error, httpx.TimeoutException) else ReplyLostError
    how = request.transmission
    if reply is None and how.status is not None:  # it came, and then a hook of the client failed
        reply = RawReply(how.status, [], {}, forwarded=how.forwarded)
    if reply is not None:
        return cut_reply(reply, reason_of_loss(error, request.timeout).text, kind)
    address, proxy = request.base.address, how.proxy
    gateway = host_and_port(address.host, port_of(address))
    failed: ConnectionFailedError | ReplyLostError
    if how.is_unsent(error):
        reason = reason_of(error, request.timeout)
        if isinstance(error, httpx.ProxyError):
            text = f"{gateway}: {proxy or 'the proxy'} {reason.text}"
        else:
            text = f"{proxy or gateway}: {reason.text}"
        failed = ConnectionFailedError(f"no connection to {text}")
        failed.reason = reason.text
    else:
        reason = reason_of_loss(error, request.timeout)
        failed = kind(f"no reply from {gateway}: {reason.text}")
    failed.advice, hints = reason.advice, reason.hints
    if (proxy or isinstance(error, httpx.ProxyError)) and hints is not AUTHORITY:
        hints = PROXY
    if hints is not None:
        failed.hints = hints
    return failed


class Reason(NamedTuple):
    text: str  # the reason, as the end of a sentence
    advice: Advice = Advice.REPEAT  # if the cause may disappear; else FIX
    hints: Hints | None = None  # None for that of the class


_BROKEN: Final = Reason("the connection broke off before anything was sent")

_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21})
"""Codes of OpenSSL's X509_verify_cert_error_string: no authority is known that has signed it."""

_CLIENT_CERTIFICATES: Final = (
    ("CERTIFICATE_REQUIRED", "it wants a client certificate", CLIENT),
    (
        "ALERT_(|BAD_|NO_|UNSUPPORTED_)CERTIFICATE|UNOBTAINABLE|HASH_VALUE|UNKNOWN_CA|ACCESS_DENIED",
        "it did not accept the client certificate",
        None,
    ),
)
"""By patterns for the names of alerts (RFC 8446, 6; RFC 5246, 7.2), and of OpenSSL's own errors."""

_HANDSHAKES: Final = (
    *_CLIENT_CERTIFICATES,
    (
        "WRONG_VERSION_NUMBER|HTTP_REQUEST|UNKNOWN_PROTOCOL|RECORD_LAYER_FAILURE",
        "it is not a TLS server",
        SCHEME,
    ),
    ("PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL", "it speaks other versions of TLS", None),
    ("UNRECOGNIZED_NAME", "it serves no host of this name", HOST),
    ("NO_APPLICATION_PROTOCOL", "it does not speak HTTP/1.1, perhaps HTTP/2 only", None),
    (
        "HANDSHAKE_FAILURE|INSUFFICIENT_SECURITY|EXPORT_RESTRICTION",
        "it refused the TLS handshake: it may want other ciphers, or a client certificate",
        CLIENT,
    ),
    (
        "ILLEGAL_PARAMETER|(MISSING|UNSUPPORTED)_EXTENSION|UNKNOWN_PSK_IDENTITY|ECH_REQUIRED",
        "it refused the TLS handshake: it wants what this TLS does not offer",
        None,
    ),
)
"""What the same handshake would end with again. Other alerts tell of broken messages, or of faults
of the server."""

_ALERT: Final = re.compile(r"\] \w+ (alert [a-z ]*[a-z])")


def reason_of(error: Exception, timeout: httpx.Timeout) -> Reason:
    match error:
        case httpx.PoolTimeout():
            text = "while all of max_connections were in use"
            return Reason(f"timed out{_after(timeout.pool)} {text}", hints=SLOTS)
        case httpx.ConnectTimeout():
            return Reason(f"timed out{_after(timeout.connect)} while connecting")
        case httpx.LocalProtocolError():
            return Reason("a header holds a line break or another length of content", Advice.FIX)
        case _:
            found = map(_reason_of_cause, reversed(list(_causes(error))))
            return next(filter(None, found), _BROKEN)


def reason_of_loss(error: Exception, timeout: httpx.Timeout) -> Reason:
    """Say why there is no reply, or not all of it; no text of a foreign transport is shown."""
    match error:
        case UnreadableReplyError():
            return _told(error)
        case SilentNetworkError():
            text = "timed out: the network acknowledges nothing any more"
        case httpx.ReadTimeout():
            text = f"timed out{_after(timeout.read)} while waiting for the reply"
        case httpx.WriteTimeout():
            text = f"timed out{_after(timeout.write)} while sending"
        case httpx.NetworkError():
            # In TLS 1.3 the request may leave before the server checks the client's certificate.
            causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
            found = (_found(_CLIENT_CERTIFICATES, cause) for cause in causes)
            return next(filter(None, found), Reason("the connection broke off"))
        case httpx.ProtocolError():
            text = "the connection broke off, or the reply is not HTTP"
        case _:
            text = f"the transport raised {type(error).__name__}"
    return Reason(text)


def _after(seconds: float | None) -> str:
    return "" if seconds is None else f" after {seconds:g} s"


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        if isinstance(cause, BaseExceptionGroup):  # one for each address of a name
            for one in cast("BaseExceptionGroup[BaseException]", cause).exceptions:
                yield from _causes(one)
        cause = cause.__cause__


def _reason_of_cause(cause: BaseException) -> Reason | None:
    reason = None
    match cause:
        case OurError():  # of a tunnel, or about bytes that came before the request
            reason = _told(cause)
        case httpx.ProxyError():
            reason = Reason("made no tunnel")
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=problem):
            hints = AUTHORITY if code in _UNTRUSTED else HOST
            reason = Reason(f"its certificate is not valid: {problem}", Advice.FIX, hints)
        case ssl.SSLError():
            unknown = Reason(f"the TLS handshake failed: {_name_of(cause)}".removesuffix(": "))
            reason = _found(_HANDSHAKES, cause) or unknown
        case socket.gaierror(errno=number) if number != socket.EAI_NONAME:
            reason = Reason("the name could not be looked up")
        case socket.gaierror() | UnicodeError():  # a part of the name is too long
            reason = Reason("the name is not known", Advice.FIX, HOST)
        case ConnectionRefusedError():
            reason = Reason("connection refused")
        case ConnectionError():
            reason = _BROKEN
        case OSError(errno=int(number)):
            text = os.strerror(number)
            reason = Reason(text[:1].lower() + text[1:])
        case _:
            pass
    return reason


def _told(error: OurError) -> Reason:
    return Reason(str(error), Advice.FIX if error.is_permanent else Advice.REPEAT)


def _name_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's name of an error; "" for an error of Python's own."""
    if name := getattr(error, "reason", None):
        return str(name)
    found = _ALERT.search(str(error))  # Python's table of names is older than some alerts
    return found[1].upper().replace(" ", "_") if found else ""


def _found(table: Iterable[tuple[str, str, Hints | None]], error: ssl.SSLError) -> Reason | None:
    name = _name_of(error)
    found = (
        Reason(text, Advice.FIX, it) for pattern, text, it in table if re.search(pattern, name)
    )
    return next(found, None)
