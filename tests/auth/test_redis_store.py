"""What is particular to the store in Redis: its addresses, its expiry, its failures, its server."""

import asyncio
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from gateway_sdk import ConfigurationError, TokenStoreError
from gateway_sdk.auth import RedisStore
from gateway_sdk.auth._stores import services
from tests.support.certificates import Authority
from tests.support.logins import KEY, make_token
from tests.support.ports import free_port
from tests.support.raw_server import raw_server
from tests.support.redis_server import NEEDS_REDIS, RedisServer, refusal, running
from tests.support.secrecy import CANARY, texts_of

pytestmark = pytest.mark.usefixtures("discreet")

NAME = f"gateway-sdk:token:{KEY.digest}"
PASSWORD = f"{CANARY}-p@ss/word"
QUOTED = PASSWORD.replace("@", "%40").replace("/", "%2F")
PLAIN = "would be sent unencrypted"
SCHEME = "must be rediss"
SLASH = "write a / in a password as %2F"
QUERY = "can have only"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("rediss://redis.test", "redis.test:6379"),
        (f"rediss://ada:{CANARY}@redis.test:7000/3?ssl_ca_certs=ca.pem", "redis.test:7000"),
        ("redis://127.0.0.1", "127.0.0.1:6379"),
        (f"redis://127.7.7.7:7000?db=3&password={CANARY}", "127.7.7.7:7000"),
        ("redis://", "localhost:6379"),
        (f"redis://ada:{CANARY}@localhost", "localhost:6379"),
        (f"unix://ada:{CANARY}@/run/redis.sock", "/run/redis.sock"),
    ],
)
def test_a_store_shows_only_its_place(url: str, place: str) -> None:
    """TLS, a Unix socket, or this machine; the password may be in the URL."""
    assert repr(RedisStore(url, KEY)) == f"<RedisStore {place} {NAME}>"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"redis://ada:{CANARY}@redis.test", PLAIN),
        (f"https://:{CANARY}@redis.test", SCHEME),
        (CANARY, SCHEME),
        ("unix:/run/redis.sock", SCHEME),
        ("unix://run", SCHEME),
        (f"redis://:{CANARY}@localhost:99999", "is invalid"),
        ("rediss://[::1", "is invalid"),
        (f"redis://:1234/{CANARY}@localhost", SLASH),
        *((no_text, "is invalid") for no_text in (None, 7, b"redis://localhost")),
        ("rediss://redis.test?ssl_cert_reqs=", QUERY),
        ("rediss://redis.test?ssl_check_hostname=false", QUERY),
        (f"rediss://redis.test?{CANARY}=1", QUERY),
        ("redis://localhost?ssl_ca_certs=ca.pem", "can have only db, password in its query"),
        ("unix:///run/redis.sock?ssl_keyfile=key.pem", "can have only db, password in its query"),
    ],
)
def test_an_unsafe_url_is_refused(url: Any, told: str) -> None:
    """No token is sent unencrypted, and no certificate check is off; the URL is not shown."""
    with pytest.raises(ConfigurationError, match=f"^the URL of Redis .*{told}") as caught:
        RedisStore(url, KEY)
    assert CANARY not in texts_of(caught.value)


ODD = (b"+OK", b"$-1", b":1", b"*0", b"*-1", b"*1\r\n:1", b"_", b"#t", b"%1\r\n+a\r\n+b", b"%0")


