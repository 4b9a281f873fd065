"""One call, from its first attempt to its last: token, attempts, outcome, deadline."""

import asyncio
import time
from collections.abc import Mapping
from contextvars import Context, copy_context
from hashlib import blake2b
from typing import Any, TypeVar

import httpx

from gateway_sdk._call.client import Client
from gateway_sdk._call.events import RECORD_INTENT, Watch
from gateway_sdk._call.options import Options
from gateway_sdk._call.retry import may_repeat, try_again
from gateway_sdk._call.round_trip import PreparedRequest, RoundTrip
from gateway_sdk._config import origin_of
from gateway_sdk._http.body import OnProgress, make_body
from gateway_sdk._http.headers import build_headers
from gateway_sdk._http.reply import RawReply, check_type
from gateway_sdk._http.request import fill_path
from gateway_sdk.auth.source import fetch_token, invalidate, note_success
from gateway_sdk.auth.token import AccessToken, text_of
from gateway_sdk.errors import (
    ConfigurationError,
    DeadlineExceededError,
    GatewayError,
    InvalidArgumentError,
    SessionStateError,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, Reply, outcome_of

T = TypeVar("T")


class Caller:
    """Makes the calls of one view, with the options of that view and the client of all views.

    Attributes:
        client: What all views of the session share.
        options: The options of this view.

    Raises:
        ConfigurationError: the token source names another gateway.
    """

    def __init__(self, client: Client, options: Options) -> None:
        self.client = client
        self.options = options
        self._check_gateway()

    def _check_gateway(self) -> None:
        """Refuse a token source that names another gateway."""
        gateway = getattr(self.options.access_token, "gateway", None)
        origin = origin_of(self.client.base_url)
        if isinstance(gateway, str) and gateway != origin:
            raise ConfigurationError(
                f"access_token is for {gateway}, and base_url is at {origin}: "
                "a token goes to its own gateway only"
            )

    async def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        into: Any = None,
    ) -> Reply[T]:
        """Make one call; `GatewaySession.send` describes the arguments and the errors."""
        if not isinstance(operation, Operation):
            raise InvalidArgumentError("operation must be one of gateway_sdk.operations")
        call = Call(self.client, self.options, operation, into)
        return await call.run(path or {}, body, content_type, on_progress)

    @property
    def gateway_name(self) -> str:
        """The gateway's address and a digest of the tenant: the name of this gateway in files."""
        base_url = self.client.base_url
        address = origin_of(base_url) + base_url.raw_path.decode("ascii").rstrip("/")
        tenant_id = self.options.tenant_id
        if tenant_id is None:
            return address
        # A tenant may be a person, so a file shows a digest and not the id.
        digest = blake2b(tenant_id.encode(), digest_size=8).hexdigest()
        return f"{address} for the tenant {digest}"


