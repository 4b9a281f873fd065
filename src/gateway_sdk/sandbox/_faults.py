"""The faults a gateway can have, and the rules for when each happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from sys import float_info
from typing import Any, NamedTuple, Self

import httpx
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox._operations import check_operation, error_reply

Sleep = Callable[[float], Awaitable[object]]

# The key of the scope's extensions under which the server passes its function that closes the
# connection; in process it is missing.
CLOSE_CONNECTION = "gateway_sdk.sandbox.close_connection"
NO_REPLY = "Server disconnected without sending a response."


class FaultyCall(NamedTuple):
    """One call that a fault is applied to; *app* would serve it, *sleep* takes seconds."""

    app: ASGIApp
    scope: Scope
    receive: Receive
    send: Send
    sleep: Sleep

    async def proceed(self, send: Send | None = None) -> None:
        await self.app(self.scope, self.receive, send or self.send)

    async def hold_back(self, keep: Send) -> None:
        """Serve the call without sending its reply, also if another fault cuts that."""
        try:
            await self.proceed(keep)
        except BodyCutError:  # in process
            raise httpx.RemoteProtocolError(NO_REPLY) from None

    async def reply(self, response: Response) -> None:
        await response(self.scope, self.receive, self.send)

    async def close_connection(self, in_process: httpx.TransportError) -> None:
        """Close the connection and wait until it is closed; without one, raise *in_process*."""
        close: Callable[[], None] | None = self.scope.get("extensions", {}).get(CLOSE_CONNECTION)
        if close is None:
            raise in_process
        close()
        # If the app returned before the server noticed, the server would send its own reply.
        while (await self.receive())["type"] != "http.disconnect":
            pass


class BodyCutError(httpx.RemoteProtocolError):
    """The connection was closed within the body, of which a part was sent."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], part: bytes) -> None:
        super().__init__("peer closed connection without sending complete message body")
        self.reply = httpx.Response(status, headers=headers, content=self._content(part))

    async def _content(self, part: bytes) -> AsyncIterator[bytes]:
        yield part
        raise self


class InProcessTransport(httpx.ASGITransport):
    """An ASGITransport that cuts a body as a socket does: status and headers, then the error."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except BodyCutError as cut:
            # httpx returns a response only when the app has ended, so the status would be lost.
            return cut.reply


@dataclass(frozen=True)
class Fault:
    """One kind of misbehaviour; use the class methods to make one."""

    name: str
    apply: Callable[[FaultyCall], Awaitable[None]] = field(repr=False)

    @classmethod
    def of_kind(cls, kind: str, *values: Any, **more: Any) -> Self:
        """Return a fault by the name of its class method, such as "latency", with its arguments.

        Raises:
            ValueError: there is no such kind, or a number is wrong.
            TypeError: an argument is missing or unknown.
        """
        kinds = [name for name, member in vars(Fault).items() if isinstance(member, classmethod)]
        kinds.remove("of_kind")
        if kind not in kinds:
            raise ValueError(f"unknown fault {kind!r}; the faults are {', '.join(kinds)}")
        fault: Self = getattr(cls, kind)(*values, **more)
        return fault

    @classmethod
    def latency(cls, seconds: float) -> Self:
        """Wait *seconds* before the call is served."""
        _check("seconds", seconds)

        async def apply(call: FaultyCall) -> None:
            await call.sleep(seconds)
            await call.proceed()

        return cls(f"latency of {seconds} s", apply)

    @classmethod
    def status(cls, status: int, *, headers: dict[str, str] | None = None) -> Self:
        """Refuse with this status, 400 to 599, and an ErrorPayload; nothing is applied."""
        _check("status", status, 400, 599, whole=True)
        texts = [text for field in (headers or {}).items() for text in field]
        if not all(isinstance(it, str) and it.isascii() and it.isprintable() for it in texts):
            raise ValueError("headers must be printable ASCII: a broken reply is no reply")

        async def apply(call: FaultyCall) -> None:
            await call.reply(error_reply(call.scope, status, "a fault on request", headers))

        return cls(f"status {status}", apply)

    @classmethod
    def too_many_requests(cls, retry_after: int | str | None = None) -> Self:
        """Refuse with 429; *retry_after* is in whole seconds, or an HTTP date."""
        return cls.status(429, headers=_retry_after("too_many_requests", retry_after))

    @classmethod
    def unavailable(cls, retry_after: int | str | None = None) -> Self:
        """Refuse with 503; *retry_after* is in seconds, or an HTTP date."""
        return cls.status(503, headers=_retry_after("unavailable", retry_after))

    @classmethod
    def unauthorized(cls) -> Self:
        """Refuse with 401 as if the token had been revoked."""
        return cls.status(401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})

    @classmethod
    def malformed_error(cls, status: int) -> Self:
        """Refuse with this status and a body of incomplete JSON, of the media type JSON."""
        _check("status", status, 400, 599, whole=True)

        async def apply(call: FaultyCall) -> None:
            body = f'{{"status": {status}, "reason'
            await call.reply(Response(body, status, media_type="application/json"))

        return cls(f"malformed error of status {status}", apply)

    @classmethod
    def drop_before_read(cls) -> Self:
        """Close the connection without reading the request; nothing is applied."""

        async def apply(call: FaultyCall) -> None:
            await call.close_connection(httpx.ReadError("connection reset by peer"))

        return cls("drop before read", apply)

    @classmethod
    def drop_after_read(cls) -> Self:
        """Serve the call, with its effects, and close the connection instead of replying."""

        async def apply(call: FaultyCall) -> None:
            await call.hold_back(_discard)
            await call.close_connection(httpx.RemoteProtocolError(NO_REPLY))

        return cls("drop after read", apply)

    @classmethod
    def drip(cls, delay: float, *, pieces: int = 10) -> Self:
        """Send the reply's body in *pieces* pieces, with *delay* seconds before each."""
        _check("delay", delay)
        _check("pieces", pieces, 1, whole=True)

        async def apply(call: FaultyCall) -> None:
            await call.proceed(_dripping(call, delay, pieces))

        return cls(f"drip of {delay} s", apply)

    @classmethod
    def cut_body(cls) -> Self:
        """Serve the call, send half of the reply's body and close the connection."""

        async def apply(call: FaultyCall) -> None:
            reply: list[Message] = []

            async def hold(message: Message) -> None:
                reply.append(message)

            await call.hold_back(hold)
            # It is not whole if the client has left, or another fault has closed the connection.
            if reply and not reply[-1].get("more_body"):
                await _send_cut(call, *reply)

        return cls("cut body", apply)


