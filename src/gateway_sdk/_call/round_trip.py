"""One attempt: a request, its reply, and what is known when it ends."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx

from gateway_sdk._call.client import Client
from gateway_sdk._http.body import Body
from gateway_sdk._http.content import BodyReader
from gateway_sdk._http.headers import RawHeaders, field_of, replace_fields
from gateway_sdk._http.reply import RawReply, cut_reply, outcome_of_head, read_reply
from gateway_sdk._transport.reason import Reason, late_reason_of, place_of_url, reason_of
from gateway_sdk._transport.transmission import (
    EXTENSION,
    DirectRequest,
    DirectResponse,
    DirectTransport,
    Transmission,
)
from gateway_sdk.auth.token import AccessToken, text_of
from gateway_sdk.errors import (
    ConnectionFailedError,
    GatewayError,
    ReplyLostError,
    ReplyTimeoutError,
    StatusError,
    UnexpectedReplyError,
)
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome

MoreFields: TypeAlias = Mapping[str, str] | None
"""Header fields that observers give to one attempt."""

_Response: TypeAlias = httpx.Response | DirectResponse

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""What our engines raise when no byte of the request was sent."""

_SELF_EXPLAINING = (ConnectionFailedError, ReplyLostError, StatusError, UnexpectedReplyError)
"""Errors whose outcome follows from what the attempt proves."""


@dataclass(slots=True, eq=False, repr=False)
class PreparedRequest:
    """What every attempt of a call sends, without the access token."""

    operation: Operation[Any]
    url: httpx.URL
    headers: RawHeaders
    body: Body | None
    timeout: httpx.Timeout
    into: Any

    @property
    def can_be_sent(self) -> bool:
        """Whether the whole body can be sent: it was not started, or it can restart."""
        return self.body is None or self.body.can_be_sent

    def request(
        self, token: AccessToken, transmission: Transmission, more: MoreFields
    ) -> httpx.Request:
        """Build the request of one attempt."""
        return httpx.Request(
            self.operation.method,
            self.url,
            headers=self._fields(token, more),
            stream=self.body or httpx.ByteStream(b""),
            extensions={"timeout": self.timeout.as_dict(), EXTENSION: transmission},
        )

    def direct_request(
        self, token: AccessToken, transmission: Transmission, more: MoreFields
    ) -> DirectRequest:
        """Make the same request for a transport that needs no object of httpx."""
        return DirectRequest(
            self.operation.method,
            self.url,
            self._fields(token, more),
            self.body or httpx.ByteStream(b""),
            self.body.length if self.body else 0,
            self.timeout,
            transmission,
        )

    def _fields(self, token: AccessToken, more: MoreFields) -> RawHeaders:
        return [
            (b"Host", self.url.netloc),
            *(replace_fields(self.headers, more) if more else self.headers),
            (b"Authorization", f"Bearer {text_of(token)}".encode("latin-1")),
            *self._framing(),
        ]

    def _framing(self) -> RawHeaders:
        """Return the headers that give the length of the body (RFC 9112, 6)."""
        if self.body is None:  # a POST without a body says so (RFC 9110, 8.6)
            return [(b"Content-Length", b"0")] if self.operation.method == "POST" else []
        if self.body.length is None:
            return [(b"Transfer-Encoding", b"chunked")]
        return [(b"Content-Length", str(self.body.length).encode("ascii"))]