class Call:
    """One call of one operation; `run` is called once."""

    def __init__(
        self, client: Client, options: Options, operation: Operation[Any], into: Any
    ) -> None:
        self._client = client
        self._options = options
        self._operation = operation
        self._into = into
        self._attempts: list[Attempt] = []
        self._renewed = False
        self._watch: Watch | None = None
        self._context: Context | None = None

    async def run(
        self,
        path: Mapping[str, str],
        content: object,
        content_type: str | None,
        on_progress: OnProgress | None,
    ) -> Reply[Any]:
        """Make the call and return its reply, or raise an error that says what became of it.

        Raises:
            GatewayError: with `operation`, `outcome` and `attempts` filled in.
        """
        began = time.monotonic()
        self._watch = self._client.count(self._operation)
        if self._watch is None:
            return await self._run(began, path, content, content_type, on_progress)
        self._context = copy_context()  # before observers change theirs
        failure: BaseException | None = None
        try:
            self._watch.started()
            return await self._run(began, path, content, content_type, on_progress)
        except BaseException as error:
            failure = error
            raise
        finally:
            outcome = outcome_of(tuple(self._attempts), self._operation.repeatability)
            self._watch.finished(outcome, failure, time.monotonic() - began)

    async def _run(
        self,
        began: float,
        path: Mapping[str, str],
        content: object,
        content_type: str | None,
        on_progress: OnProgress | None,
    ) -> Reply[Any]:
        try:
            transport = self._client.open()
            scope = self._client.calls.begin(self._options.deadline)
            try:
                async with scope:
                    prepared = await self._prepare(path, content, content_type, on_progress)
                    raw, value = await self._with_retries(transport, prepared, scope)
            except TimeoutError:
                if not scope.expired():
                    raise
                raise self._why_cut(scope) from None
            finally:
                self._client.calls.end(scope)
        except GatewayError as error:
            error.of_call(
                self._operation.name, self._operation.repeatability, tuple(self._attempts)
            )
            raise
        return Reply(
            value=value,
            status=raw.status,
            headers=raw.headers,
            body=raw.body,
            attempts=tuple(self._attempts),
            elapsed=time.monotonic() - began,
        )

    def _why_cut(self, scope: asyncio.Timeout) -> GatewayError:
        """Return the error of a call that was ended by its deadline or by closing the session."""
        if self._client.calls.was_cut(scope):
            closed = SessionStateError("the session was closed before the reply came")
            closed.transient = True  # a new session may succeed
            return closed
        return DeadlineExceededError(f"the deadline of {self._options.deadline:g} s passed")

    async def _prepare(
        self,
        path: Mapping[str, str],
        content: object,
        content_type: str | None,
        on_progress: OnProgress | None,
    ) -> PreparedRequest:
        """Check every argument and build what all attempts send; nothing is sent yet."""
        if self._into is not None:
            check_type(self._into)
        url = self._client.address(self._operation, fill_path(self._operation, path))
        body = await make_body(self._operation, content, content_type, on_progress)
        if body is not None:
            body.context = self._context
        headers = build_headers(
            self._operation,
            tenant_id=self._options.tenant_id,
            token_header=self._options.token_header,
            headers=self._options.headers,
            content_type=body.content_type if body else None,
        )
        return PreparedRequest(
            self._operation, url, headers, body, self._options.timeout, self._into
        )

    async def _with_retries(
        self, transport: httpx.AsyncBaseTransport, prepared: PreparedRequest, scope: asyncio.Timeout
    ) -> tuple[RawReply, Any]:
        try:
            return await self._with_token(transport, prepared)
        except GatewayError as error:
            if not self._may_repeat(error, prepared):
                raise
            failures = [error]
        loop = asyncio.get_running_loop()

        def fits(seconds: float) -> bool:
            """Tell whether an attempt as fast as the fastest so far ends before the deadline."""
            until = scope.when()
            fastest = min((attempt.elapsed for attempt in self._attempts), default=0.0)
            return until is None or loop.time() + seconds + fastest < until

        def scheduled(seconds: float) -> None:
            if self._watch is not None:
                self._watch.scheduled(self._attempts[-1], seconds)

        return await try_again(
            failures.pop(),  # keep no reference: its traceback refers to this frame (a cycle)
            lambda: self._with_token(transport, prepared),
            policy=self._options.retry,
            again=lambda error: self._may_repeat(error, prepared),
            fits=fits,
            spend=self._client.take_retry,
            scheduled=scheduled,
            sleep=self._client.sleep,
        )

    def _may_repeat(self, error: BaseException, prepared: PreparedRequest) -> bool:
        policy = self._options.retry
        return prepared.can_be_sent and may_repeat(error, self._operation.repeatability, policy)

    async def _with_token(
        self, transport: httpx.AsyncBaseTransport, prepared: PreparedRequest
    ) -> tuple[RawReply, Any]:
        """Make an attempt, and after a 401 a second one if the source has another token."""
        source = self._options.access_token
        token = await fetch_token(source)
        try:
            return await self._attempt(transport, prepared, token)
        except UnauthorizedError as error:
            if self._renewed:
                invalidate(source, token)
                raise _rejected(error) from None
            if error.outcome is not Outcome.REFUSED or not prepared.can_be_sent:
                invalidate(source, token)  # for the next call
                raise
            renewed = await self._renewed_token(error, token)
            if text_of(renewed) == text_of(token):
                raise
        self._renewed = True
        try:
            return await self._attempt(transport, prepared, renewed)
        except UnauthorizedError as error:
            invalidate(source, renewed)
            raise _rejected(error) from None

    async def _renewed_token(self, error: UnauthorizedError, token: AccessToken) -> AccessToken:
        try:
            return await fetch_token(self._options.access_token, rejected=token)
        except TokenRejectedError:  # other calls saw that new tokens are refused too
            raise _rejected(error) from None

    async def _attempt(
        self, transport: httpx.AsyncBaseTransport, prepared: PreparedRequest, token: AccessToken
    ) -> tuple[RawReply, Any]:
        if not self._attempts and self._operation.repeatability is Repeatability.ONCE:
            for record_intent in RECORD_INTENT.get():
                await record_intent(self._operation)
        number = len(self._attempts) + 1
        more = None if self._watch is None else self._watch.begun(number)
        round_trip = RoundTrip(self._client, transport, prepared, number, more)
        try:
            reply = await round_trip.run(token)
        finally:
            self._attempts.append(round_trip.ended)
            if self._watch is not None:
                self._watch.ended(round_trip.ended)
        note_success(self._options.access_token, token)
        return reply


def _rejected(error: UnauthorizedError) -> TokenRejectedError:
    """Return the error for a 401 that was answered to a renewed token."""
    rejected = TokenRejectedError(
        "the gateway answered 401 Unauthorized, also with a new access token",
        status=error.status,
        body=error.body,
        headers=error.headers,
    )
    rejected.outcome, rejected.payload = error.outcome, error.payload
    rejected.retry_after = error.retry_after
    return rejected
