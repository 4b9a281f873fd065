"""Where the receiver listens, and what it needs for that."""

import errno
import socket
from contextlib import suppress
from typing import Any

import httpx
import pytest

from gateway_sdk.auth import LoopbackReceiver, _loopback, _receiver
from gateway_sdk.errors import (
    ConfigurationError,
    LoginError,
    ReceiverUnavailableError,
    SessionStateError,
)
from tests.auth.visits import RIGHT, answer, is_refused, names_of, post, read_answer, visit, waiting

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
        ("http://127.0.0.1:0/a/b%20c", "/a/b%20c"),
        ("http://127.0.0.1:0/a//b/..c/.d/e;f=(g),'$&+!*@:~_/", "/a//b/..c/.d/e;f=(g),'$&+!*@:~_/"),
        ("http://127.0.0.1:0/login?tenant=acme", "/login"),
        pytest.param("http://[::1]:0/callback", "/callback", marks=WITH_IPV6),
        ("HTTP://LOCALHOST:0/callback", "/callback"),
    ],
)
async def test_any_address_of_this_machine_is_accepted(redirect_uri: str, path: str) -> None:
    """The redirect URI keeps host, path and query; only port 0 is replaced by the real port."""
    async with waiting(redirect_uri) as there:
        expected = redirect_uri.lower().replace(":0", f":{there.port}")
        assert there.receiver.redirect_uri == expected
        for target, status in ((path, 200), (f"{path}?x", 200), (f"{path}x", 404)):
            assert (await there.send(visit(target=target))).status == status
        assert (await there.send(post(answer(RIGHT), target=path))).status == 200
        assert await there.task == RIGHT


def test_an_address_is_named_as_browsers_write_it() -> None:
    """A browser shortens an IPv6 address before a request, and keeps all other hosts."""
    assert _receiver.authority_of(httpx.URL("http://[0:0:0:0:0:0:0:1]:8765/")) == "[::1]:8765"
    assert _receiver.authority_of(httpx.URL("http://localhost:8765/")) == "localhost:8765"


async def test_bind_listens_elsewhere_under_the_same_name() -> None:
    async with waiting("http://localhost:0/callback", bind="127.0.0.1") as there:
        assert there.names == [("127.0.0.1", there.port)]
        assert there.authority == f"localhost:{there.port}"
        await there.must_still_wait()


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
    listen = _loopback._listen

    def listen_or_not(host: str, port: int) -> socket.socket:
        if host == "::1":
            raise OSError(number, "no")
        return listen(host, port)

    monkeypatch.setattr(_loopback, "_listen", listen_or_not)
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
        ("http://127.0.0.1:0//x/cb", "a path that browsers change"),
        ("http://127.0.0.1:0/a/../b", "a path that browsers change"),
        ("http://127.0.0.1:0/a/%2E%2e/b", "a path that browsers change"),
        ("http://127.0.0.1:0/a\\b", "a path that browsers change"),
        ("http://127.0.0.1:0/%4", "a path that browsers change"),
        ("http://127.0.0.1:0/é", "a path that browsers change"),
        (None, "must be a str"),
    ],
)
async def test_an_invalid_redirect_uri_is_refused_at_once(redirect_uri: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        LoopbackReceiver(redirect_uri)
    assert "CANARY" not in str(caught.value)


async def test_a_wrong_time_out_is_refused() -> None:
    async with LoopbackReceiver() as receiver:
        with pytest.raises(ConfigurationError, match="timeout"):
            await receiver.receive(read_answer, timeout=0)
        assert not is_refused(*names_of(receiver)[0])


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
        assert not is_refused(*address)
    assert is_refused(*address)
    with pytest.raises(SessionStateError, match="async with"):
        await receiver.receive(read_answer)
