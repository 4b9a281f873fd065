"""What is said of calls over TLS, and what a server that fails at each step received."""

from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Authority
from tests.support.failing_server import FailingServer, Line
from tests.support.failing_steps import HEAD, never_look, replying, sending, serve, steps
from tests.support.truth import (
    CUT,
    LOST,
    POLICIES,
    UNREACHABLE,
    WRITES_AND_READS,
    Step,
    check,
    make,
    short,
)
from tests.transport.test_truth import NINE, STEPS

HOST: Final = "127.0.0.1"
GOOD: Final = "good"
ASKS: Final = "asks for the client's"


class Certified:
    """An authority that clients trust."""

    def __init__(self, folder: Path) -> None:
        trusted, unknown = Authority(folder, "trusted"), Authority(folder, "unknown")
        self.path = trusted.path  # the file with its certificate
        self.contexts = {
            "expired": trusted.server(HOST, expired=True),
            "of another host": trusted.server("gateway.test"),
            "of an unknown authority": unknown.server(HOST),
            GOOD: trusted.server(HOST),
            ASKS: trusted.demanding(HOST),
        }


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return Certified(tmp_path_factory.mktemp("certificates"))


NO_TLS: Final[dict[str, Step]] = {
    "closes on accept": Step(steps(Line.close), (UNREACHABLE,)),
    "resets on accept": Step(steps(Line.reset), (UNREACHABLE,)),
    "closes during the handshake": Step(steps(Line.forget, Line.close), (UNREACHABLE,)),
    "resets during the handshake": Step(steps(Line.forget, Line.reset), (UNREACHABLE,)),
    "speaks plainly": Step(
        steps(Line.forget, sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Line.close),
        (UNREACHABLE,),
        passes=False,
    ),
    "breaks off in a record": Step(
        steps(Line.forget, sending(b"\x16\x03\x03\x00\x7a\x02"), Line.close), (UNREACHABLE,)
    ),
    "a handshake that hangs": Step(never_look, (UNREACHABLE,), times=short(connect=0.05)),
}

# Under TLS 1.3 the client has sent its request when it hears of it.
CERTIFICATES: Final = {
    "expired": Step(serve, (UNREACHABLE,), 0, passes=False),
    "of another host": Step(serve, (UNREACHABLE,), 0, passes=False),
    "of an unknown authority": Step(serve, (UNREACHABLE,), 0, passes=False),
    # The server closes with the request unread, whose reset may overtake what it said.
    ASKS: Step(serve, (LOST,), 0, passes=None),
}


def in_clear(line: Line) -> None:
    line.blurt(b"HTTP/1.1 200 OK\r\n\r\n")


AS_IN_CLEAR: Final = (
    "closes after one byte",
    "resets after one byte",
    "closes after the head",
    "closes after the body",
    "resets after the body",
    "closes in a header",
    "closes in the body",
    "resets in the body",
    "silence",
    "all is well",
)
SECURE: Final = {
    "closes behind the handshake": Step(steps(Line.close), (LOST,), None),
    "resets behind the handshake": Step(steps(Line.reset), (LOST,), None),
    "ends without a word a body that has no other end": Step(replying(HEAD + b'\r\n"1"'), (CUT,)),
    "drops TLS": Step(steps(Line.request, in_clear, Line.swallow)),
    "drops TLS in the body": Step(
        steps(Line.request, sending(HEAD + NINE), in_clear, Line.swallow), (CUT,)
    ),
    **{name: STEPS[name] for name in AS_IN_CLEAR},
}

SERVERS: Final[dict[str, tuple[Step, str | None]]] = {
    **{name: (step, None) for name, step in NO_TLS.items()},
    **{name: (step, name) for name, step in CERTIFICATES.items()},
    **{name: (step, GOOD) for name, step in SECURE.items()},
}
"""How each fails, and its certificate, if it has one."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("name", SERVERS)
async def test_what_is_said_is_what_came_over_tls(
    certified: Certified, name: str, operation: str, policy: str
) -> None:
    """No request is sent to who is not the gateway, nor where no secure connection comes about."""
    (step, certificate), retry = SERVERS[name], POLICIES[policy]
    context = certified.contexts[certificate] if certificate else None
    async with FailingServer(step.script, tls=context) as server:
        record = await make(
            server.url.replace("http:", "https:"),
            operation,
            retry=retry,
            timeout=step.times,
            verify=certified.path,
        )

    check(record, step, server.receipts, retry)
    assert (record.sent == 0) == (step.ends == (UNREACHABLE,))