@pytest.mark.parametrize(
    "answers",
    [b"", b"+", b"HTTP/1.1 400 Bad Request\r\n\r\n", None, *(b"%s\r\n" % odd for odd in ODD)],
)
async def test_a_redis_that_does_not_reply_is_an_error(
    monkeypatch: pytest.MonkeyPatch, answers: bytes | None
) -> None:
    """Silence, half a reply, an odd one or one of another protocol, a cut: an error in time."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers is not None:
            writer.write(answers)
            await reader.read()  # until the client disconnects
        writer.close()

    monkeypatch.setattr(services, "_TIMEOUT", 0.05)
    async with raw_server(handle) as url:
        place = url.removeprefix("http://")
        store = RedisStore(f"redis://:{CANARY}@{place}", KEY)
        for use in (store.load(), store.save(make_token("new")), store.delete()):
            with pytest.raises(TokenStoreError, match=f"^Redis at {place} cannot be us") as caught:
                await use
            assert CANARY not in texts_of(caught.value)


async def test_no_frame_holds_the_password_when_a_caller_gives_up() -> None:
    """A tracker of errors records the variables of each frame, those of redis-py too."""
    limit = asyncio.timeout(None)

    async def be_silent(reader: asyncio.StreamReader, _: object) -> None:
        await reader.read(1)
        limit.reschedule(0)
        await reader.read()

    async with raw_server(be_silent) as url:
        store = RedisStore(url.replace("http://", f"redis://:{CANARY}@"), KEY)
        with pytest.raises(TimeoutError) as caught:
            async with limit:
                await store.load()
    rendered = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert rendered.__cause__ is not None
    frames = [*rendered.stack, *rendered.__cause__.stack]
    held = [text for frame in frames for text in (frame.locals or {}).values()]
    assert not any(CANARY in text for text in held)


async def test_a_redis_is_reached_without_a_thread_of_the_loop() -> None:
    """All of them may wait for the token, as synchronous code does that makes calls."""

    async def hang_up(_: object, writer: asyncio.StreamWriter) -> None:
        writer.close()

    may_end = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        busy = executor.submit(may_end.wait, 20)
        async with raw_server(hang_up) as url:
            with pytest.raises(TokenStoreError, match="cannot be used"):
                await RedisStore(url.replace("http", "redis"), KEY).load()
        assert not busy.done()
        may_end.set()


@NEEDS_REDIS
async def test_redis_forgets_a_token_when_it_expires(running_redis: RedisServer) -> None:
    """An entry of unknown end stays, and keeps no end of the one before it.

    What is sent is known to Redis before 6.2, too.
    """
    store = RedisStore(running_redis.url, KEY)
    async with (
        redis.asyncio.Redis.from_url(running_redis.url) as client,
        redis.asyncio.Redis.from_url(running_redis.url) as other,
        other.monitor() as monitor,
    ):
        await store.save(make_token("kept", expires_at=time.time() + 3600))
        while not (sent := (await monitor.next_command())["command"]).startswith("SET "):
            pass
        assert " PX 3" in sent
        assert 0 <= 3_600_000 - await client.pttl(NAME) < 600_000
        await store.save(make_token("second"))
        assert await client.pttl(NAME) == -1
        await store.save(make_token("over", expires_at=time.time() - 10))
        assert await client.pttl(NAME) <= 1


@NEEDS_REDIS
async def test_no_connection_is_left_open(running_redis: RedisServer) -> None:
    """Also after an error, as of an entry of another type, and after a cancellation."""
    store = RedisStore(running_redis.url, KEY)
    async with redis.asyncio.Redis.from_url(running_redis.url) as client:
        await client.delete(NAME)
        await client.rpush(NAME, CANARY)
        for _ in range(20):
            with pytest.raises(TokenStoreError, match=r"be used: \w*ResponseError$") as caught:
                await store.load()
            assert CANARY not in texts_of(caught.value)
            cancelled = asyncio.create_task(store.load())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
        await store.delete()
        assert len(await client.client_list()) == 1  # our own connection


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path, "--appendonly", "yes", "--requirepass", PASSWORD) as server:
        yield server


def with_password(server: RedisServer, password: str = QUOTED) -> RedisStore:
    return RedisStore(server.url.replace("unix://", f"unix://:{password}@"), KEY)


@NEEDS_REDIS
async def test_a_token_outlives_redis(durable: RedisServer) -> None:
    """After a kill and a restart, Redis still has the token; the same store goes on."""
    store = with_password(durable)
    await store.save(token := make_token("kept", expires_at=4e9))
    assert await RedisStore(f"{durable.url}?password={QUOTED}", KEY).load() == token
    place = durable.url.removeprefix("unix://")
    for wrong in (with_password(durable, f"{CANARY}-wrong"), RedisStore(durable.url, KEY)):
        assert await refusal(wrong) == f"Redis at {place} cannot be used: AuthenticationError"
    durable.kill()
    assert (await refusal(store)).startswith(f"Redis at {place} cannot be used: ")
    durable.start()
    assert await store.load() == token
    await store.save(newer := make_token("newer"))
    assert await store.load() == newer


@NEEDS_REDIS
async def test_a_server_without_a_valid_certificate_gets_no_token(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """An unknown authority, another host's certificate and no TLS end before the token is sent."""
    make: Callable[[str], Path] = tmp_path_factory.mktemp
    ours, other = (Authority(make(name), name) for name in ("ours", "other"))
    port = free_port()
    certificate, key = ours.certify("127.0.0.1")
    options = [
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(ours.path)),
    ]
    place = f"127.0.0.1:{port}"
    with running(make("tls"), *options):
        store = RedisStore(f"rediss://{place}?ssl_ca_certs={ours.path}", KEY)
        await store.save(token := make_token("kept"))
        assert await store.load() == token
        for url, kind in [
            (f"rediss://{place}", "SSLCertVerificationError"),
            (f"rediss://{place}?ssl_ca_certs={other.path}", "SSLCertVerificationError"),
            (f"rediss://localhost:{port}?ssl_ca_certs={ours.path}", "SSLCertVerificationError"),
            (f"rediss://{place}?ssl_ca_certs={ours.path}.missing", "FileNotFoundError"),
            (f"redis://{place}", "Connection"),
        ]:
            text = await refusal(RedisStore(url, KEY))
            assert f" cannot be used: {kind}" in text


