"""The log: what is written under `gateway_sdk`, and that it costs nothing without a listener."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from traceback import walk_tb
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import httpx
import pytest

from gateway_sdk import (
    Attempt,
    CallInfo,
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    InvalidRequestError,
    Observer,
    Outcome,
    RateLimitedError,
    ServerError,
    Token,
    bulk,
    operations,
)
from gateway_sdk._call import call, events
from gateway_sdk.outcome import Repeatability
from tests.support import virtual_time
from tests.support.calls import CALLS, Call, Renewing
from tests.support.logins import Clock
from tests.support.scripted import Step, scripted, status


class Timed(Clock):
    def after(self, seconds: float, *answer: Any) -> Step:
        def step(_: httpx.Request) -> httpx.Response:
            self.now += seconds
            if isinstance(answer[0], Exception):
                raise answer[0]
            return httpx.Response(answer[0], json=[])

        return step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """A clock that calls and attempts are timed with; waits are three fifths of their bound."""
    made = Timed(0.0)
    for module in (call, events):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=made))
    monkeypatch.setattr("gateway_sdk._call.retry.random.random", lambda: 0.4)
    return made


Lines = list[tuple[str, str]]
ALL_STEPS = [(0.25, 503), (0.001, httpx.ReadError("-")), (0.042, 200)]
ALL_LINES: Lines = [
    ("DEBUG", "list_countries #1: 503, UNKNOWN, 0.250 s"),
    ("INFO", "list_countries #1: 503; again in 0.30 s"),
    ("DEBUG", "list_countries #1: ReplyLostError, UNKNOWN, 0.001 s"),
    ("INFO", "list_countries #1: ReplyLostError; again in 0.60 s"),
    ("DEBUG", "list_countries #1: 200, APPLIED, 0.042 s"),
    (
        "DEBUG",
        "list_countries #1 (POST /countrydata/1.0.0/listData): done, APPLIED, 0.293 s in all",
    ),
]


def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    places = {(record.name, record.filename) for record in caplog.records}
    assert places <= {("gateway_sdk", "events.py")}
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize(
    ("level", "levels"),
    [(logging.DEBUG, {"DEBUG", "INFO"}), (logging.INFO, {"INFO"}), (logging.WARNING, set())],
)
async def test_a_call_is_logged_line_by_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    clock: Timed,
    level: int,
    levels: set[str],
) -> None:
    caplog.set_level(level, "gateway_sdk")
    gateway, _, _ = scripted(monkeypatch, *[clock.after(*step) for step in ALL_STEPS])

    assert await CALLS["list_countries"](gateway) == []

    assert lines(caplog) == [line for line in ALL_LINES if line[0] in levels]


@pytest.mark.parametrize(
    ("name", "answer", "outcome", "error"),
    [
        ("cancel_order", 404, "REFUSED", "NotFoundError"),
        ("send_webhook", 302, "UNKNOWN", "RedirectError"),
        ("upload_document", httpx.ReadTimeout("-"), "UNKNOWN", "ReplyTimeoutError"),
        ("order_history", ZeroDivisionError("-"), "UNKNOWN", "ZeroDivisionError"),
    ],
)
async def test_a_call_that_fails_is_logged_by_the_class_of_its_error(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    clock: Timed,
    name: str,
    answer: Any,
    outcome: str,
    error: str,
) -> None:
    caplog.set_level(logging.DEBUG, "gateway_sdk")
    gateway, _, _ = scripted(monkeypatch, clock.after(0.5, answer))
    operation = next(one for one in operations.OPERATIONS if one.name == name)

    await asyncio.gather(CALLS[name](gateway), return_exceptions=True)

    template = f"{operation.method} {operation.path}"
    assert lines(caplog) == [
        ("DEBUG", f"{name} #1: {answer if isinstance(answer, int) else error}, {outcome}, 0.500 s"),
        ("DEBUG", f"{name} #1 ({template}): {error}, {outcome}, 0.500 s in all"),
    ]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize(("level", "number"), [("WARNING", ""), ("INFO", " #1")])
async def test_a_write_that_is_cancelled_leaves_one_warning(
    caplog: pytest.LogCaptureFixture, name: str, level: str, number: str, *, is_sent: bool
) -> None:
    """Its caller does not learn the outcome; of what only reads or was not sent there is none."""
    caplog.set_level(level, "gateway_sdk")
    begun = asyncio.Event()

    async def wait(*_: object) -> Any:
        begun.set()
        await asyncio.Event().wait()

    gateway = GatewaySession(
        "https://gateway.test",
        access_token="t" if is_sent else wait,
        tenant_id="acme",
        transport=httpx.MockTransport(wait),
    )
    operation = next(one for one in operations.OPERATIONS if one.name == name)
    task = asyncio.ensure_future(CALLS[name](gateway))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])

    unknown = "it is unknown whether the gateway did it (ended by CancelledError; UNKNOWN)"
    told = f"{name}{number}: {unknown}"
    is_told = is_sent and operation.repeatability is not Repeatability.READ
    assert lines(caplog) == [("WARNING", told)] * is_told


def failing_once(answer: Any = None) -> Callable[..., Awaitable[Any]]:
    of_items = [RateLimitedError("-", status=429), ServerError("-", status=503)]
    errors: list[GatewayError] = [ConnectionFailedError("-")] if answer else [*of_items]

    async def function(*_: object) -> Any:
        if errors:
            raise errors.pop()
        return answer

    return function


async def one_in_bulk(_: GatewaySession) -> None:
    async for result in bulk.run(failing_once(), [0]):
        assert result.error is None


NEW, WAITING = {"access_token": Renewing}, {"access_token": partial(failing_once, "t")}
REPEATED: dict[str, tuple[Call, dict[str, Any], list[str]]] = {
    "401": (CALLS["cancel_order"], NEW, ["cancel_order #1: 401; again with another token"]),
    "no token": (CALLS["cancel_order"], WAITING, ["cancel_order #1: no token; again in 0.30 s"]),
    "connect": (GatewaySession.connect, WAITING, ["connect: no token; again in 0.30 s"]),
    "bulk": (
        one_in_bulk,
        {},
        ["a bulk item: 503; again later", "a bulk item: 429; again in 0.70 s"],
    ),
}


@pytest.mark.parametrize(("call", "options", "told"), REPEATED.values(), ids=REPEATED)
def test_what_is_repeated_is_logged_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    call: Call,
    options: dict[str, Any],
    told: list[str],
) -> None:
    caplog.set_level(logging.INFO, "gateway_sdk")
    monkeypatch.setattr("random.random", lambda: 0.4)
    given = {name: make() for name, make in options.items()}
    steps = [status(401)] * (options is NEW)
    gateway, _, _ = scripted(monkeypatch, *steps, status(200), **given)

    virtual_time.run(call(gateway))

    assert caplog.messages[: len(told)] == told


def test_nothing_is_computed_when_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = GatewaySession("https://gateway.test", access_token="t")._caller.shared

    caplog.set_level(logging.WARNING, "gateway_sdk")
    assert core.begin_call(operations.ORDER_HISTORY) is None

    caplog.set_level(logging.INFO, "gateway_sdk")
    assert core.begin_call(operations.ORDER_HISTORY) is not None
    monkeypatch.setattr(logging.getLogger("gateway_sdk"), "disabled", True)
    assert core.begin_call(operations.ORDER_HISTORY) is None
    core.observers = (Observer(),)
    assert core.begin_call(operations.ORDER_HISTORY) is not None


def raise_own(_: BaseException | None) -> None:
    try:
        Token("")  # whose frames are ours, too
    except ConfigurationError:
        divmod(1, 0)


def raise_from(error: BaseException | None) -> None:
    raise ZeroDivisionError from error


def raise_again(error: BaseException | None) -> None:
    raise error or ZeroDivisionError


def raise_group(_: BaseException | None) -> None:
    try:
        divmod(1, 0)
    except ZeroDivisionError as error:
        failed = error
    raise ExceptionGroup("one of several places", [failed])


class OddError(Exception):
    def with_traceback(self, _: object) -> Self:
        raise ValueError


class Wrong(Observer):
    """Fails in each hook, and in one by header fields that the SDK refuses."""

    def __init__(self, hook: Callable[[BaseException | None], None]) -> None:
        self.hook = hook

    def attempt_started(self, call: CallInfo, number: int) -> dict[str, str]:
        return {"X-Trace": "CANARY\n"}

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        self.hook(sys.exception())

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        self.hook(error)


def modules_of(error: BaseException, frames: TracebackType | None) -> Iterator[str]:
    """Yield those whose variables are logged by programs that log variables."""
    for frame, _ in walk_tb(frames):
        yield frame.f_globals["__name__"]
    for one in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if one is not None:
            yield from modules_of(one, one.__traceback__)


@pytest.mark.parametrize("hook", [raise_own, raise_from, raise_again, raise_group])
async def test_the_error_of_a_hook_is_logged_without_our_frames(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hook: Callable[[BaseException | None], None],
) -> None:
    """Their variables hold identifiers and content, and the error of the call leads to them."""
    gateway, _, _ = scripted(monkeypatch, httpx.Response(400), observers=[Wrong(hook)])

    with pytest.raises(InvalidRequestError):
        await gateway.aml.upload_document(b"CANARY", on_progress=lambda *_: hook(None))

    logged: list[Any] = [record.exc_info for record in caplog.records]
    kinds = [kind for kind, _, _ in logged]
    own = ExceptionGroup if hook is raise_group else ZeroDivisionError
    of_call = InvalidRequestError if hook is raise_again else own
    assert kinds == [ConfigurationError, own, of_call, of_call]
    for _, error, frames in logged[1:]:
        assert set(modules_of(error, frames)) == {__name__}
        assert isinstance(error.__context__, ConfigurationError) is (hook is raise_own)
        assert error.__suppress_context__ is (hook is raise_from)
    assert list(modules_of(*logged[0][1:])) == []


async def test_the_class_of_a_hooks_error_may_have_methods_that_fail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: BaseException | None) -> None:
        raise OddError

    gateway, _, _ = scripted(monkeypatch, httpx.Response(200, json=1), observers=[Wrong(fails)])
    assert await gateway.aml.upload_document(b"x", on_progress=lambda *_: fails(None)) == 1
    assert [record.message[:18] for record in caplog.records].count("an observer failed") == 3