def with_fault(app: ASGIApp, fault: Fault, sleep: Sleep) -> ASGIApp:
    async def faulty_app(scope: Scope, receive: Receive, send: Send) -> None:
        await fault.apply(FaultyCall(app, scope, receive, send, sleep))

    return faulty_app


async def _discard(_: Message) -> None:
    pass


def _dripping(call: FaultyCall, delay: float, pieces: int) -> Send:
    async def send(message: Message) -> None:
        body = message.get("body", b"")
        size = -(-len(body) // pieces) or 1
        for start in range(0, len(body), size):
            await call.sleep(delay)
            piece = body[start : start + size]
            await call.send({"type": message["type"], "body": piece, "more_body": True})
        await call.send({**message, "body": b""} if body else message)

    return send


async def _send_cut(call: FaultyCall, start: Message, *sent: Message) -> None:
    body = b"".join(message["body"] for message in sent)
    half = body[: len(body) // 2]
    # One byte more than the body has, so that an empty body is cut too.
    headers = MutableHeaders(raw=start["headers"])
    headers["content-length"] = str(len(body) + 1)
    await call.send(start)
    await call.send({"type": "http.response.body", "body": half, "more_body": True})
    await call.close_connection(BodyCutError(start["status"], start["headers"], half))


def _retry_after(kind: str, value: int | str | None) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, str):
        _check(kind, value, whole=True)
    return {"Retry-After": str(value)}


def _check(
    name: str, value: Any, lowest: int = 0, highest: float = float_info.max, *, whole: bool = False
) -> None:
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not (is_number and lowest <= value <= highest):  # nor nan, nor inf
        kind = "a whole number" if whole else "a number"
        most = "" if highest == float_info.max else f" and at most {highest}"
        raise ValueError(f"{name} must be {kind} of at least {lowest}{most}: {value!r}")


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    return int(number) if number.is_integer() else number


@dataclass
class _Rule:
    fault: Fault
    operation: str | None  # None: all operations together
    at: int | None
    times: int | None
    rate: float
    seen: int = 0
    fired: int = 0

    def __post_init__(self) -> None:
        given: Any = self.fault
        if not isinstance(given, Fault):
            kind = type(given).__name__
            raise TypeError(f"a fault is made by a call, such as Fault.cut_body(), not {kind}")
        for name, number in (("at", self.at), ("times", self.times)):
            if number is not None:
                _check(name, number, 1, whole=True)
        _check("rate", self.rate, 0, 1)

    def matches(self, operation: str) -> bool:
        """Count a call if the rule is for it; return whether the fault may happen at it."""
        if self.operation not in (None, operation):
            return False
        self.seen += 1
        before = self.seen - (self.at or 1)  # calls at which it may have happened
        limit = 1 if self.times is None and self.at is not None else self.times
        return before >= 0 and (limit is None or before < limit)

    def describe(self) -> str:
        return f"{self.fault.name} at call {self.at or 1} of {self.operation or 'any operation'}"


class Faults:
    """Which faults happen at which calls; several at one call apply in the order of addition.

    Faults().on("cancel_order", Fault.drop_after_read(), at=1).anywhere(Fault.latency(1), rate=0.1)

    Args:
        seed: The same seed gives the same random choices; only *rate* uses it.
        sleep: Awaited with seconds by the faults that take time; for tests.
    """

    def __init__(self, *, seed: int = 0, sleep: Sleep = asyncio.sleep) -> None:
        self.sleep = sleep
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._rules: list[_Rule] = []

    def on(
        self,
        operation: str,
        fault: Fault,
        *,
        at: int | None = None,
        times: int | None = None,
        rate: float = 1.0,
    ) -> Self:
        """Add a fault to one operation, such as "cancel_order".

        By default it happens at every call. *times* limits it to that many calls, from the next on.
        *at* starts it at that call, where 1 is the next, and limits it to this one call unless
        *times* is given. *rate*, 0 to 1, is the probability for each of these calls.

        Raises:
            ValueError: if the operation is unknown or a number is wrong.
            TypeError: *fault* is no `Fault`, such as a method of it without parentheses.
        """
        check_operation(operation)
        self._rules.append(_Rule(fault, operation, at, times, rate))
        return self

    def anywhere(
        self, fault: Fault, *, at: int | None = None, times: int | None = None, rate: float = 1.0
    ) -> Self:
        """Add a fault to all operations, whose calls are counted together; otherwise like `on`."""
        self._rules.append(_Rule(fault, None, at, times, rate))
        return self

    def add(self, text: str) -> Self:
        """Add a fault that is written as text, as on a command line.

        The text is `[OPERATION:]KIND[=VALUE][,at=N][,times=N][,rate=P]`, such as
        `cancel_order:drop_after_read,at=1`. KIND is a method of `Fault`, VALUE its number. Without
        OPERATION, or with `*`, it is for all operations.

        Raises:
            ValueError: the text is not written so, or a name or a number in it is wrong.
        """
        first, *rules = text.split(",")
        operation, _, named = first.rpartition(":")
        kind, equals, value = named.partition("=")
        try:
            fault = Fault.of_kind(kind, *([_number(value)] if equals else []))
        except TypeError:
            problem = "takes no value" if equals else f"needs a number: write {kind}=..."
            raise ValueError(f"{kind} {problem}") from None
        when: dict[str, Any] = {}
        for name, _, number in (rule.partition("=") for rule in rules):
            if name not in {"at", "times", "rate"}:
                raise ValueError(f"{name!r} is not at=N, times=N or rate=0.1")
            when[name] = _number(number)
        is_for_all = operation in ("", "*")
        return self.anywhere(fault, **when) if is_for_all else self.on(operation, fault, **when)

    def due(self, operation: str) -> list[Fault]:
        """Count a call of *operation* and return the faults that happen at it; may be empty."""
        matching = [rule for rule in self._rules if rule.matches(operation)]
        firing = [rule for rule in matching if self._random.random() < rule.rate]
        for rule in firing:
            rule.fired += 1
        return [rule.fault for rule in firing]

    @property
    def operations(self) -> set[str]:
        """The operations that have their own fault."""
        return {rule.operation for rule in self._rules if rule.operation is not None}

    def unfired(self) -> list[str]:
        """Describe the faults that never happened, without those of a probability below 1."""
        return [rule.describe() for rule in self._rules if not rule.fired and rule.rate == 1]
