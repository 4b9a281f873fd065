"""What is said of calls whose body or reply is long on the way, and what the server received."""

import asyncio
from typing import Final

import pytest

from tests.support.calls import Call
from tests.support.deadlines import pass_deadlines
from tests.support.failing_line import Line
from tests.support.failing_server import FailingServer, Script
from tests.support.failing_steps import (
    HEAD,
    after_head,
    dripping,
    mid_body,
    never_read,
    refuse_early,
    serve,
)
from tests.support.truth import (
    APPLIED,
    DONE,
    LOST,
    POLICIES,
    REFUSED,
    TIMED_OUT,
    UNKNOWN,
    WRITES_AND_READS,
    End,
    Step,
    check,
    end_of,
    make,
    open_session,
    short,
)
from tests.support.witness import Witness, lies

SCAN: Final = bytes(20_000_000)

UPLOADS: Final[dict[str, Call]] = {
    "upload_document": lambda gateway: gateway.aml.upload_document(SCAN),
    "update_document": lambda gateway: gateway.aml.update_document("d-1", SCAN),
}

STEPS = {
    "never reads": Step(never_read, (TIMED_OUT,), times=short(write=0.1)),
    "closes after the head": Step(after_head(Line.close)),
    "resets after the head": Step(after_head(Line.reset)),
    "closes in the body": Step(mid_body(Line.close)),
    "resets in the body": Step(mid_body(Line.reset)),
    # The reset may overtake the answer.
    "refuses early and resets": Step(refuse_early, (("StatusError", REFUSED), LOST)),
    "all is well": Step(serve, (DONE,)),
}

DRIPS: Final[dict[str, tuple[Script, End]]] = {
    "a head": (dripping(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"), ("DeadlineExceededError", UNKNOWN)),
    "a header line": (dripping(HEAD + b"X: ", b"x"), ("DeadlineExceededError", UNKNOWN)),
    "1xx replies": (
        dripping(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        ("DeadlineExceededError", UNKNOWN),
    ),
    "a body": (
        dripping(HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        ("DeadlineExceededError", APPLIED),
    ),
    "chunks": (
        dripping(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        ("DeadlineExceededError", APPLIED),
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", UPLOADS)
@pytest.mark.parametrize("name", STEPS)
async def test_what_is_said_of_an_upload_is_what_came(
    name: str, operation: str, policy: str
) -> None:
    """Wherever a server fails while a body is sent to it, the session says what is true."""
    step, retry, how = STEPS[name], POLICIES[policy], UPLOADS[operation]
    async with FailingServer(step.script) as server:
        record = await make(server.url, operation, how, retry=retry, timeout=step.times)

    check(record, step, server.receipts, retry)


@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("what", DRIPS)
async def test_a_deadline_ends_what_drips(what: str, operation: str) -> None:
    """A reply that never ends and never pauses is cut by the deadline, and not asked for again."""
    script, end = DRIPS[what]
    witness = Witness()
    async with (
        FailingServer(script) as server,
        open_session(server.url, witness) as gateway,
    ):
        call = asyncio.create_task(witness.call(gateway, operation))
        await server.until(lambda: any(line.sends > 20 for line in server.lines))
        pass_deadlines(gateway)
        record = await call
        await server.until(lambda: not any(line.open for line in server.lines))

    assert end_of(record) == end
    assert lies(record, server.receipts) == []
    assert len(server.receipts) == len(record.attempts) == 1
