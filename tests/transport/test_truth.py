"""What is said of a call, and what a server that fails at each step really received."""

import pytest

from tests.support.failing_line import Line
from tests.support.failing_server import FailingServer
from tests.support.failing_steps import (
    HEAD,
    after_head,
    after_one_byte,
    answering,
    at_once,
    never_answer,
    never_end,
    never_end_of,
    replying,
    serve,
    without_reading,
)
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
    make,
    short,
)

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NINE = b"Content-Length: 9\r\n\r\n{"
"""The end of a head that promises nine bytes, and the first of them."""

HEAD_COMES = 0.3
"""Seconds to read: the head must come within them, on a busy machine too."""

STEPS = {
    "resets on accept": Step(at_once(Line.reset), (LOST, UNREACHABLE), None),
    "closes on accept": Step(at_once(Line.close), (LOST, UNREACHABLE), None),
    "closes before reading": Step(without_reading(Line.close)),
    "resets before reading": Step(without_reading(Line.reset)),
    "closes after one byte": Step(after_one_byte(Line.close)),
    "resets after one byte": Step(after_one_byte(Line.reset)),
    "closes after the head": Step(after_head(Line.close)),
    "resets after the head": Step(after_head(Line.reset)),
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
    "closes in the body of a 429": Step(
        replying(b"HTTP/1.1 429 -\r\n" + NINE), (("RateLimitedError", REFUSED),)
    ),
    "resets in the body of a 503": Step(
        replying(b"HTTP/1.1 503 -\r\n" + NINE, Line.reset), (("ServerError", UNKNOWN),)
    ),
    "closes in a chunk of a 500": Step(
        replying(CHUNKED.replace(b"200 OK", b"500 -") + b"5\r\n{"), (("ServerError", UNKNOWN),)
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


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("name", STEPS)
async def test_what_is_said_is_what_came(name: str, operation: str, policy: str) -> None:
    """Wherever a server fails, the session says what is true, and repeats what may be."""
    step, retry = STEPS[name], POLICIES[policy]
    async with FailingServer(step.script) as server:
        record = await make(server.url, operation, retry=retry, timeout=step.times)

    check(record, step, server.receipts, retry)
