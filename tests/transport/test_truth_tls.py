"""What is said of calls over TLS, and what a server that fails at each step received."""

import ssl
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Authority
from tests.support.failing_line import Line
from tests.support.failing_server import FailingServer, Script
from tests.support.failing_steps import (
    HEAD,
    End,
    after_head,
    after_one_byte,
    answering_twice,
    at_once,
    dropping_tls,
    never_answer,
    never_look,
    once_and_then,
    replying,
    serve,
    turns,
    while_shaking_hands,
)
from tests.support.truth import (
    CUT,
    DONE,
    LOST,
    POLICIES,
    TIMED_OUT,
    UNREACHABLE,
    WRITES_AND_READS,
    Step,
    check,
    end_of,
    make,
    open_session,
    short,
)
from tests.support.witness import Witness, lies

HOST: Final = "127.0.0.1"
GOOD: Final = "good"
ASKS: Final = "asks for the client's"


class Certified:
    """An authority that clients trust.

    Attributes:
        path: The file with its certificate.
        contexts: Of servers, by what is to be said of their certificates.
    """

    def __init__(self, folder: Path) -> None:
        trusted, unknown = Authority(folder, "trusted"), Authority(folder, "unknown")
        self.path = trusted.path
        self.contexts = {
            "expired": _context(trusted.certify(HOST, expired=True)),
            "of another host": _context(trusted.certify("gateway.test")),
            "of an unknown authority": _context(unknown.certify(HOST)),
            GOOD: _context(trusted.certify(HOST)),
            ASKS: _context(trusted.certify(HOST)),
        }
        self.contexts[ASKS].load_verify_locations(self.path)
        self.contexts[ASKS].verify_mode = ssl.CERT_REQUIRED