# --- who listens -------------------------------------------------------------------------------

NOBODY = 65534
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can be another user")

# Another user waits at a port for what comes.
THIEF = """
import encodings.idna, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.create_server((sys.argv[1], 0), family=int(sys.argv[2])) as thief:
    print(thief.getsockname()[1], flush=True)
    while True:
        print(thief.accept()[0].recv(1000), flush=True)
"""


@contextmanager
def thief(host: str = "127.0.0.1") -> Iterator[tuple[int, list[str]]]:
    """Yield the port, and at the end what came there."""
    came: list[str] = []
    family = str(int(socket.AF_INET6 if ":" in host else socket.AF_INET))
    command = [sys.executable, "-c", THIEF, host, family]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (port := int(process.stdout.readline())), came
            with socket.create_connection((host, port)) as last:
                last.sendall(b"the last")
                came.extend(iter(process.stdout.readline, "b'the last'\n"))
        finally:
            process.kill()


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
async def test_a_port_of_another_user_gets_nothing(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Neither the password nor the token, except to the user that Redis usually runs as."""
    at = "::1" if host == "[::1]" else "127.0.0.1"
    told = "belongs to another user (id 65534), who would get the token"
    with thief(at) as (port, came):
        assert told in await refusal(RedisStore(f"redis://:{CANARY}@{host}:{port}", KEY))
    assert came == []
    monkeypatch.setattr(services, "_ACCOUNTS", {"nobody"})
    with thief(at) as (port, came):
        store = RedisStore(f"redis://:{CANARY}@{host}:{port}", KEY)
        assert "cannot be used" in await refusal(store)
    assert CANARY in came[0]


async def test_who_comes_to_a_port_after_the_first_look_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is looked at before the connection, and again before the first byte."""
    looks, came = itertools.count(1), asyncio.Queue[bytes]()

    async def take(reader: asyncio.StreamReader, _: object) -> None:
        came.put_nowait(await reader.read())

    monkeypatch.setattr(services, "listener_of", lambda _: None if next(looks) % 2 else NOBODY)
    async with raw_server(take) as url:
        store = RedisStore(url.replace("http://", f"redis://:{CANARY}@"), KEY)
        assert "belongs to another user" in await refusal(store)
        assert [await came.get() for _ in range(3)] == [b""] * 3


SOCKETS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shared folder": (lambda path: path.parent.chmod(0o1777), "can be written by others"),
    "a group's folder": (lambda path: path.parent.chmod(0o770), "can be written by others"),
    "another's folder": (lambda path: os.chown(path.parent, NOBODY, -1), "the folder .* belongs"),
    "another's socket": (lambda path: os.chown(path, NOBODY, -1), "the socket .* belongs"),
    "of no account": (lambda path: os.chown(path, 54321, -1), "user .id 54321"),
    "a link": (lambda path: path.symlink_to(path.rename(path.with_name("x"))), "is not a socket"),
}  # fmt: skip


@needs_root
@pytest.mark.parametrize("kind", SOCKETS)
async def test_a_socket_that_others_can_replace_gets_nothing(tmp_path: Path, kind: str) -> None:
    change, told = SOCKETS[kind]
    came = list[object]()
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    place = folder / "redis.sock"
    async with await asyncio.start_unix_server(lambda *ends: came.append(ends), place):
        change(place)
        assert re.search(told, await refusal(RedisStore(f"unix://:{CANARY}@{place}", KEY)))
    assert came == []
