"""One call, from its first attempt to its last: token, attempts, outcome, deadline."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx

from gateway_sdk._body import Body
from gateway_sdk._core import Core, State
from gateway_sdk._engine.progress import EXTENSION, Progress
from gateway_sdk._options import Options
from gateway_sdk._retry import may_repeat, with_retries
from gateway_sdk._wire.content import BodyReader
from gateway_sdk._wire.reply import RawReply, outcome_of_status, read_reply
from gateway_sdk.auth.source import AccessToken, ask, text_of
from gateway_sdk.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    ReplyLostError,
    ReplyTimeoutError,
    SessionStateError,
    StatusError,
    TokenRejectedError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome
from gateway_sdk.reply import Reply

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""What our engines raise when no byte of the request has left."""

_SELF_EXPLAINING = (ConnectionFailedError, ReplyLostError, StatusError, UnexpectedReplyError)


@dataclass(slots=True, repr=False)
class Call:
    """One call of an operation, made once.

    Attributes:
        url: The operation's whole address.
        headers: All but Authorization.
        body: None for an operation without one.
        into: The type that the reply is read into; None for what the operation promises.
        attempts: Those that have ended, oldest first.
    """

    core: Core
    options: Options
    operation: Operation[Any]
    url: httpx.URL
    headers: Mapping[str, str]
    body: Body | None
    into: Any
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    _renewed: bool = False
    _progress: Progress = field(default_factory=lambda: Progress(sent=False))

    async def run(self) -> Reply[Any]:
        """Make the call and return its reply, or raise an error that says what became of it.

        Raises:
            GatewayError: with `operation`, `outcome` and `attempts` filled in.
        """
        began = time.monotonic()
        try:
            raw, value = await self._within_deadline()
        except GatewayError as error:
            error.of_call(self.operation.name, self.operation.repeatability, tuple(self.attempts))
            raise
        return Reply(
            value=value,
            status=raw.status,
            headers=raw.headers,
            body=raw.body,
            attempts=tuple(self.attempts),
            elapsed=time.monotonic() - began,
        )

    async def _within_deadline(self) -> tuple[RawReply, Any]:
        """Make attempts until the deadline, or until the session is closed."""
        transport = self.core.open()
        scope = asyncio.timeout(self.options.deadline)
        try:
            async with scope:
                with self.core.under_way(scope):
                    return await self._with_retries(transport, scope)
        except TimeoutError:
            if not scope.expired():
                raise
            if self.core.state is State.OPEN:
                raise DeadlineExceededError(
                    f"the deadline of {self.options.deadline:g} s passed"
                ) from None
            raise SessionStateError("the session was closed before the reply came") from None

    async def _with_retries(
        self, transport: httpx.AsyncBaseTransport, scope: asyncio.Timeout
    ) -> tuple[RawReply, Any]:
        loop = asyncio.get_running_loop()

        def fits(seconds: float) -> bool:
            until = scope.when()
            return until is None or loop.time() + seconds < until

        def again(error: BaseException) -> bool:
            return (
                may_repeat(error, self.operation.repeatability, self.options.retry)
                and self._can_be_sent
            )

        return await with_retries(
            lambda: self._with_token(transport),
            policy=self.options.retry,
            again=again,
            fits=fits,
            sleep=self.core.sleep,
        )

    @property
    def _can_be_sent(self) -> bool:
        return self.body is None or self.body.can_be_sent

    async def _with_token(self, transport: httpx.AsyncBaseTransport) -> tuple[RawReply, Any]:
        """Make an attempt; after a 401 one more, if the source has another token."""
        source = self.options.access_token
        token = await ask(source)
        try:
            return await self._attempt(transport, token)
        except UnauthorizedError as error:
            if self._renewed:
                raise _rejected(error) from None
            if not self._can_be_sent:
                raise
            renewed = await ask(source, rejected=token)
            if text_of(renewed) == text_of(token):
                raise
        self._renewed = True
        try:
            return await self._attempt(transport, renewed)
        except UnauthorizedError as error:
            raise _rejected(error) from None

    async def _attempt(
        self, transport: httpx.AsyncBaseTransport, token: AccessToken
    ) -> tuple[RawReply, Any]:
        """Send the request once and note how that ended."""
        began = time.monotonic()
        self._progress = Progress(sent=not self.core.tells_what_was_sent)
        try:
            raw = await self._exchange(transport, token)
            value = read_reply(
                self.operation, raw, into=self.into, parse_float=self.core.parse_float
            )
        except BaseException as error:
            self._note(began, self._outcome_of(error), getattr(error, "status", None), error)
            raise
        self._note(began, Outcome.APPLIED, raw.status, None)
        return raw, value

    def _note(
        self, began: float, outcome: Outcome, status: int | None, error: BaseException | None
    ) -> None:
        name = type(error).__name__ if error else None
        self.attempts.append(Attempt(outcome, status, name, time.monotonic() - began))

    def _outcome_of(self, error: BaseException) -> Outcome:
        """Tell what an attempt did that ended like this; a cancellation knows only what left."""
        if isinstance(error, _SELF_EXPLAINING):
            return error.outcome
        return Outcome.UNKNOWN if self._progress.sent else Outcome.NOT_SENT

    async def _exchange(self, transport: httpx.AsyncBaseTransport, token: AccessToken) -> RawReply:
        """Send the request and collect the reply."""
        status = None
        try:
            response = await transport.handle_async_request(self._request(token))
            status = response.status_code
            try:
                return await self._read(response)
            finally:
                await response.aclose()
        except _NOT_SENT as error:
            raise self._failure(error, status) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Without the cause, whose text may show what the server sent.
            raise self._failure(error, status) from None
        except OSError as error:
            if self.core.tells_what_was_sent:
                raise  # our engines raise none: it comes from the stream that is being uploaded
            raise self._failure(error, status) from error

    def _request(self, token: AccessToken) -> httpx.Request:
        headers = {
            "Host": self.url.netloc.decode("ascii"),
            **self.headers,
            "Authorization": f"Bearer {text_of(token)}",
        }
        if self.body is not None and self.body.length is None:
            headers["Transfer-Encoding"] = "chunked"
        elif self.body is not None:
            headers["Content-Length"] = str(self.body.length)
        elif self.operation.method == "POST":
            headers["Content-Length"] = "0"  # RFC 9110, 8.6
        return httpx.Request(
            self.operation.method,
            self.url,
            headers=[
                (name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()
            ],
            stream=self.body or httpx.ByteStream(b""),
            extensions={"timeout": self.options.timeout.as_dict(), EXTENSION: self._progress},
        )

    async def _read(self, response: httpx.Response) -> RawReply:
        """Collect the body up to the limit; what lies beyond it is never taken in."""
        reader = BodyReader(response.headers.get("content-encoding", ""), self.core.max_reply_bytes)
        async for piece in cast("httpx.AsyncByteStream", response.stream):
            if not reader.feed(piece):
                break
        body = reader.finish()
        return RawReply(response.status_code, response.headers, body, reader.problem)

    def _failure(self, error: Exception, status: int | None) -> GatewayError:
        """Say what a failed exchange proves."""
        what = type(error).__name__
        if status is not None:
            lost = ReplyLostError(f"the reply broke off after its head: {what}", status=status)
            lost.outcome = outcome_of_status(status)
            return lost
        if self.core.tells_what_was_sent and isinstance(error, _NOT_SENT):
            return ConnectionFailedError(f"no connection to {self.url.host}: {what}")
        kind = ReplyTimeoutError if isinstance(error, httpx.TimeoutException) else ReplyLostError
        return kind(f"no reply from {self.url.host}: {what}")


def _rejected(error: UnauthorizedError) -> TokenRejectedError:
    """Turn the 401 for a renewed token into the error that says so."""
    rejected = TokenRejectedError(
        "the gateway answered 401 Unauthorized, and so again with a new access token",
        status=error.status,
        body=error.body,
        headers=error.headers,
    )
    rejected.outcome, rejected.payload = error.outcome, error.payload
    return rejected
