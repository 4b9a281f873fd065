"""Why there is no connection is said in plain words, with host and port."""

import asyncio
import errno
import os
import pickle
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    Outcome,
    ReplyLostError,
)
from gateway_sdk._call.failure import Reason, reason_of, reason_of_loss
from gateway_sdk._transport.transmission import Transmission, TunnelError, UnreadableReplyError
from gateway_sdk._url import host_and_port, port_of
from gateway_sdk.errors._base import CLIENT
from tests.support.calls import CALLS, Call
from tests.support.certificates import Authority
from tests.support.engines import Engine, engine_at
from tests.support.failing_server import FailingServer, Line, Script
from tests.support.failing_steps import never_look, sending, serve, steps
from tests.support.proxies import HOST, Proxy
from tests.support.raw_server import OK, raw_server, read_request, serving
from tests.support.truth import open_session, short
from tests.support.witness import Witness

LOCAL: Final = "127.0.0.1"
BROKEN: Final = "the connection broke off before anything was sent"
NOT_VALID: Final = "its certificate is not valid: "
UNTRUSTED: Final = f"{NOT_VALID}unable to get local issuer certificate"


class Authorities:
    def __init__(self, folder: Path) -> None:
        self.trusted, self.unknown = Authority(folder, "trusted"), Authority(folder, "unknown")

    def server(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = self.trusted.server(LOCAL)
        context.minimum_version = context.maximum_version = version
        context.load_verify_locations(self.trusted.path)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.trusted.path)
        context.minimum_version = version
        context.load_cert_chain(*self.unknown.certify("client.test"))
        return context


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("authorities"))


async def error_of(url: str, **options: Any) -> GatewayError:
    async with open_session(url, Witness(), **options) as gateway:
        with pytest.raises(GatewayError) as caught:
            await CALLS["create_customer"](gateway)
    return caught.value


def check(error: GatewayError, place: str, text: str, *, transient: bool) -> None:
    assert isinstance(error, ConnectionFailedError)
    assert error.args == (f"no connection to {place}: {text}",)
    assert error.outcome is Outcome.NOT_SENT
    assert error.advice is (Advice.REPEAT if transient else Advice.FIX)
    assert len(error.attempts) == (3 if transient else 1)
    assert error.reason in error.args[0]
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (twin.reason, twin.advice, twin.hints) == (error.reason, error.advice, error.hints)


Answer = Sequence[tuple[Any, ...]]


def resolve(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Answer]) -> None:
    """Put an answer in the place of the system's resolver: tests ask no server for names."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer())


@pytest.mark.asyncio_loop  # uvloop's resolver is not Python's
@pytest.mark.parametrize(
    ("host", "number", "text", "transient"),
    [
        (HOST, socket.EAI_NONAME, "the name is not known", False),
        (HOST, socket.EAI_AGAIN, "the name could not be looked up", True),
        # A part of a name has 63 characters at the most (RFC 1035, 2.3.4): no server is asked.
        ("a" * 64 + ".test", None, "the name is not known", False),
    ],
)
async def test_a_name_that_is_not_found(
    monkeypatch: pytest.MonkeyPatch, host: str, number: int | None, text: str, transient: bool
) -> None:
    """A name that does not exist for sure is not looked up again; a resolver may come back."""

    def fail() -> Answer:
        raise socket.gaierror(number, "no")

    if number is not None:
        resolve(monkeypatch, fail)
    error = await error_of(f"https://{host}")

    check(error, f"{host}:443", text, transient=transient)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def mismatch(kind: str, host: str) -> str:
    return f"{NOT_VALID}{kind} mismatch, certificate is not valid for '{host}'."


@pytest.mark.parametrize(
    ("url_host", "host", "expired", "known", "text"),
    [
        (LOCAL, LOCAL, True, True, f"{NOT_VALID}certificate has expired"),
        (LOCAL, "127.0.0.2", False, True, mismatch("IP address", LOCAL)),
        (LOCAL, "gateway.test", False, True, mismatch("IP address", LOCAL)),
        ("localhost", "gateway.test", False, True, mismatch("Hostname", "localhost")),
        (LOCAL, LOCAL, False, False, UNTRUSTED),
    ],
)
async def test_a_certificate_that_will_not_do(
    authorities: Authorities, url_host: str, host: str, expired: bool, known: bool, text: str
) -> None:
    authority = authorities.trusted if known else authorities.unknown
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certify(host, expired=expired))
    async with FailingServer(serve, tls=context) as server:
        url = server.url.replace(LOCAL, url_host)
        error = await error_of(url, verify=authorities.trusted.path)

    check(error, f"{url_host}:{server.port}", text, transient=False)


@pytest.mark.parametrize(
    ("is_proxy", "scheme"), [(True, "https"), (True, "http"), (False, "https")]
)
async def test_the_certificate_of_a_proxy_or_of_a_gateway_behind_one(
    authorities: Authorities, is_proxy: bool, scheme: str
) -> None:
    """A proxy with a certificate of somebody else's sees nothing."""
    unknown = authorities.unknown.server(LOCAL if is_proxy else HOST)
    async with serving(silent, unknown) as port:
        proxy = Proxy(port)
        async with serving(proxy.handle, unknown if is_proxy else None) as proxy_port:
            error = await error_of(
                f"{scheme}://{HOST}",
                proxy=f"{'https' if is_proxy else 'http'}://{LOCAL}:{proxy_port}",
                verify=authorities.trusted.path,
                allow_insecure_http=True,
            )

    place = f"the proxy {LOCAL}:{proxy_port}" if is_proxy else f"{HOST}:443"
    check(error, place, UNTRUSTED, transient=False)
    assert len(proxy.heads) == (not is_proxy)


