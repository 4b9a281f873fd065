"""What is said of a call, and what a server that fails at each step really received."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import GatewayTransport, Outcome
from tests.support.calls import Call, pass_deadlines
from tests.support.contexts import LOOPS
from tests.support.failing_server import FailingServer, Line, Script, reply
from tests.support.failing_steps import (
    HEAD,
    answering,
    answering_twice,
    dripping,
    never_answer,
    never_end,
    never_end_of,
    never_look,
    replying,
    serve,
    steps,
    turns,
    waiting,
)
from tests.support.ports import full_port
from tests.support.truth import (
    APPLIED,
    CUT,
    DONE,
    LOST,
    POLICIES,
    REFUSED,
    TIMED_OUT,
    UNKNOWN,
    UNREACHABLE,
    WRITES_AND_READS,
    Step,
    check,
    end_of,
    make,
    open_session,
    short,
)
from tests.support.witness import Witness, lies, may_go_on

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NINE = b"Content-Length: 9\r\n\r\n{"
"""The end of a head that promises nine bytes, and the first of them."""

HEAD_COMES = 1.0
"""Seconds to read: the head must come within them, on a busy machine too."""

STEPS = {
    "resets on accept": Step(steps(Line.reset), (LOST, UNREACHABLE), None),
    "closes on accept": Step(steps(Line.close), (LOST, UNREACHABLE), None),
    "closes before reading": Step(steps(Line.something, Line.close)),
    "resets before reading": Step(steps(Line.something, Line.reset)),
    "closes after one byte": Step(steps(Line.one_byte, Line.close)),
    "resets after one byte": Step(steps(Line.one_byte, Line.reset)),
    "closes after the head": Step(steps(Line.head, Line.close)),
    "resets after the head": Step(steps(Line.head, Line.reset)),
    "closes after the body": Step(replying(b"")),
    "resets after the body": Step(replying(b"", Line.reset)),
    "blank lines": Step(replying(b"\r\n\r\n")),
    "garbage": Step(replying(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
    "HTTP/0.9": Step(replying(b"{}")),
    "closes in the status line": Step(replying(b"HTTP/1.1 20")),
    "resets in the status line": Step(replying(b"HTTP/1.1 20", Line.reset)),
    "closes in a header": Step(replying(HEAD[:-10])),
    "resets in a header": Step(replying(HEAD[:-10], Line.reset)),
    "a header line of 200 KB": Step(replying(HEAD + b"X: " + bytes(200_000).hex().encode())),
    "100 Continue and closes": Step(replying(b"HTTP/1.1 100 Continue\r\n\r\n")),
    "closes in the body": Step(replying(HEAD + NINE), (CUT,)),
    "resets in the body": Step(replying(HEAD + NINE, Line.reset), (CUT,)),
    "closes in a chunk": Step(replying(CHUNKED + b"5\r\n{"), (CUT,)),
    "closes between chunks": Step(replying(CHUNKED + b"1\r\n{\r\n"), (CUT,)),
    "a chunk without size": Step(replying(CHUNKED + b"x\r\n"), (CUT,)),
    "closes in the body of a 404": Step(
        replying(b"HTTP/1.1 404 -\r\n" + NINE), (("NotFoundError", REFUSED),)
    ),
    "silence after the head of a 503": Step(
        never_end_of(503), (("ServerError", UNKNOWN),), times=short(read=HEAD_COMES)
    ),
    "a body that ends with the connection": Step(replying(HEAD + b'\r\n"1"'), (DONE,)),
    "compressed in name only": Step(
        replying(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
        (("UnexpectedReplyError", APPLIED),),
    ),
    "408": Step(answering(408), (("StatusError", UNKNOWN),)),
    "429": Step(answering(429), (("RateLimitedError", REFUSED),)),
    "429 and closes": Step(
        answering(429, "Connection: close\r\n"), (("RateLimitedError", REFUSED),)
    ),
    "401": Step(answering(401), (("UnauthorizedError", REFUSED),)),
    "503": Step(answering(503), (("ServerError", UNKNOWN),)),
    "silence": Step(never_answer, (TIMED_OUT,), times=short(read=0.02)),
    "silence after the head": Step(
        never_end, (("ReplyTimeoutError", APPLIED),), times=short(read=HEAD_COMES)
    ),
    "all is well": Step(serve, (DONE,)),
}

SCAN: Final = bytes(20_000_000)

UPLOADS: Final[dict[str, Call]] = {
    "upload_document": lambda gateway: gateway.aml.upload_document(SCAN),
    "update_document": lambda gateway: gateway.aml.update_document("d-1", SCAN),
}

SLOW_STEPS = {
    "never reads": Step(steps(Line.head, never_look), (TIMED_OUT,), times=short(write=0.1)),
    "closes in the upload": Step(steps(Line.head, Line.forget, Line.close)),
    "resets in the upload": Step(steps(Line.head, Line.forget, Line.reset)),
    # The reset may overtake the answer.
    "refuses early and resets": Step(
        steps(
            Line.head,
            lambda line: line.answer(413, "Connection: close\r\n"),
            waiting(50),
            Line.reset,
        ),
        (("StatusError", REFUSED), LOST),
    ),
    **{name: STEPS[name] for name in ("closes after the head", "resets after the head")},
    "all is well": STEPS["all is well"],
}

FAILING: Final = [*product(STEPS, WRITES_AND_READS), *product(SLOW_STEPS, UPLOADS)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("name", "operation"), FAILING)
async def test_what_is_said_is_what_came(name: str, operation: str, policy: str) -> None:
    """Wherever a server fails, the session says what is true, and repeats what may be."""
    step, retry, how = (STEPS | SLOW_STEPS)[name], POLICIES[policy], UPLOADS.get(operation)
    async with FailingServer(step.script) as server:
        record = await make(server.url, operation, how, retry=retry, timeout=step.times)

    check(record, step, server.receipts, retry)


def debugging() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(enabled=True)
    return loop


WAYS: Final[dict[str, tuple[Callable[[], asyncio.AbstractEventLoop], bool]]] = {
    **{name: (loop, False) for name, loop in LOOPS.items()},
    "asyncio": (debugging, False),
    "in a client": (asyncio.new_event_loop, True),
}


@pytest.mark.parametrize(
    "operation", ["create_customer", pytest.param("order_history", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_is_what_came_on_every_way(way: str, name: str, operation: str) -> None:
    """The table of failures holds on every loop, and with our transport in the user's client."""
    step, (loop, in_a_client) = STEPS[name], WAYS[way]

    async def scenario() -> None:
        client = httpx.AsyncClient(transport=GatewayTransport()) if in_a_client else None
        given: dict[str, Any] = {"retry": None, "timeout": step.times, "http_client": client}
        async with FailingServer(step.script) as server, client or nullcontext():
            record = await make(server.url, operation, **given)
        check(record, step, server.receipts, None)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


