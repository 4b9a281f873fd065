"""One call, from its first attempt to its last: token, attempts, outcome, deadline."""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

import httpx
from pydantic import ValidationError

from gateway_sdk._call.deadline import CallScope
from gateway_sdk._call.events import ITEMS, Watch, log_repeat, tell_outcome
from gateway_sdk._call.failure import outcome_of_attempt, raise_failure
from gateway_sdk._call.options import (
    CallArguments,
    Options,
    PerCall,
    RequestArguments,
    Unchecked,
    check_gateway,
)
from gateway_sdk._call.retry import Patience, repeatable_after, try_again
from gateway_sdk._call.shared_state import SharedState
from gateway_sdk._http.reply import SUCCESS, BodyReader, ContentError, RawReply, check_type, decode
from gateway_sdk._http.reply_errors import status_error, token_rejected, unexpected_reply
from gateway_sdk._http.request import (
    NO_VALUES,
    OnProgress,
    PreparedRequest,
    RequestTemplate,
    authorization,
    prepare,
)
from gateway_sdk._python import Log
from gateway_sdk._transport.transmission import LONG, Request, Transmission, Transport, hide_frames
from gateway_sdk._waiting import is_done_within
from gateway_sdk.auth.source import Builtin, StaticTokenSource, fetch_token, invalidate, ready_token
from gateway_sdk.auth.token import AccessToken, text_of
from gateway_sdk.errors import (
    GatewayError,
    InvalidArgumentError,
    TokenRejectedError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.operations import LIST_COUNTRIES, Content, Operation
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, Reply, outcome_of

if TYPE_CHECKING:
    from gateway_sdk._content.body import Body

_logger = Log("gateway_sdk")

T = TypeVar("T")

_CONNECT: Final = replace(LIST_COUNTRIES, name="connect")  # which errors name; it is never sent


class _TokenIsLateError(Exception):
    """A request leaves the queue: others may need its slot and its turn."""


class Caller:
    def __init__(self, shared: SharedState, options: Options) -> None:
        check_gateway(options.access_token, shared.base_url)
        shared.note_source(options.access_token)
        self.shared = shared
        self.options = options

    def call(
        self, operation: Operation[T], options: PerCall, **request: Unpack[RequestArguments]
    ) -> Coroutine[Any, Any, T]:
        into = None
        if options and operation.reply is Any:
            into = cast("dict[str, Any]", options).pop("into", None)
        return Call(self.shared, self.options, operation, into).run(options, **request)

    async def send(self, operation: Operation[T], into: Any, given: CallArguments) -> Reply[T]:
        if not isinstance(operation, Operation):
            raise InvalidArgumentError("must be one of gateway_sdk.operations", field="operation")
        began = time.monotonic()
        call = Call(self.shared, self.options, operation, into)
        options: Any = given
        request = {it: options.pop(it) for it in RequestArguments.__optional_keys__ & given.keys()}
        value: T = await call.run(options, **request)
        reply = cast("RawReply", call.reply)
        return Reply(
            value=value,
            status=reply.status,
            headers=reply.headers,
            body=reply.body,
            attempts=call.attempts,
            elapsed=time.monotonic() - began,
        )


class Call:
    _transport: Transport
    _request: PreparedRequest
    reply: RawReply | None  # of the last attempt
    _scope: CallScope
    _token: AccessToken | None = None  # else the template has it
    _sent: Request  # of the last attempt

    def __init__(
        self, shared: SharedState, options: Options, operation: Operation[Any], into: Any = None
    ) -> None:
        self._shared = shared
        self._options = options
        self._operation = operation
        self._into = into
        self._document: Body | None = None  # the content, if it is more than bytes
        self._repeatability = operation.repeatability
        if self._repeatability is Repeatability.IDEMPOTENT and not options.retry.repeat_idempotent:
            self._repeatability = Repeatability.ONCE
        self._attempts: list[Attempt] = []
        # How the last attempt succeeded, and the seconds, until somebody asks: it takes 2 µs.
        self._succeeded: tuple[Transmission, float] | None = None
        self._renewed = False
        self._is_intended = False  # a bulk run has recorded that the request is sent
        self._watch: Watch | None = None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        if self._succeeded is not None:
            self._add_attempt(Outcome.APPLIED, None, *self._succeeded)
            self._succeeded = None
        return tuple(self._attempts)

    def _add_attempt(
        self, outcome: Outcome, error: str | None, how: Transmission, elapsed: float
    ) -> None:
        waits = how.slot_wait, how.rate_wait
        number = len(self._attempts) + 1
        self._attempts.append(Attempt(outcome, how.status, error, elapsed, number, *waits))

    async def run(
        self,
        of_this_call: PerCall,
        path: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        watch = self._watch = self._shared.begin_call(self._operation)
        try:
            if watch is not None:
                watch.started()
            if of_this_call:
                self._options = self._options.of_one_call(of_this_call)
            self._transport = self._shared.open()
            with CallScope(self._shared.calls, self._options.deadline) as self._scope:
                if not self._shared.is_prepared:
                    await self._shared.prepare()
                if isinstance(body, Unchecked):
                    body = body()
                template = self._template()
                target = template.target(path or NO_VALUES)
                if self._operation.content is Content.ANY and body is not None:
                    value = await self._send_document(
                        template, target, body, content_type=content_type, on_progress=on_progress
                    )
                else:
                    self._request = prepare(template, target, body, content_type, on_progress)
                    value = await self._send(template)
        except BaseException as error:
            self._end(error)
            raise
        if watch is not None:
            self._end(None)
        return value

    def _end(self, error: BaseException | None) -> None:
        if isinstance(error, GatewayError):
            error.of_call(self._operation.name, self._repeatability, self.attempts)
        if isinstance(error, UnauthorizedError):
            error.token_is_static = isinstance(self._options.access_token, StaticTokenSource)
        outcome = outcome_of(self.attempts, self._repeatability)
        is_told = error is None or isinstance(error, GatewayError)
        if not (is_told or self._repeatability is Repeatability.READ):
            tell_outcome(self._operation.name, outcome, error, self._watch)
        if self._watch is not None:
            self._watch.finished(outcome, error)

    def _template(self) -> RequestTemplate:
        if self._into is not None:
            check_type(self._into)
        options, operation = self._options, self._operation
        template = options.templates.get(operation.name)
        if template is None or template.operation is not operation:
            template = options.add_template(operation, self._shared.base_url)
        return template

    async def _send_document(
        self, template: RequestTemplate, target: bytes, content: object, **given: Any
    ) -> Any:
        from gateway_sdk._content.body import prepare_document  # noqa: PLC0415 - few calls have one

        self._scope.phase = "request"  # it may be read from a file, here and below
        self._request = await prepare_document(template, target, content, **given)
        if isinstance(self._request.content, bytes):
            return await self._send(template)
        document = self._document = cast("Body", self._request.content)
        try:
            await document.begin()
            return await self._send(template)
        finally:
            await document.end()

    async def _send(self, template: RequestTemplate) -> Any:
        attempt = self._attempt if template.has_token else self._with_token
        try:
            return await attempt()
        except GatewayError as error:
            if not self._may_repeat(error):
                raise
            failures = [error]
        patience = Patience(
            self._options.retry, self._attempts, self._scope.when, self._shared.take_retry
        )
        return await try_again(failures, attempt, patience, self._may_repeat, self._sleep)

    @property
    def _can_be_sent(self) -> bool:
        return self._document is None or self._document.can_be_sent

    def _may_repeat(self, error: BaseException) -> bool:
        return (
            isinstance(error, GatewayError)
            and self._can_be_sent
            and self._repeatability in repeatable_after(error, self._options.retry)
        )

    async def _with_token(self) -> Any:
        source = self._options.access_token
        self._token = ready_token(source) or await self._fetch_token()
        while True:
            try:
                value = await self._attempt()
            except UnauthorizedError as error:
                refused = self._token
                if self._renewed:
                    invalidate(source, refused)
                    raise token_rejected(error) from None
                if error.outcome is not Outcome.REFUSED or not self._can_be_sent:
                    invalidate(source, refused)  # for the next call
                    raise
                await self._withdraw_intent()
                try:
                    self._token = await self._fetch_token(refused)
                except TokenRejectedError:  # other calls saw that new tokens are refused too
                    raise token_rejected(error) from None
                if text_of(refused) == text_of(self._token):
                    raise
                self._renewed = True
                log_repeat(self._operation.name, self._watch, self._attempts, "with another token")
            else:
                if isinstance(source, Builtin):
                    source.note_success(self._token)
                silence = self._options.silence
                if silence.lacks_login or silence.seconds:  # else it has answered, or was not asked
                    silence.end()
                return value

    async def _take_token_again(self) -> None:
        # While the request waited, its token may have expired. It has a slot and a turn now, with
        # which a source is not waited for that may be silent for long.
        if token := ready_token(self._options.access_token):
            self._put_token(token)
            return
        silence, self._sent.transmission.waits_for = self._options.silence, "token"
        asking = self._asking = asyncio.ensure_future(self._fetch_token())
        is_silent = silence.lacks_login or silence.seconds
        if not await is_done_within(0.0 if is_silent else LONG, asking):
            raise _TokenIsLateError
        self._put_token(asking.result())

    def _put_token(self, token: AccessToken) -> None:
        self._token, self._sent.transmission.waits_for = token, None
        self._sent.fields[0] = authorization(text_of(token))

    async def _fetch_token(self, rejected: AccessToken | None = None) -> AccessToken:
        options, began = self._options, time.monotonic()
        try:
            token = await fetch_token(options.access_token, rejected)
        except GatewayError as error:
            options.silence.end(error)
            raise
        except BaseException:
            self._scope.phase, self._scope.advice = "token", options.silence.add(began)
            raise
        options.silence.end()
        return token

    async def _attempt(self) -> Any:
        request = self._sent = self._request_with_token()
        how, self.reply = request.transmission, None
        if self._repeatability is Repeatability.ONCE:
            how.on_admitted, how.is_once = self._record_intent, True
        began = time.monotonic()
        try:
            try:
                try:
                    reply = await self._transport.exchange(request)
                except _TokenIsLateError:
                    how.sent, how.failed_unsent, how.on_waited = False, None, None
                    self._put_token(await self._asking)  # the same question
                    how.sent = not self._shared.tells_what_was_sent
                    reply = await self._transport.exchange(request)
                self.reply = reply
                how.status, reply.forwarded = reply.status, how.forwarded
                if not reply.is_complete(self._shared.max_reply_bytes):
                    await self._read_body(reply)
            except (GatewayError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                is_ours = self._shared.tells_what_was_sent
                raise_failure(error, request, self.reply, is_ours=is_ours)
            finally:
                if self._document is not None:
                    await self._document.aclose()
            value = self._value_of(reply)
        except BaseException as error:
            hide_frames(error)
            self._scope.phase = how.phase
            outcome, name = outcome_of_attempt(error, how, self.reply), type(error).__name__
            self._add_attempt(outcome, name, how, time.monotonic() - began)
            raise
        else:
            self._succeeded = (how, time.monotonic() - began)
        finally:
            how.on_admitted = how.on_waited = None  # a cycle, which would keep the request
            if self._watch is not None:
                self._watch.ended(self.attempts[-1])
        return value

    async def _record_intent(self) -> None:
        if self._is_intended:  # by a GatewayTransport in the client that the request goes through
            return
        self._is_intended = True
        for item in ITEMS.get():
            await item.record_intent()

    async def _withdraw_intent(self) -> None:
        """Forget what was recorded, before a wait: a kill in it leaves no doubt then."""
        if self._is_intended:
            self._is_intended = False
            for item in ITEMS.get():
                await item.withdraw_intent()

    async def _sleep(self, seconds: float) -> None:
        if self._watch is not None and self._attempts:  # else there was no token to try with
            self._watch.scheduled(self._attempts[-1], seconds)
        log_repeat(self._operation.name, self._watch, self._attempts, f"in {seconds:.2f} s")
        self._scope.phase = "backoff"
        await self._withdraw_intent()
        await self._shared.sleep(seconds)

    def _request_with_token(self) -> Request:
        base, fields, more = self._request.base, self._request.fields, self._options.more
        if self._token is not None:  # else the template has it
            fields = [authorization(text_of(self._token)), *fields]
        if self._watch is not None:
            more = self._watch.begun(len(self._attempts) + 1, more)
        if more:
            base, fields = base.without(more), [*fields, *more]
        how = Transmission()
        if self._token is not None:
            how.on_waited = self._take_token_again
        how.sent, how.check = not self._shared.tells_what_was_sent, self._scope.check
        return Request(self._request, base, fields, self._options.timeout, how)

    async def _read_body(self, reply: RawReply) -> None:
        reader = BodyReader(reply, self._shared.max_reply_bytes)
        stream = httpx.ByteStream(reply.body) if reply.stream is None else reply.stream
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    for _ in reader.feed(chunk):
                        await asyncio.sleep(0)
                    if reader.is_full:
                        break
        finally:
            reader.finish()

    def unexpected(self, why: str) -> UnexpectedReplyError:
        """Return an error for the reply, which was decoded."""
        reply = cast("RawReply", self.reply)
        headers = reply.headers
        error = UnexpectedReplyError(why, status=reply.status, body=reply.body, headers=headers)
        return error.of_call(self._operation.name, self._repeatability, self.attempts)

    def read_into(self, into: Any, reply: RawReply | None = None) -> Any:
        """Validate the reply, which was decoded, into a type."""
        self._into = into
        try:
            return self._value_of(reply or cast("RawReply", self.reply))
        except GatewayError as error:
            if self.attempts:
                error.of_call(self._operation.name, self._repeatability, self.attempts)
            raise

    def _value_of(self, reply: RawReply) -> Any:
        if reply.status not in SUCCESS:
            raise status_error(reply)
        try:
            return decode(reply, self._operation, self._into, self._shared.parse_float)
        except (ContentError, ValidationError) as error:
            by_interface = self._into is None and self._operation is LIST_COUNTRIES
            raise unexpected_reply(reply, error, by_interface=by_interface) from None


class Connecting(Call):  # it ends before its request, with a connection for the next call
    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.shared, caller.options, _CONNECT)

    async def connect(self) -> None:
        try:
            self._transport = self._shared.open()
            with CallScope(self._shared.calls, self._options.deadline) as self._scope:
                await self._shared.prepare()
                template = self._template()
                self._request = prepare(template, template.target(NO_VALUES), None, None, None)
                await self._send(template)
        except BaseException as error:
            self._end(error)
            raise

    async def _with_token(self) -> None:
        if ready_token(self._options.access_token) is None:
            await self._fetch_token()
        await self._attempt()

    async def _attempt(self) -> None:
        request, began = self._request_with_token(), time.monotonic()
        how = request.transmission
        try:
            try:
                if not await self._transport.connect(request):
                    _logger.info("connect: a token only: httpx opens the connections")
            except (GatewayError, httpx.HTTPError) as error:
                raise_failure(error, request, None, is_ours=True)
        except BaseException as error:
            hide_frames(error)
            self._scope.phase, name = how.phase, type(error).__name__
            self._add_attempt(Outcome.NOT_SENT, name, how, time.monotonic() - began)
            raise
