import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest

from gateway_sdk.sandbox import Fault, Faults, Sandbox, _server
from gateway_sdk.sandbox._server import _base_url, _Protocol
from tests.sandbox.conftest import HEADERS, holding_up, on_a_socket

WEBHOOK = "/kyc/1.0.0/webhook"


async def test_many_calls_at_once_are_served(sandbox: Sandbox) -> None:
    """On connections that stay open; a program that serves a sandbox keeps its signal handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async with on_a_socket(sandbox) as client:
        replies = await asyncio.gather(*[client.post(WEBHOOK) for _ in range(200)])
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert {reply.status_code for reply in replies} == {202}
    assert len(sandbox.received) == 200
    assert during == before


async def test_a_reply_does_not_wait_for_an_acknowledgement(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head and body are sent one after the other; neither may wait for the client's system."""
    made, options = _Protocol.connection_made, list[int]()

    def note(protocol: Any, transport: asyncio.Transport) -> None:
        made(protocol, transport)
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(_Protocol, "connection_made", note)
    async with on_a_socket(sandbox) as client:
        await client.get("/")

    assert options
    assert all(options)


async def test_address_is_free_again_afterwards(sandbox: Sandbox) -> None:
    async with sandbox.serve() as base_url:
        pass
    with pytest.raises(httpx.ConnectError):
        await httpx.AsyncClient(trust_env=False, timeout=60).post(base_url + WEBHOOK)
    async with sandbox.serve(port=int(base_url.rpartition(":")[2])) as again:
        assert again == base_url


async def test_taken_port_is_an_error_that_names_it(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"(in use|Error).*{port}"):
            async with sandbox.serve(port=port):
                pass


async def test_each_request_is_a_line_of_the_log(sandbox: Sandbox) -> None:
    """A line has method, path as it was sent, status and duration, also if there was no reply."""
    lines: list[str] = []
    sandbox.faults.on("send_webhook", Fault.drop_before_read())

    async with (
        sandbox.serve(log=lines.append) as base_url,
        httpx.AsyncClient(base_url=base_url, headers=HEADERS) as client,
    ):
        await client.get("/nothing%1b[2J")
        await client.post("/countrydata/1.0.0/listData")
        with pytest.raises(httpx.TransportError):
            await client.post(WEBHOOK)

    assert [re.sub(r"\d+ ms", "N ms", line) for line in lines] == [
        "GET /nothing%1b[2J: 404, N ms",
        "POST /countrydata/1.0.0/listData: 200, N ms",
        "POST /kyc/1.0.0/webhook: no reply, N ms",
    ]


async def test_stopping_ends_delayed_calls(caplog: pytest.LogCaptureFixture) -> None:
    """A call that is still being served when the server stops is ended without a log record."""
    caplog.set_level(logging.WARNING)
    sandbox, held_up = holding_up()
    async with httpx.AsyncClient(headers=HEADERS, trust_env=False, timeout=60) as client:
        async with sandbox.serve() as base_url:
            call = asyncio.create_task(client.post(base_url + WEBHOOK))
            await held_up.wait()
        with pytest.raises(httpx.RemoteProtocolError):
            await call

    assert caplog.messages == []


async def test_cancelling_scope_leaves_nothing_behind() -> None:
    """A scope of anyio, which cancels every wait again, ends the calls that are being served."""
    ended = asyncio.Event()
    with anyio.CancelScope() as scope:

        async def sleep(_: float) -> None:
            scope.cancel()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        schedule = Faults(sleep=sleep).anywhere(Fault.latency(1))
        async with on_a_socket(Sandbox(faults=schedule)) as client:
            await client.post(WEBHOOK)

    assert ended.is_set()


async def test_a_client_that_reads_nothing_does_not_delay_the_end(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_server, "GRACE", 0.01)
    full = asyncio.Event()
    monkeypatch.setattr(_Protocol, "pause_writing", lambda _: full.set())
    head = f"POST /countrydata/1.0.0/listData HTTP/1.1\r\nAuthorization: {HEADERS['Authorization']}"
    async with sandbox.serve() as base_url:
        port = int(base_url.rpartition(":")[2])
        client = socket.create_connection(("127.0.0.1", port), timeout=20)
        client.sendall(f"{head}\r\nHost: g\r\n\r\n".encode() * 400)
        await full.wait()
    await asyncio.sleep(0)

    with client, suppress(ConnectionResetError):
        while client.recv(2**16):  # until the server's end, which does not run any more
            pass


async def test_faults_write_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are closed by faults are not logged as errors; no access is logged."""
    caplog.set_level(logging.DEBUG, logger="uvicorn")
    for fault in (Fault.drop_before_read(), Fault.drop_after_read(), Fault.cut_body()):
        async with on_a_socket(Sandbox(faults=Faults().anywhere(fault, at=1))) as client:
            with pytest.raises(httpx.TransportError):
                await client.post(WEBHOOK)
            await client.post(WEBHOOK)

    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    assert [record for record in caplog.records if record.name == "uvicorn.access"] == []


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("192.0.2.1", "http://192.0.2.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104 - no bind
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
    ],
)
def test_base_url_can_be_called(host: str, base_url: str) -> None:
    """An IPv6 address is in brackets; for "every address" stands this machine's own one."""
    assert _base_url(host, 80) == base_url


def test_in_process_use_does_not_load_uvicorn() -> None:
    program = (
        "import sys; from gateway_sdk.sandbox import Sandbox; Sandbox().transport();"
        "sys.exit('uvicorn' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
