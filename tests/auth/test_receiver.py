"""Where the receiver listens, what it needs for that, and other users of this machine."""

import encodings.idna  # noqa: F401 - another user may not be able to read it later
import errno
import json
import os
import re
import shlex
import socket
import struct
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import _peer
from gateway_sdk.auth import LoopbackReceiver, login
from gateway_sdk.auth._login import server
from gateway_sdk.errors import (
    ConfigurationError,
    LoginError,
    ReceiverUnavailableError,
    SessionStateError,
)
from tests.auth.visits import (
    FLOW,
    GOOD as RESPONSE,
    GRANTED,
    RIGHT,
    TOKEN,
    Reader,
    Surfer,
    Waiting,
    answer,
    exchange,
    is_refused,
    names_of,
    post,
    read_answer,
    visit,
    waiting,
)

pytestmark = pytest.mark.usefixtures("traceless")


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


WITH_IPV6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def other_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends no packet
        except OSError:
            return "127.0.0.1"
        name: str = probe.getsockname()[0]
    return name


async def test_it_listens_on_this_machine_only() -> None:
    async with waiting() as there:
        assert there.receiver.redirect_uri == f"http://127.0.0.1:{there.port}/callback"
        assert there.names == [("127.0.0.1", there.port)]
        outside = other_address()
        assert outside == "127.0.0.1" or is_refused(outside, there.port)
        await there.must_still_wait()


@pytest.mark.parametrize(
    ("redirect_uri", "path"),
    [
        ("http://127.0.0.1:0", "/"),
        ("http://127.0.0.1:0/.a/b..c/-_~:@+/", "/.a/b..c/-_~:@+/"),
        ("http://127.0.0.1:0/login?tenant=acme", "/login"),
        pytest.param("http://[0::1]:0/callback", "/callback", marks=WITH_IPV6),
        ("HTTP://LOCALHOST:0/callback", "/callback"),
    ],
)
async def test_any_address_of_this_machine_is_accepted(redirect_uri: str, path: str) -> None:
    """The redirect URI keeps host, path and query; only port 0 is replaced by the real port."""
    async with waiting(redirect_uri) as there:
        expected = redirect_uri.lower().replace(":0", f":{there.port}").replace("[0", "[")
        assert there.receiver.redirect_uri == expected
        for target, status in ((path, 200), (f"{path}?x", 200), (f"{path}x", 404)):
            assert (await there.send(visit(target=target))).status == status
        assert (await there.send(post(answer(RIGHT), target=path))).status == 200
        assert await there.task == RIGHT


async def test_bind_may_be_every_address() -> None:
    """Requests must still name the right host."""
    async with waiting(bind="0.0.0.0") as there:  # noqa: S104 - what it is about
        assert there.host == "0.0.0.0"  # noqa: S104 - same
        assert not is_refused(other_address(), there.port)
        assert (await there.send(visit({"Host": f"0.0.0.0:{there.port}"}))).status == 421
        await there.must_still_wait()


@WITH_IPV6
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_localhost_is_both_addresses(host: str) -> None:
    async with waiting("http://localhost:0/callback") as there:
        assert there.names == [("127.0.0.1", there.port), ("::1", there.port)]
        assert (await there.send(post(answer(RIGHT)), host=host)).status == 200
        assert await there.task == RIGHT
    assert is_refused("127.0.0.1", there.port)
    assert is_refused("::1", there.port)


