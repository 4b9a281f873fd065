"""Another user of this machine, who can read the list of processes, during a login."""

import encodings.idna  # noqa: F401 - another user may not be able to read it later
import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk.auth import _loopback, login
from tests.auth.people import FLOW, GOOD, TOKEN, Reader, Surfer, exchange
from tests.auth.visits import GOOD as RESPONSE, Waiting, post, visit, waiting

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a socket is")

NOBODY = 65534
# The user at the start: the other user is derived from it.
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0


pytestmark = pytest.mark.usefixtures("traceless")


def rob(mark: str) -> list[Any]:
    """Return the URLs that processes with a mark show, and the results of trying to use them."""
    shown = ""
    for path in Path("/proc").glob("[0-9]*/cmdline"):  # which every user can read
        with suppress(OSError):  # it has just ended
            text = path.read_text(errors="replace")
            shown += text if mark in text else ""
    urls = sorted(set(re.findall(r"https?://[^\0\n]+", shown)))
    statuses = []
    for url in urls if IS_ROOT else []:
        _, _, place, start = url.split("/")
        requests = (visit(target=f"/{start}"), visit(), post(RESPONSE, {"Cookie": None}))
        statuses += [exchange(place, raw).status for raw in requests]
    return [urls, statuses]


@linux_only
async def test_a_user_who_lists_the_processes_cannot_end_the_login(tmp_path: Path) -> None:
    """The browser's command shows no state, and its URL is refused to another user.

    Where the test is not run by root, it can only read the list of processes.
    """
    words = (sys.executable, "-m", __spec__.name, str(tmp_path / "robbed"))
    reader = Reader()
    token = await login(FLOW, browser=f"{shlex.join(words)} %s", show=reader)
    urls, statuses = json.loads((tmp_path / "robbed").read_text())
    assert token.value.get_secret_value() == TOKEN
    assert [url.rpartition("/")[0] for url in urls] == [
        (await reader.start_url()).rpartition("/")[0]
    ]
    assert await reader.start_url() not in urls
    assert statuses == ([403] * 3 if IS_ROOT else [])


@pytest.fixture
def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(_loopback, "_ROOT", -1)
    monkeypatch.setattr("os.getuid", lambda: user + 1)
    monkeypatch.setattr("os.geteuid", lambda: user + 1)


@linux_only
@pytest.mark.usefixtures("as_another_user")
@pytest.mark.parametrize("redirect_uri", ["http://127.0.0.1:0/callback", "http://[::1]:0/callback"])
async def test_every_request_of_another_user_is_refused(
    monkeypatch: pytest.MonkeyPatch, redirect_uri: str
) -> None:
    """The start address, the page and the response are refused, and change nothing."""
    if "::1" in redirect_uri and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    async with waiting(redirect_uri) as there:
        for raw in (visit(target=there.start), visit(), post(RESPONSE, {"Cookie": "a=b"})):
            reply = await there.send(raw)
            assert reply.status == 403
            assert reply.body == b"Only the user who started the login may call this address.\n"
        monkeypatch.undo()
        await there.must_still_wait()


def open_start(there: Waiting, *, by_reset: bool) -> socket.socket:
    client = socket.create_connection((there.host, there.port))
    if by_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(visit(target=there.start, changes={"Host": f"{there.host}:{there.port}"}))
    return client


@linux_only
@pytest.mark.parametrize("by_reset", [False, True])
async def test_a_connection_closed_before_the_owner_check_is_refused(by_reset: bool) -> None:
    """A closed connection may be another user's: it does not open the start address."""
    async with waiting() as there:
        open_start(there, by_reset=by_reset).close()
        await there.must_still_wait()


@linux_only
async def test_a_connection_reset_during_the_owner_check_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel then knows no owner, but the received bytes could still be read."""
    clients: list[socket.socket] = []

    def reset(peer: Any, own: Any) -> bool:
        for client in clients:
            client.close()
        return bool(_loopback._user_of(peer, own) == os.geteuid() + 1)

    monkeypatch.setattr(_loopback, "is_other_user", reset)
    async with waiting() as there:
        clients.append(open_start(there, by_reset=True))
        await there.must_still_wait()


@pytest.mark.posix
@pytest.mark.usefixtures("as_another_user")
@pytest.mark.parametrize("missing", ["the protocol", "the permission"])
async def test_where_the_user_is_unknown_the_cookie_decides(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """On other systems, or if the kernel does not answer, no request is refused for its user."""
    if missing == "the protocol":
        monkeypatch.delattr(socket, "AF_NETLINK", raising=False)
    else:
        monkeypatch.setattr(_loopback, "_NETLINK_SOCK_DIAG", 999)
    async with waiting() as there:
        assert (await there.send(post(RESPONSE, {"Cookie": "a=b"}))).status == 403
        await there.must_still_wait()


@linux_only
def test_the_owner_of_a_socket_is_known() -> None:
    """It is the user who opened it; a port without that connection has no owner."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        served, near = server.accept()
        far = stack.enter_context(served).getsockname()
        assert _loopback._user_of(near, far) == os.geteuid()
        # The kernel falls back to the listener at the port, which is not the connection's owner.
        assert _loopback._user_of(far, ("127.0.0.1", 1)) is None
        assert _loopback._user_of(("192.0.2.1", near[1]), far) is None
        client.close()
        assert _loopback._user_of(near, far) == _loopback._UNKNOWABLE
        assert _loopback.is_other_user(near, far)
    assert _loopback._read_owner(b"") is None


@linux_only
@pytest.mark.skipif(not IS_ROOT, reason="only root can open sockets as another user")
@pytest.mark.parametrize(("user", "is_other"), [(NOBODY, True), (0, False)])
def test_root_is_no_other_user(user: int, is_other: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        code = (
            f"import encodings.idna, os, socket; os.setuid({user}); "
            f"s = socket.create_connection({server.getsockname()}); s.recv(1)"
        )
        with subprocess.Popen([sys.executable, "-c", code]) as process:
            served, peer = server.accept()
            assert _loopback.is_other_user(peer, served.getsockname()) is is_other
            served.close()
        assert process.returncode == 0


def run_as_browser(report: str, url: str) -> None:
    """Act as the command that opens the browser: another user tries first, then the user."""
    with Path(report).open("w", encoding="utf-8") as file:
        child = os.fork()
        if child == 0:
            if IS_ROOT:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            json.dump(rob(report), file)
            file.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    Surfer(GOOD)(url)


if __name__ == "__main__":
    run_as_browser(*sys.argv[1:])