class RoundTrip:
    """One attempt; `run` is called once.

    Attributes:
        ended: The result of the attempt; set when `run` ends, with or without an error.
    """

    ended: Attempt

    def __init__(
        self,
        client: Client,
        transport: httpx.AsyncBaseTransport,
        prepared: PreparedRequest,
        number: int,
        more: MoreFields,
    ) -> None:
        self._client = client
        self._number = number
        self._more = more
        self._transport = transport
        self._prepared = prepared
        self._transmission = Transmission(sent=not client.tells_what_was_sent)
        self._begun: tuple[_Response, BodyReader] | None = None  # set when the head came

    async def run(self, token: AccessToken) -> tuple[RawReply, Any]:
        """Send the request once and return the raw reply and its value.

        Raises:
            GatewayError: with the outcome of this attempt.
        """
        began = time.monotonic()
        try:
            raw = await self._send(token)
            value = read_reply(
                self._prepared.operation,
                raw,
                into=self._prepared.into,
                parse_float=self._client.parse_float,
            )
        except BaseException as error:
            self._end(began, self._outcome_of(error), type(error).__name__)
            raise
        self._end(began, Outcome.APPLIED, None)
        return raw, value

    def _end(self, began: float, outcome: Outcome, error: str | None) -> None:
        elapsed = time.monotonic() - began
        how = self._transmission
        self.ended = Attempt(
            outcome, how.status, error, elapsed, self._number, how.slot_wait, how.rate_wait
        )

    def _outcome_of(self, error: BaseException) -> Outcome:
        """Return the outcome of an attempt that ended with this error."""
        if isinstance(error, _SELF_EXPLAINING):
            return error.outcome
        if self._transmission.status is not None:
            # A proxy may have made this reply; without its body that cannot be known.
            headers = self._begun[0].headers if self._begun else None
            return outcome_of_head(
                self._transmission.status, headers, doubtful=self._transmission.forwarded
            )
        return Outcome.UNKNOWN if self._transmission.sent else Outcome.NOT_SENT

    async def _send(self, token: AccessToken) -> RawReply:
        """Send the request and collect the reply; the content is released in any case."""
        try:
            return await self._exchange(token)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = self._failure(error)
            if isinstance(failure, ConnectionFailedError):
                raise failure from error
            raise failure from None  # the cause's text may show what the server sent
        except OSError as error:
            if self._client.tells_what_was_sent:
                raise  # our engines never raise it, so it is a bug that must be seen
            raise self._failure(error) from None
        finally:
            if self._prepared.body is not None:
                await self._prepared.body.aclose()

    async def _exchange(self, token: AccessToken) -> RawReply:
        response = await self._response(token)
        self._transmission.status = response.status_code
        stream = cast("httpx.AsyncByteStream", response.stream)
        try:
            return await self._read(response, stream)
        finally:
            await stream.aclose()

    async def _response(self, token: AccessToken) -> _Response:
        if isinstance(self._transport, DirectTransport):
            return await self._transport.exchange(
                self._prepared.direct_request(token, self._transmission, self._more)
            )
        return await self._transport.handle_async_request(
            self._prepared.request(token, self._transmission, self._more)
        )

    async def _read(self, response: _Response, stream: httpx.AsyncByteStream) -> RawReply:
        """Collect the body up to the limit; the rest is not read."""
        encoding = field_of(response.headers, b"content-encoding")
        reader = BodyReader(encoding, self._client.max_reply_bytes)
        self._begun = response, reader
        async for piece in stream:
            if not reader.feed(piece):
                break
        return self._raw_reply(response, reader)

    def _raw_reply(self, response: _Response, reader: BodyReader) -> RawReply:
        """Return the part of a reply that has arrived."""
        return RawReply(
            response.status_code,
            response.headers,
            reader.finish(),
            reader.problem,
            self._transmission.forwarded,
        )

    def _failure(self, error: Exception) -> GatewayError:
        """Return the error for a failed attempt, with the outcome that is proven."""
        what = type(error).__name__
        gateway = place_of_url(self._prepared.url)
        if self._begun is not None:
            return cut_reply(self._raw_reply(*self._begun), what)
        if isinstance(error, _NOT_SENT) and not self._transmission.sent:
            return self._not_connected(error, gateway)
        kind = ReplyTimeoutError if isinstance(error, httpx.TimeoutException) else ReplyLostError
        reason = late_reason_of(error) or Reason(what, transient=True)
        lost = kind(f"no reply from {gateway}: {reason.text}")
        lost.transient = reason.transient
        return lost

    def _not_connected(self, error: Exception, gateway: str) -> ConnectionFailedError:
        """Return the error for a request that was not sent; it names a proxy that is the cause."""
        reason = reason_of(error, self._prepared.timeout)
        proxy = self._transmission.proxy
        if isinstance(error, httpx.ProxyError):
            message = f"no connection to {gateway}: {proxy or 'the proxy'} {reason.text}"
        else:
            message = f"no connection to {proxy or gateway}: {reason.text}"
        failed = ConnectionFailedError(message)
        failed.reason, failed.transient = reason.text, reason.transient
        return failed