# --- where nobody answers ----------------------------------------------------------------


@contextmanager
def closed_port() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


NOWHERE = {
    closed_port: Step(serve, (UNREACHABLE,)),
    full_port: Step(serve, (UNREACHABLE,), times=short(connect=0.1)),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("where", NOWHERE)
async def test_where_nobody_answers_nothing_is_sent(
    where: Any, operation: str, policy: str
) -> None:
    """A connection that does not come about is tried for again."""
    retry = POLICIES[policy]
    with where() as url:
        record = await make(url, operation, retry=retry, timeout=NOWHERE[where].times)

    check(record, NOWHERE[where], [], retry)
    assert len(record.attempts) == (3 if retry else 1)
    assert record.sent == 0


# --- what is long on the way -------------------------------------------------------------

DRIPS: Final[dict[str, tuple[Script, Outcome]]] = {
    "a head": (dripping(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"), UNKNOWN),
    "a header line": (dripping(HEAD + b"X: ", b"x"), UNKNOWN),
    "1xx replies": (dripping(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), UNKNOWN),
    "a body": (dripping(HEAD + b"Content-Length: 100000\r\n\r\n", b" "), APPLIED),
    "chunks": (dripping(CHUNKED, b"1\r\n \r\n"), APPLIED),
}


@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("what", DRIPS)
async def test_a_deadline_ends_what_drips(what: str, operation: str) -> None:
    """A reply that never ends and never pauses is cut by the deadline, and not asked for again."""
    script, outcome = DRIPS[what]
    witness = Witness()
    async with FailingServer(script) as server, open_session(server.url, witness) as gateway:
        call = asyncio.create_task(witness.call(gateway, operation))
        await server.until(lambda: any(line.sends > 20 for line in server.lines))
        pass_deadlines(gateway)
        record = await call
        await server.until(lambda: not any(line.open for line in server.lines))

    assert end_of(record) == ("DeadlineExceededError", outcome)
    assert lies(record, server.receipts) == []
    assert len(server.receipts) == len(record.attempts) == 1


# --- over a connection that was used before ----------------------------------------------


def ask_to_leave(line: Line) -> None:
    """Answer what nobody asked, as a server does that is tired of waiting, and close."""
    line.blurt(reply(408, '"-"', "Connection: close\r\n"))
    line.close()


def answer_nobody(line: Line) -> None:
    line.blurt(reply(200, '"stale"'))


IDLE: Final[dict[str, Callable[[Line], None]]] = {
    "closed": Line.close,
    "reset": Line.reset,
    "408 and closed": ask_to_leave,
    "200": answer_nobody,
}

TWICE: Final[dict[str, Script]] = {
    "at once": answering_twice(),
    "one by one": answering_twice(together=False),
    "after 64 KiB": answering_twice(2**16 - len(reply(200, " " * 65_000)) + 65_000),
}

AGAIN: Final = [name for name, step in STEPS.items() if step == Step(step.script)]
"""Those whose reply is lost, though the server has seen the request."""


@pytest.mark.parametrize(
    "noticed",
    [
        pytest.param(True, id="seen by the loop"),
        # wine takes a moment to hand them over.
        pytest.param(False, id="in the kernel only", marks=pytest.mark.posix),
    ],
)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("what", IDLE)
async def test_a_connection_that_ended_while_it_was_idle(
    what: str, operation: str, *, noticed: bool
) -> None:
    """The next call goes over another connection, or says that it does not know."""
    witness = Witness()
    async with (
        FailingServer(steps(Line.request, Line.answer, never_look), serve) as server,
        open_session(server.url, witness) as gateway,
    ):
        await witness.call(gateway, operation, "first")
        IDLE[what](server.lines[0])
        if noticed:
            await turns(5)
        record = await witness.call(gateway, operation, "second")

    ends = (DONE,) if noticed else (DONE, LOST)
    check(record, Step(serve, ends, None), server.of("second"), POLICIES["default"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("name", AGAIN)
async def test_a_connection_that_ends_with_its_second_request(
    name: str, operation: str, policy: str
) -> None:
    """A request that went over a used connection may have been received, and came once."""
    witness = Witness()
    async with (
        FailingServer(steps(Line.request, Line.answer, STEPS[name].script), serve) as server,
        open_session(server.url, witness, retry=POLICIES[policy]) as gateway,
    ):
        await witness.call(gateway, operation, "first")
        record = await witness.call(gateway, operation, "second")

    first, *others = record.attempts
    again = POLICIES[policy] is not None and may_go_on(first, operation)
    assert first.outcome is Outcome.UNKNOWN
    assert [attempt.outcome for attempt in others] == [Outcome.APPLIED] * again
    assert end_of(record) == (DONE if again else LOST)
    assert lies(record, server.receipts[1:]) == []
    assert len(server.receipts) == 1 + record.sent


@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("what", TWICE)
async def test_a_second_reply_is_nobodys(what: str, operation: str) -> None:
    """What comes behind a reply is not taken for the reply to the next request."""
    witness = Witness()
    async with (
        FailingServer(TWICE[what], serve) as server,
        open_session(server.url, witness) as gateway,
    ):
        assert end_of(await witness.call(gateway, operation, "1")) == DONE
        record = await witness.call(gateway, operation, "2")

    assert lies(record, server.of("2")) == []
    assert end_of(record) == DONE
    assert len(server.lines) == 2