@WITH_IPV6
async def test_half_of_localhost_is_not_enough() -> None:
    """If another program has ::1, 127.0.0.1 is closed: a response could go to that program."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with pytest.raises(ReceiverUnavailableError, match=f"port {port} of ::1 is in use"):
            await LoopbackReceiver(f"http://localhost:{port}/callback").__aenter__()
        assert is_refused("127.0.0.1", port)
        async with waiting(f"http://127.0.0.1:{port}/callback") as there:
            await there.must_still_wait()


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EACCES])
async def test_localhost_is_one_address_without_ipv6(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    listen = server._listen

    def listen_or_not(host: str, port: int) -> socket.socket:
        if host == "::1":
            raise OSError(number, "no")
        return listen(host, port)

    monkeypatch.setattr(server, "_listen", listen_or_not)
    receiver = LoopbackReceiver("http://localhost:0/callback")
    if number == errno.EACCES:
        with pytest.raises(ReceiverUnavailableError, match="of ::1: no"):
            await receiver.__aenter__()
        return
    async with receiver:
        assert [host for host, _ in names_of(receiver)] == ["127.0.0.1"]


async def test_a_port_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    async with LoopbackReceiver() as receiver:
        [listener] = receiver._sockets
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 0


async def test_an_address_that_cannot_be_had_is_an_error() -> None:
    async with waiting() as there:
        with pytest.raises(ReceiverUnavailableError) as caught:
            await LoopbackReceiver(there.receiver.redirect_uri).__aenter__()
        await there.must_still_wait()
    assert str(caught.value) == (
        f"port {there.port} of 127.0.0.1 is in use, perhaps by another login: finish or stop "
        "it, or use a redirect URI with another port"
    )
    assert isinstance(caught.value, LoginError)
    message = r"^cannot listen at port 0 of 192\.0\.2\.1: \w"
    with pytest.raises(ReceiverUnavailableError, match=message):
        await LoopbackReceiver(bind="192.0.2.1").__aenter__()


@pytest.mark.parametrize(
    ("redirect_uri", "problem"),
    [
        ("http://gateway.test/callback", "can only be pasted"),
        ("http://127.0.0.1.evil.test/callback", "can only be pasted"),
        ("http://127.0.0.1:0/callback#", "fragment"),
        ("http://CANARY:CANARY@127.0.0.1:0/callback", "user name or password"),
        ("http://127.0.0.1:0//x/cb", "a path that browsers may change"),
        ("http://127.0.0.1:0/a/../b", "a path that browsers may change"),
        ("http://127.0.0.1:0/a/%2E%2e/b", "a path that browsers may change"),
        ("http://127.0.0.1:0/a\\b", "a path that browsers may change"),
        ("http://127.0.0.1:0/a%4", "a path that browsers may change"),
        ("http://127.0.0.1:0/a;b", "a path that browsers may change"),
        ("http://127.0.0.1:0/é", "a path that browsers may change"),
        (None, "must be a str"),
    ],
)
async def test_an_invalid_redirect_uri_is_refused_at_once(redirect_uri: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        LoopbackReceiver(redirect_uri)
    assert "CANARY" not in str(caught.value)


async def test_a_receiver_waits_once_inside_of_async_with() -> None:
    """A second wait, during the first or after it, is an error and does not affect the first."""
    async with waiting() as there:
        await there.send(visit())
        with pytest.raises(SessionStateError, match="once"):
            await there.receiver.receive(read_answer)
        await there.must_still_wait()
        with pytest.raises(SessionStateError, match="once"):
            await there.receiver.receive(read_answer)
    receiver = LoopbackReceiver()
    with pytest.raises(SessionStateError, match="async with"):
        await receiver.receive(read_answer)
    async with receiver:
        address = names_of(receiver)[0]
        with pytest.raises(ConfigurationError, match="timeout"):
            await receiver.receive(read_answer, timeout=0)
        assert not is_refused(*address)
    assert is_refused(*address)
    with pytest.raises(SessionStateError, match="async with"):
        await receiver.receive(read_answer)


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a socket is")

NOBODY = 65534
# The user at the start: the other user is derived from it.
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0


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
    monkeypatch.setattr(_peer, "_ROOT", -1)
    monkeypatch.setattr("os.getuid", lambda: user + 1)
    monkeypatch.setattr("os.geteuid", lambda: user + 1)


@linux_only
@pytest.mark.usefixtures("as_another_user")
@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("[::1]", marks=WITH_IPV6)])
async def test_every_request_of_another_user_is_refused(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """The start address, the page and the response are refused, and change nothing."""
    async with waiting(f"http://{host}:0/callback") as there:
        for raw in (visit(target=there.start), visit(), post(RESPONSE, {"Cookie": "a=b"})):
            reply = await there.send(raw)
            assert reply.status == 403
            assert reply.body == b"Only the login's own user may call this address.\n"
        monkeypatch.undo()
        await there.must_still_wait()


_TCP_REPAIR = 19  # linux/tcp.h


def open_start(there: Waiting, how: str) -> socket.socket:
    client = socket.create_connection((there.host, there.port))
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(visit(target=there.start, changes={"Host": f"{there.host}:{there.port}"}))
    if how == "forgotten":  # at once, as the kernel does a second after the end with TCP_LINGER2
        client.shutdown(socket.SHUT_WR)
        client.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
    return client


@linux_only
@pytest.mark.parametrize(
    "how",
    [
        *("closed", "reset"),
        pytest.param("forgotten", marks=pytest.mark.skipif(not IS_ROOT, reason="needs root")),
    ],
)
async def test_a_connection_closed_before_the_owner_check_is_refused(how: str) -> None:
    """A closed connection may be another user's: it does not open the start address."""
    async with waiting() as there:
        open_start(there, how).close()
        await there.must_still_wait()


@linux_only
async def test_a_connection_reset_during_the_owner_check_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel then knows no owner, but the received bytes could still be read."""
    clients: list[socket.socket] = []

    user_of = _peer.user_of

    def reset(peer: Any, own: Any) -> int | None:
        for client in clients:
            client.close()
        return user_of(peer, own)

    monkeypatch.setattr(_peer, "user_of", reset)
    async with waiting() as there:
        clients.append(open_start(there, "reset"))
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
        monkeypatch.setattr(_peer, "_NETLINK_SOCK_DIAG", 999)
    async with waiting() as there:
        assert (await there.send(post(RESPONSE, {"Cookie": "a=b"}))).status == 403
        await there.must_still_wait()


@linux_only
def test_the_owner_of_a_socket_is_known() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        served, near = server.accept()
        far = stack.enter_context(served).getsockname()
        assert not _peer.may_be_other_user(served)
        assert _peer.user_of(near, far) == os.geteuid()
        # The kernel falls back to the listener at the port, which is not the connection's owner.
        assert _peer.user_of(far, ("127.0.0.1", 1)) is None
        assert _peer.user_of(("192.0.2.1", near[1]), far) is None
        client.close()
        assert _peer.user_of(near, far) == _peer._UNKNOWABLE
        assert _peer.may_be_other_user(served)


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
async def test_root_is_no_other_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays into containers run as root, who could read the memory of this process anyway."""
    monkeypatch.setattr("os.getuid", lambda: NOBODY)
    monkeypatch.setattr("os.geteuid", lambda: NOBODY)
    async with waiting() as there:
        await there.must_still_wait()


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
    Surfer(GRANTED)(url)


if __name__ == "__main__":
    run_as_browser(*sys.argv[1:])