def _context(files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """Certificates for the tests of this file."""
    return Certified(tmp_path_factory.mktemp("certificates"))


NO_TLS: Final[dict[str, Step]] = {
    "closes on accept": Step(at_once(Line.close), (UNREACHABLE,)),
    "resets on accept": Step(at_once(Line.reset), (UNREACHABLE,)),
    "closes during the handshake": Step(while_shaking_hands(b"", Line.close), (UNREACHABLE,)),
    "resets during the handshake": Step(while_shaking_hands(b"", Line.reset), (UNREACHABLE,)),
    "speaks plainly": Step(
        while_shaking_hands(b"HTTP/1.1 400 Bad Request\r\n\r\n", Line.close),
        (UNREACHABLE,),
        passes=False,
    ),
    "breaks off in a record": Step(
        while_shaking_hands(b"\x16\x03\x03\x00\x7a\x02", Line.close), (UNREACHABLE,)
    ),
    "a handshake that hangs": Step(never_look, (UNREACHABLE,), times=short(connect=0.05)),
}

STEPS: Final[dict[str, Step]] = {
    "closes on accept": Step(at_once(Line.close), (LOST,), None),
    "resets on accept": Step(at_once(Line.reset), (LOST,), None),
    "closes after one byte": Step(after_one_byte(Line.close)),
    "resets after one byte": Step(after_one_byte(Line.reset)),
    "closes after the head": Step(after_head(Line.close)),
    "closes after the body": Step(replying(b"")),
    "resets after the body": Step(replying(b"", Line.reset)),
    "closes in a header": Step(replying(HEAD[:-10])),
    "closes in the body": Step(replying(HEAD + b"Content-Length: 9\r\n\r\n{"), (CUT,)),
    "resets in the body": Step(replying(HEAD + b"Content-Length: 9\r\n\r\n{", Line.reset), (CUT,)),
    "drops TLS": Step(dropping_tls(b"")),
    "drops TLS in the body": Step(dropping_tls(HEAD + b"Content-Length: 9\r\n\r\n{"), (CUT,)),
    "silence": Step(never_answer, (TIMED_OUT,), times=short(read=0.02)),
    "all is well": Step(serve, (DONE,)),
}

# Under TLS 1.3 the client has sent its request when it hears of it.
CERTIFICATES: Final = {
    "expired": Step(serve, (UNREACHABLE,), 0, passes=False),
    "of another host": Step(serve, (UNREACHABLE,), 0, passes=False),
    "of an unknown authority": Step(serve, (UNREACHABLE,), 0, passes=False),
    # The server closes with the request unread, whose reset may overtake what it said.
    ASKS: Step(serve, (LOST,), 0, passes=None),
}

TWICE: Final[dict[str, Script]] = {
    "in one record": answering_twice(),
    "in two records": answering_twice(together=False),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("name", NO_TLS)
async def test_without_a_handshake_nothing_is_sent(
    certified: Certified, name: str, operation: str, policy: str
) -> None:
    """Where no secure connection comes about, no request is sent, and it is said so."""
    step, retry = NO_TLS[name], POLICIES[policy]
    async with FailingServer(step.script) as server:
        url = server.url.replace("http:", "https:")
        record = await make(url, operation, retry=retry, timeout=step.times, verify=certified.path)

    check(record, step, server.receipts, retry)
    assert record.sent == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("certificate", CERTIFICATES)
async def test_a_certificate_that_will_not_do(
    certified: Certified, certificate: str, operation: str, policy: str
) -> None:
    """A request is never sent to a server that is not the gateway."""
    step, retry = CERTIFICATES[certificate], POLICIES[policy]
    async with FailingServer(serve, tls=certified.contexts[certificate]) as server:
        record = await make(server.url, operation, retry=retry, verify=certified.path)

    check(record, step, server.receipts, retry)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("name", STEPS)
async def test_what_is_said_is_what_came_over_tls(
    certified: Certified, name: str, operation: str, policy: str
) -> None:
    """Wherever a server fails after the handshake, the session says what is true."""
    step, retry = STEPS[name], POLICIES[policy]
    async with FailingServer(step.script, tls=certified.contexts[GOOD]) as server:
        record = await make(
            server.url, operation, retry=retry, timeout=step.times, verify=certified.path
        )

    check(record, step, server.receipts, retry)


async def test_a_secure_connection_is_used_again(certified: Certified) -> None:
    """Calls one after the other go over one connection."""
    witness = Witness()
    async with (
        FailingServer(serve, tls=certified.contexts[GOOD]) as server,
        open_session(server.url, witness, verify=certified.path) as gateway,
    ):
        for number in "123":
            assert end_of(await witness.call(gateway, "order_history", number)) == DONE

    assert len(server.lines) == 1


@pytest.mark.parametrize("end", [Line.close, Line.reset], ids=["closed", "reset"])
@pytest.mark.parametrize("operation", WRITES_AND_READS)
async def test_a_secure_connection_that_ended_while_it_was_idle(
    certified: Certified, operation: str, end: End
) -> None:
    """The next call goes over another connection."""
    witness = Witness()
    async with (
        FailingServer(once_and_then(never_look), serve, tls=certified.contexts[GOOD]) as server,
        open_session(server.url, witness, verify=certified.path) as gateway,
    ):
        await witness.call(gateway, operation, "first")
        end(server.lines[0])
        await turns(5)
        record = await witness.call(gateway, operation, "second")

    check(record, Step(serve, (DONE,)), server.of("second"), POLICIES["default"])


@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("what", TWICE)
async def test_a_second_reply_over_tls_is_nobodys(
    certified: Certified, what: str, operation: str
) -> None:
    """What comes behind a reply is not taken for the reply to the next request."""
    witness = Witness()
    async with (
        FailingServer(TWICE[what], serve, tls=certified.contexts[GOOD]) as server,
        open_session(server.url, witness, verify=certified.path) as gateway,
    ):
        assert end_of(await witness.call(gateway, operation, "1")) == DONE
        record = await witness.call(gateway, operation, "2")

    assert lies(record, server.of("2")) == []
    assert end_of(record) == DONE
    assert len(server.lines) == 2
