"""The measures notice when the work was not done, and count what they claim to count."""

import asyncio
import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks import gateway_server
from benchmarks.gateway_server import SERIES, Connection, Server, Wakeful
from benchmarks.measures import counts, instructions, latency, targets, upload
from benchmarks.measures.load import ask, counted
from benchmarks.peers import PEERS, lacking
from benchmarks.peers.generated import generate
from benchmarks.peers.request import check
from benchmarks.processes import server

HERE = [name for name in PEERS if lacking(name) is None]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server("gateway_server") as address:
        yield address


@pytest.mark.parametrize("peer", HERE)
async def test_every_peer_does_the_same_and_sees_an_error(
    url: str, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call is one request, its reply is there, and a refusal is no reply."""
    generate(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = ask(url)["requests"]

    async with PEERS[peer].open(url, 2) as call:
        replies = await asyncio.gather(call(), call(), call())

    for reply in replies:
        check(reply)
        assert reply["rates"] == SERIES["rates"]
    assert ask(url)["requests"] == before + 3
    async with PEERS[peer].open(f"{url}/nowhere", 1) as call:
        with pytest.raises(Exception, match=r"404|refusal"):
            await call()


async def test_calls_that_were_never_made_are_not_measured(url: str) -> None:
    """The server must have seen as many, and a reply must be the one that was asked for."""

    async def boast() -> int:
        return 2

    with pytest.raises(ValueError, match="2 calls were made, and the server saw 0"):
        await counted(url, boast)
    with pytest.raises(ValueError, match="not the reply"):
        check({"base": "USD"})


@pytest.mark.parametrize(
    ("change", "is_form"),
    [({"bytes": 1}, False), ({"sha256": "other"}, False), ({"bytes": 2**20}, True)],
)
def test_an_upload_of_something_else_is_no_figure(
    tmp_path: Path, change: dict[str, Any], is_form: bool
) -> None:
    """The length is compared always, and the digest where the server computes one."""
    path = upload.document(tmp_path / "document", 1)
    reply = {"bytes": 2**20, "sha256": hashlib.sha256(bytes(2**20)).hexdigest()}

    upload.check(reply, path, is_form=False, hashed=True)
    with pytest.raises(ValueError, match="not what was sent"):
        upload.check(reply | change, path, is_form=is_form, hashed=True)


async def test_latency_counts_from_when_a_call_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that a slow one held up are charged with the time that they waited."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    took: list[float] = []

    async def call() -> Any:
        nonlocal now
        now += 0.1  # blocks the event loop for so long
        return SERIES

    assert await latency.at_rate(call, 100, 4, took) == 4
    assert took == pytest.approx([0.1, 0.2 - 0.01, 0.3 - 0.02, 0.4 - 0.03])
    assert latency.percentile(took, 50) == took[1]  # one that was seen


@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind counts instructions")
async def test_instructions_are_those_of_calls(url: str) -> None:
    before = ask(url)["requests"]
    figures = await instructions.measure("raw sockets", url, {"calls": (20, 40), "callers": (1, 2)})

    assert ask(url)["requests"] == before + 2 * (20 + 40)
    assert figures.keys() == {"instructions_k 1", "instructions_k 2"}
    assert all(50 < count < 1000 for count in figures.values())


@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind counts instructions")
async def test_instructions_are_those_of_items(tmp_path: Path) -> None:
    given = {"folder": str(tmp_path), "items": (20, 120)}
    figures = await counts.measure("an item, journal", "", given)

    assert 50 < figures["instructions_k"] < 1000


async def test_a_bare_environment_has_no_extra(tmp_path: Path) -> None:
    found = {link.name for link in counts.bare(tmp_path).iterdir()}

    assert {"httpx", "pydantic", "tenacity", "authlib"} <= found
    assert found.isdisjoint({"gateway_sdk", "pytest", "typer", "rich", "opentelemetry"})


@pytest.mark.parametrize("kept", [True, False])
async def test_a_command_says_whether_it_kept_its_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: bool
) -> None:
    command = (("soak", "--calls"), ("10" if kept else "ten",))
    monkeypatch.setattr(targets, "TARGETS", {"some": command})

    given = {"short": True, "folder": str(tmp_path)}
    assert await targets.measure("some", "", given) == {"kept": float(kept)}
    assert bool((tmp_path / "some.txt").read_text()) == kept


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_server_answers_each_request_once(size: int) -> None:
    """A reply is written when the last byte of its request is there, and not before."""
    request = b"POST /elsewhere HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    shared, transport = Server(), Mock(asyncio.Transport)
    connection, line = Connection(shared), request * 3
    connection.connection_made(transport)

    for start in range(0, len(line), size):
        connection.data_received(line[start : start + size])
        whole = min(start + size, len(line)) // len(request)
        assert transport.write.call_count == shared.requests == whole


@pytest.mark.parametrize("awake", [0.001, 60.0])
def test_being_awake_is_no_work(awake: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which there is nothing to do is waited for, and not counted as work."""
    monkeypatch.setattr(gateway_server, "AWAKE", awake)
    with Wakeful() as selector:
        began, cpu, worked = time.monotonic(), time.process_time(), selector.worked()

        assert selector.select(0.002) == []

        assert time.monotonic() - began >= 0.002
        assert selector.worked() - worked < time.process_time() - cpu