HANDSHAKES: Final[dict[str, tuple[Script, str, bool]]] = {
    "plain HTTP": (
        steps(Line.forget, sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Line.close),
        "it is not a TLS server",
        False,
    ),
    "a hang-up": (steps(Line.close), BROKEN, True),
    "silence": (never_look, "timed out after 0.05 s while connecting", True),
}


@pytest.mark.parametrize(("script", "text", "transient"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_a_handshake_that_fails(
    authorities: Authorities, script: Script, text: str, transient: bool
) -> None:
    async with FailingServer(script) as server:
        url = server.url.replace("http:", "https:")
        timeout = short(connect=0.05 if script is never_look else 30)
        error = await error_of(url, timeout=timeout, verify=authorities.trusted.path)

    check(error, f"{LOCAL}:{server.port}", text, transient=transient)


def refusing_after_the_handshake(context: ssl.SSLContext) -> Script:
    """Shake hands, and leave the connection open after a handshake that failed.

    Closing it with the request unread would reset it, which may overtake the alert.
    """

    async def script(line: Line) -> None:
        with suppress(ssl.SSLError):
            await line.shake_hands(context)
        await line.server.may_go_on.wait()

    return script


TLS: Final = ssl.TLSVersion
OLD: Final = "it refused the TLS handshake: it may want other ciphers, or a client certificate"


WANTED: Final = "it wants a client certificate"
NOT_ACCEPTED: Final = "it did not accept the client certificate"


@pytest.mark.parametrize(
    ("version", "has_one", "text"),
    [
        (TLS.TLSv1_2, False, OLD),
        (TLS.TLSv1_2, True, NOT_ACCEPTED),
        (TLS.TLSv1_3, False, WANTED),
        (TLS.TLSv1_3, True, NOT_ACCEPTED),
    ],
)
async def test_a_server_that_wants_a_client_certificate(
    authorities: Authorities, version: ssl.TLSVersion, has_one: bool, text: str
) -> None:
    """It is tried once: under TLS 1.2 the handshake fails, and nothing is sent.

    Under TLS 1.3 the request has left before the client hears of it: UNKNOWN.
    """
    verify = authorities.client(version) if has_one else authorities.trusted.path
    script = refusing_after_the_handshake(authorities.server(version))
    async with FailingServer(script) as server:
        url = server.url.replace("http:", "https:")
        async with open_session(url, Witness(), verify=verify) as gateway:
            with pytest.raises(GatewayError) as caught:
                await CALLS["order_history"](gateway)

    place = f"{LOCAL}:{server.port}"
    if version is TLS.TLSv1_2:
        check(caught.value, place, text, transient=False)
    else:
        assert isinstance(caught.value, ReplyLostError)
        assert caught.value.args == (f"no reply from {place}: {text}",)
        assert caught.value.outcome is Outcome.UNKNOWN
        assert len(caught.value.attempts) == 1
        assert caught.value.advice is not Advice.REPEAT


async def test_it_may_say_so_before_the_document_is_there(authorities: Authorities) -> None:
    context = ssl.create_default_context(cafile=authorities.trusted.path)
    transmission = Transmission()

    async def document() -> AsyncIterator[bytes]:
        await asyncio.wait([one.closed for one in engine._pool.open], timeout=30)
        yield b"{}"

    script = refusing_after_the_handshake(authorities.server(TLS.TLSv1_3))
    async with FailingServer(script) as server:
        engine = Engine(server.url.replace("http:", "https:"), lambda: context)
        with pytest.raises(httpx.ConnectError) as caught:
            await engine.send("POST", transmission, content=document())
        await engine.aclose()

    assert not transmission.sent
    reason = reason_of(caught.value, httpx.Timeout(5))
    assert reason == Reason(WANTED, Advice.FIX, CLIENT)


@pytest.mark.parametrize("work", [CALLS["create_customer"], GatewaySession.connect])
async def test_no_connection_comes_free(work: Call) -> None:
    asked = asyncio.Event()

    async def busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await silent(reader, writer)

    async with serving(busy) as port:
        options = {"max_connections": 1, "timeout": short(pool=0.02)}
        async with open_session(f"http://{LOCAL}:{port}", Witness(), **options) as gateway:
            holding = asyncio.create_task(CALLS["order_history"](gateway))
            await asked.wait()
            with pytest.raises(ConnectionFailedError) as caught:
                await work(gateway)
            holding.cancel()
            await asyncio.wait([holding])

    text = "timed out after 0.02 s while all of max_connections were in use"
    check(caught.value, f"{LOCAL}:{port}", text, transient=True)


def _caused(error: Exception, *causes: BaseException) -> Exception:
    last: BaseException = error
    for cause in causes:
        last.__cause__ = cause
        last = cause
    return error


def _verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "path length constraint exceeded"
    return error


def _reason(text: str, *, transient: bool) -> Reason:
    return Reason(text, Advice.REPEAT if transient else Advice.FIX)


def _connecting(*causes: BaseException) -> Exception:
    return _caused(httpx.ConnectError("-"), *causes)


TOO_MANY: Final = OSError(errno.EMFILE, "no")
PLAIN: Final = httpx.Timeout(None)
SAID: Final[list[tuple[Exception, str, bool]]] = [
    (_connecting(TOO_MANY), "too many open files", True),
    (_connecting(OSError("a text")), BROKEN, True),
    (_connecting(ConnectionResetError()), BROKEN, True),
    (
        _connecting(
            OSError("all failed"), ExceptionGroup("", [OSError("-"), ConnectionRefusedError()])
        ),
        "connection refused",
        True,
    ),
    (_connecting(UnicodeError()), "the name is not known", False),
    (_connecting(_verification(25)), f"{NOT_VALID}path length constraint exceeded", False),
    (_connecting(ssl.SSLError()), "the TLS handshake failed", True),
    (httpx.ConnectTimeout("-"), "timed out while connecting", True),
    (httpx.PoolTimeout("-"), "timed out while all of max_connections were in use", True),
    (httpx.ProxyError("no tunnel: ReadError"), "made no tunnel", True),
    (httpx.ProxyError("407 CANARY"), "made no tunnel", True),  # not in words of ours
    (TunnelError("is too tired"), "is too tired", True),
    (TunnelError("wants a login", is_permanent=True), "wants a login", False),
]


@pytest.mark.parametrize(("error", "text", "transient"), SAID)
def test_what_no_server_here_can_show(error: Exception, text: str, transient: bool) -> None:
    if "too many" in text:
        text = os.strerror(errno.EMFILE)[0].lower() + os.strerror(errno.EMFILE)[1:]
    reason = reason_of(error, PLAIN)

    assert reason[:2] == _reason(text, transient=transient)[:2]


def _late(reason: str) -> Exception:
    error = ssl.SSLError(1, "no")
    error.reason = reason
    return _caused(httpx.ReadError("-"), error)


@pytest.mark.parametrize(
    ("error", "text", "transient"),
    [
        (httpx.ReadTimeout("CANARY"), "timed out while waiting for the reply", True),
        (httpx.WriteTimeout("CANARY"), "timed out while sending", True),
        (httpx.WriteError("CANARY"), "the connection broke off", True),
        # Other troubles of TLS behind a request say nothing of the next one.
        (_late("WRONG_VERSION_NUMBER"), "the connection broke off", True),
        (_caused(httpx.ReadError("-"), ssl.SSLError()), "the connection broke off", True),
        (_late("TLSV13_ALERT_CERTIFICATE_REQUIRED"), WANTED, False),
        (
            httpx.RemoteProtocolError("CANARY"),
            "the connection broke off, or the reply is not HTTP",
            True,
        ),
        (httpx.TransportError("CANARY"), "the transport raised TransportError", True),
        (UnreadableReplyError("it closed the connection"), "it closed the connection", True),
        (UnreadableReplyError("h2", is_permanent=True), "h2", False),
    ],
)
def test_why_a_reply_is_lost(error: Exception, text: str, transient: bool) -> None:
    """In words; those of a foreign transport may show what came, and are not shown."""
    assert reason_of_loss(error, PLAIN)[:2] == _reason(text, transient=transient)[:2]


HTTP_2: Final = b"\0\0\x12\x04\0\0\0\0\0" + bytes(18)


@pytest.mark.parametrize(
    ("data", "text", "attempts"),
    [
        (HTTP_2, "it speaks HTTP/2 only", 1),
        (b"220 mail.test ESMTP\r\n", "it sent bytes that are no HTTP", 3),
        (OK[:15] + b"\r\nX\r\n\r\n", "its reply is not HTTP/1.1 (Invalid header token)", 3),
        (b"", "it closed the connection", 3),
    ],
)
async def test_what_is_no_reply_is_named(data: bytes, text: str, attempts: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        writer.write_eof()
        await reader.read()

    async with raw_server(answer) as url, open_session(url, Witness()) as gateway:
        with pytest.raises(ReplyLostError) as caught:
            await CALLS["order_history"](gateway)

    assert caught.value.args[0].endswith(f": {text}")
    assert len(caught.value.attempts) == attempts


@pytest.mark.parametrize(
    ("data", "text", "transient"),
    [
        (HTTP_2, "it speaks HTTP/2 only", False),
        (b"220 mail.test ESMTP\r\n", "it sent bytes that are no HTTP", True),
        (OK, "it sent bytes before the request", True),
    ],
)
async def test_bytes_before_the_request_are_named(data: bytes, text: str, transient: bool) -> None:
    transmission = Transmission()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        assert not await reader.read()

    async def document() -> AsyncIterator[bytes]:
        while not any(not one.is_quiet() for one in engine._pool.open):  # noqa: ASYNC110
            await asyncio.sleep(0)
        yield b"{}"

    async with engine_at(speak) as engine:
        with pytest.raises(httpx.ConnectError) as caught:
            await engine.send("POST", transmission, content=document())

    assert not transmission.sent
    assert reason_of(caught.value, PLAIN) == _reason(text, transient=transient)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://gateway.test", "gateway.test:443"),
        ("http://localhost", "localhost:80"),
        ("http://[::1]:8080/x", "[::1]:8080"),
        ("socks5://proxy.test", "proxy.test:1080"),
        ("socks5h://proxy.test", "proxy.test:1080"),
    ],
)
def test_an_address_is_shown_with_its_port(text: str, shown: str) -> None:
    url = httpx.URL(text)

    assert host_and_port(url.host, port_of(url)) == shown
