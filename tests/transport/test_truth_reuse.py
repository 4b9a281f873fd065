"""What is said of a call over a connection that was used before and ends at the wrong time."""

from collections.abc import Callable
from typing import Final

import pytest

from gateway_sdk import Outcome
from tests.support.failing_line import Line, reply
from tests.support.failing_server import FailingServer, Script
from tests.support.failing_steps import (
    HEAD,
    after_head,
    after_one_byte,
    answering_twice,
    never_look,
    once_and_then,
    replying,
    serve,
    turns,
    without_reading,
)
from tests.support.truth import (
    DONE,
    LOST,
    POLICIES,
    WRITES_AND_READS,
    Step,
    check,
    end_of,
    open_session,
)
from tests.support.witness import Witness, lies, may_go_on


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

AGAIN: Final[dict[str, Script]] = {
    "closes before reading": without_reading(Line.close),
    "resets before reading": without_reading(Line.reset),
    "closes after one byte": after_one_byte(Line.close),
    "resets after one byte": after_one_byte(Line.reset),
    "closes after the head": after_head(Line.close),
    "resets after the head": after_head(Line.reset),
    "closes after the body": replying(b""),
    "resets after the body": replying(b"", Line.reset),
    "closes in the status line": replying(b"HTTP/1.1 20"),
    "resets in a header": replying(HEAD[:-10], Line.reset),
}


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
        FailingServer(once_and_then(never_look), serve) as server,
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
        FailingServer(once_and_then(AGAIN[name]), serve) as server,
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
