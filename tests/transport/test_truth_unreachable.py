"""What is said of calls to where nobody answers: nothing was sent."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.failing_steps import serve
from tests.support.truth import (
    POLICIES,
    UNREACHABLE,
    WRITES_AND_READS,
    Step,
    check,
    make,
    short,
)

NOWHERE = {
    "closed_port": Step(serve, (UNREACHABLE,)),
    "full_port": Step(serve, (UNREACHABLE,), times=short(connect=0.1)),
    "unknown_name": Step(serve, (UNREACHABLE,), passes=False),
}


@pytest.fixture
def closed_port() -> Iterator[str]:
    """The address of a port that is taken, and where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def full_port() -> Iterator[str]:
    """The address of a port with more waiting connections than it takes."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def unknown_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a name that nobody knows, here without asking anybody."""

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    return "https://no-such-name.invalid"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize("where", NOWHERE)
async def test_where_nobody_answers_nothing_is_sent(
    request: pytest.FixtureRequest, where: str, operation: str, policy: str
) -> None:
    """A connection that does not come about is tried for again, unless that cannot help."""
    url, retry = request.getfixturevalue(where), POLICIES[policy]
    record = await make(url, operation, retry=retry, timeout=NOWHERE[where].times)

    check(record, NOWHERE[where], [], retry)
    assert len(record.attempts) == (3 if retry and NOWHERE[where].passes else 1)
    assert record.sent == 0
