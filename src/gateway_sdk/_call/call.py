"""One call, from its first attempt to its last: token, attempts, outcome, deadline."""

import asyncio
import time
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import httpx
from pydantic import ValidationError

from gateway_sdk._call.client import Client
from gateway_sdk._call.events import ITEMS, Watch
from gateway_sdk._call.failure import outcome_of_attempt, raise_failure
from gateway_sdk._call.in_flight import CallScope
from gateway_sdk._call.options import Options, check_gateway
from gateway_sdk._call.retry import repeatable_after, try_again
from gateway_sdk._http.reply import SUCCESS, ContentError, RawReply, check_type, decode
from gateway_sdk._http.reply_errors import status_error, token_rejected, unexpected_reply
from gateway_sdk._http.request import (
    NO_VALUES,
    OnProgress,
    RawHeaders,
    RequestBase,
    RequestTemplate,
    framing,
    json_content,
)
from gateway_sdk._transport.transmission import (
    DirectRequest,
    DirectResponse,
    Transmission,
    Transport,
)
from gateway_sdk.auth.source import authorization, fetch_token, invalidate, note_success
from gateway_sdk.auth.token import AccessToken, text_of
from gateway_sdk.errors import (
    GatewayError,
    InvalidArgumentError,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.operations import Content, Operation
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, Reply, outcome_of

if TYPE_CHECKING:
    from gateway_sdk._http.body import Body

T = TypeVar("T")


class CallArguments(TypedDict, total=False):
    """What a call is made of; `GatewaySession.send` describes it."""

    path: Mapping[str, str] | None
    body: object
    content_type: str | None
    on_progress: OnProgress | None


class Caller:
    def __init__(self, client: Client, options: Options) -> None:
        check_gateway(options.access_token, client.base_url)
        self.client = client
        self.options = options

    async def value(self, operation: Operation[T], **given: Unpack[CallArguments]) -> T:
        """Make one call and return the value of its reply, as the coroutine methods do."""
        call = Call(self.client, self.options, operation)
        await call.run(**given)
        value: T = call.value
        return value

    async def send(
        self, operation: Operation[T], *, into: Any = None, **given: Unpack[CallArguments]
    ) -> Reply[T]:
        """Make one call; `GatewaySession.send` describes the arguments and the errors."""
        if not isinstance(operation, Operation):
            raise InvalidArgumentError("operation must be one of gateway_sdk.operations")
        began = time.monotonic()
        call = Call(self.client, self.options, operation, into)
        raw = await call.run(**given)
        return Reply(
            value=call.value,
            status=raw.status,
            headers=raw.headers,
            body=raw.body,
            attempts=call.attempts,
            elapsed=time.monotonic() - began,
        )


class Call:
    value: Any  # the value of the reply; set when `run` ends without an error
    _transport: Transport
    _template: RequestTemplate
    _target: bytes
    _content: "bytes | Body" = b""
    _length: int | None
    _framing: RawHeaders
    _reply: RawReply | None
    _scope: CallScope

    def __init__(
        self, client: Client, options: Options, operation: Operation[Any], into: Any = None
    ) -> None:
        self._client = client
        self._options = options
        self._operation = operation
        self._into = into
        self._failed: list[Attempt] = []
        self._succeeded: tuple[Transmission, float] | None = None  # how, and the seconds
        self._success: Attempt | None = None  # made of these when it is asked for: it takes 2 µs
        self._renewed = False
        self._watch: Watch | None = None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        if self._succeeded is None:
            return tuple(self._failed)
        if self._success is None:
            self._success = self._attempt_of(Outcome.APPLIED, None, *self._succeeded)
        return (*self._failed, self._success)

    def _attempt_of(
        self, outcome: Outcome, error: str | None, how: Transmission, elapsed: float
    ) -> Attempt:
        number = len(self._failed) + 1
        return Attempt(outcome, how.status, error, elapsed, number, how.slot_wait, how.rate_wait)

    async def run(
        self,
        path: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RawReply:
        """Make the call and return its reply, or raise an error that says what became of it."""
        watch = self._watch = self._client.count(self._operation)
        try:
            if watch is not None:
                watch.started()
            self._transport = self._client.open()
            with CallScope(self._client.calls, self._options.deadline) as self._scope:
                self._take_path(path or NO_VALUES)
                raw = await self._made(body, content_type, on_progress)
        except BaseException as error:
            if isinstance(error, GatewayError):
                error.of_call(self._operation.name, self._repeatability, self.attempts)
            if watch is not None:
                watch.finished(outcome_of(self.attempts, self._repeatability), error)
            raise
        if watch is not None:
            watch.finished(outcome_of(self.attempts, self._repeatability), None)
        return raw

    async def _made(
        self, body: object, content_type: str | None, on_progress: OnProgress | None
    ) -> RawReply:
        """Make the attempts; the content is closed in any case."""
        failures: list[GatewayError] = []
        try:
            await self._take_content(body, content_type, on_progress)
            try:
                return await self._with_token()
            except GatewayError as error:
                if not self._may_repeat(error):
                    raise
                failures.append(error)
            return await self._again(failures)
        finally:
            if not isinstance(self._content, bytes):
                await self._content.end()

    def _take_path(self, path: Mapping[str, str]) -> None:
        template = self._options.templates.get(self._operation.name)
        if template is None or template.operation is not self._operation:
            template = self._options.template(self._operation, self._client.base_url)
        self._template, self._target = template, template.target(path)
        if self._into is not None:
            check_type(self._into)

    async def _take_content(
        self, content: object, content_type: str | None, on_progress: OnProgress | None
    ) -> None:
        if self._operation.content is not Content.ANY or content is None:
            if content_type is not None or on_progress is not None:
                raise InvalidArgumentError(
                    "content_type and on_progress need a document as content"
                )
            self._content, self._length, self._framing = json_content(self._operation, content)
            return
        from gateway_sdk._http.body import make_body  # noqa: PLC0415 - few calls have a document

        body = await make_body(self._operation, content, content_type, on_progress)
        if self._watch is not None:  # the caller's code reads it: not in what observers set
            body.context = self._watch.context
        self._content, self._length = body, body.length
        await body.begin()
        self._framing = framing(self._operation.method, body.length, body.content_type)

    async def _again(self, failures: list[GatewayError]) -> RawReply:
        loop, when = asyncio.get_running_loop(), self._scope.when

        def fits(seconds: float) -> bool:
            """Tell whether an attempt as fast as the fastest so far ends before the deadline."""
            fastest = min((attempt.elapsed for attempt in self._failed), default=0.0)
            return when is None or loop.time() + seconds + fastest < when

        def scheduled(seconds: float) -> None:
            if self._watch is not None and self._failed:  # else there was no token to try with
                self._watch.scheduled(self._failed[-1], seconds)

        return await try_again(
            failures.pop(),  # keep no reference: its traceback refers to this frame (a cycle)
            self._with_token,
            made=self._failed,
            policy=self._options.retry,
            again=self._may_repeat,
            fits=fits,
            spend=self._client.take_retry,
            scheduled=scheduled,
            sleep=self._client.sleep,
        )

    @property
    def _can_be_sent(self) -> bool:
        """Whether the whole content can be sent: it was not started, or it can restart."""
        return isinstance(self._content, bytes) or self._content.can_be_sent

    @property
    def _repeatability(self) -> Repeatability:
        declared = self._operation.repeatability
        if declared is Repeatability.IDEMPOTENT and not self._options.retry.repeat_idempotent:
            return Repeatability.ONCE
        return declared

    def _may_repeat(self, error: BaseException) -> bool:
        return (
            isinstance(error, GatewayError)
            and self._can_be_sent
            and self._repeatability in repeatable_after(error, self._options.retry)
        )

    async def _with_token(self) -> RawReply:
        source = self._options.access_token
        token = await fetch_token(source)
        try:
            return await self._attempt(token)
        except UnauthorizedError as error:
            if self._renewed:
                invalidate(source, token)
                raise token_rejected(error) from None
            if error.outcome is not Outcome.REFUSED or not self._can_be_sent:
                invalidate(source, token)  # for the next call
                raise
            renewed = await self._renewed_token(error, token)
            if text_of(renewed) == text_of(token):
                raise
        self._renewed = True
        try:
            return await self._attempt(renewed)
        except UnauthorizedError as error:
            invalidate(source, renewed)
            raise token_rejected(error) from None

    async def _renewed_token(self, error: UnauthorizedError, token: AccessToken) -> AccessToken:
        try:
            return await fetch_token(self._options.access_token, rejected=token)
        except TokenRejectedError:  # other calls saw that new tokens are refused too
            raise token_rejected(error) from None

    async def _attempt(self, token: AccessToken) -> RawReply:
        if self._repeatability is Repeatability.ONCE and not self._failed:
            for item in ITEMS.get():
                try:
                    await item.record_intent()
                except GatewayError as error:  # other calls may hold it too
                    raise copy(error) from error.__cause__
        more = None if self._watch is None else self._watch.begun(len(self._failed) + 1)
        base = self._template.without(more) if more else self._template
        how = Transmission(sent=not self._client.tells_what_was_sent, check=self._scope.check)
        self._reply = None
        began = time.monotonic()
        try:
            raw = await self._exchange(base, token, how, more or [])
            self.value = self._value_of(raw)
        except BaseException as error:
            outcome, name = outcome_of_attempt(error, how, self._reply), type(error).__name__
            self._failed.append(self._attempt_of(outcome, name, how, time.monotonic() - began))
            raise
        else:
            self._succeeded = how, time.monotonic() - began
        finally:
            if self._watch is not None:
                self._watch.ended(self.attempts[-1])
        note_success(self._options.access_token, token)
        return raw

    async def _exchange(
        self, base: RequestBase, token: AccessToken, transmission: Transmission, more: RawHeaders
    ) -> RawReply:
        """Send the request once and collect the reply; the content is released in any case."""
        request = DirectRequest(
            base,
            self._target,
            [(b"Authorization", authorization(token)), *self._framing, *more],
            self._content,
            self._length,
            self._options.timeout,
            transmission,
        )
        try:
            response = await self._transport.exchange(request)
            transmission.status = response.status
            return await self._collected(response, forwarded=transmission.forwarded)
        except (GatewayError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise_failure(error, request, self._reply, is_ours=self._client.tells_what_was_sent)
        finally:
            if not isinstance(self._content, bytes):
                await self._content.aclose()

    async def _collected(self, response: DirectResponse, *, forwarded: bool) -> RawReply:
        """Collect the body up to the limit; the rest is not read."""
        reply = self._reply = RawReply(
            response.status, response.fields, self._client.max_reply_bytes, forwarded=forwarded
        )
        if response.stream is None:
            if reply.feed(response.body):
                await _inflate(reply)
        else:
            try:
                async for piece in response.stream:
                    if reply.feed(piece):
                        await _inflate(reply)
                    if reply.is_full:
                        break
            finally:
                await response.stream.aclose()
        reply.finish()
        return reply

    def _value_of(self, raw: RawReply) -> Any:
        if raw.status not in SUCCESS:
            raise status_error(raw)
        try:
            return decode(raw, self._operation, self._into, self._client.parse_float)
        except (ContentError, ValidationError) as error:
            raise unexpected_reply(raw, error, by_interface=self._into is None) from None


async def _inflate(reply: RawReply) -> None:
    """Decompress what has come, with turns for the event loop."""
    while reply.inflate():  # noqa: ASYNC110 - it works, and waits for nothing
        await asyncio.sleep(0)
