import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import RedisStore, SharedTokenSource
from gateway_sdk.auth.token import text_of
from tests.support.certificates import Authority
from tests.support.logins import KEY, Person, make_token
from tests.support.ports import free_port
from tests.support.redis_server import NEEDS_REDIS, RedisServer, refusal
from tests.support.secrecy import CANARY, logged

pytestmark = NEEDS_REDIS

PASSWORD = f"{CANARY}-p@ss/word"
QUOTED = PASSWORD.replace("@", "%40").replace("/", "%2F")


@pytest.fixture(autouse=True)
def _nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Search the log records of all libraries for tokens and passwords."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in logged(caplog.get_records("call"))


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[RedisServer]:
    """Provide a Redis that keeps its data over a restart, and requires a password."""
    server = RedisServer(tmp_path, "--appendonly", "yes", "--requirepass", PASSWORD)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Provide a certificate authority for a Redis with TLS."""
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide host and port of a Redis with TLS."""
    port = free_port()
    certificate, key = authority.certify("127.0.0.1")
    server = RedisServer(
        tmp_path_factory.mktemp("tls"),
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(authority.path)),
    )
    try:
        server.start()
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()


def with_password(server: RedisServer, password: str = QUOTED) -> RedisStore:
    return RedisStore(server.url.replace("unix://", f"unix://:{password}@"), KEY)


@pytest.mark.parametrize("in_query", [False, True])
async def test_a_password_is_used(durable: RedisServer, in_query: bool) -> None:
    """It may be before the @ or in the query, and is not shown."""
    store = with_password(durable)
    if in_query:
        store = RedisStore(f"{durable.url}?password={QUOTED}", KEY)

    await store.save(token := make_token("kept", expires_at=4e9))

    assert await store.load() == token
    assert CANARY not in repr(store)


@pytest.mark.parametrize("wrong", [f"{CANARY}-wrong", ""])
async def test_a_wrong_password_is_an_error(durable: RedisServer, wrong: str) -> None:
    """With another password, or with none, the store is neither read nor written."""
    store = with_password(durable, wrong) if wrong else RedisStore(durable.url, KEY)

    text = await refusal(store)

    place = durable.url.removeprefix("unix://")
    assert text == f"Redis at {place} cannot be used: AuthenticationError"


async def test_a_token_outlives_redis(durable: RedisServer) -> None:
    """After a kill and a restart, Redis still has the token; the same store goes on."""
    store = with_password(durable)
    await store.save(token := make_token("kept", expires_at=4e9))

    durable.kill()
    text = await refusal(store)
    durable.start()

    assert text.startswith(f"Redis at {durable.url.removeprefix('unix://')} cannot be used: ")
    assert await store.load() == token
    await store.save(newer := make_token("newer"))
    assert await store.load() == newer


async def test_workers_outlive_redis(
    durable: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While Redis is down, tokens in memory are used; later the workers go on without a restart."""
    person = Person()
    source = SharedTokenSource(with_password(durable), person)
    headless = SharedTokenSource(with_password(durable))
    first = await source.token()
    assert await headless.token() == first

    durable.kill()
    storm = await asyncio.gather(*(source.token() for _ in range(100)), headless.token())
    assert set(storm) == {first}
    with pytest.raises(TokenStoreError, match="cannot be used"):
        await source.token(rejected=first)
    assert person.asked == 1
    durable.start()
    second = await source.token(rejected=first)

    assert text_of(second) == f"{CANARY}-2"
    assert await headless.token(rejected=first) == second
    assert caplog.get_records("call") == [
        record for record in caplog.get_records("call") if record.levelno < logging.WARNING
    ]


async def test_a_login_while_redis_goes_away_keeps_its_token(
    durable: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The new token is used, and a warning names the Redis that did not store it."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(with_password(durable), person)
    asking = asyncio.create_task(source.token())
    await person.started.wait()

    durable.kill()
    person.may_finish.set()
    token = await asking

    assert await source.token() is token
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "Redis at " in warning.getMessage()


async def test_tls_keeps_the_token_safe(tls: str, authority: Authority) -> None:
    """A Redis whose certificate comes from the given authority is used."""
    store = RedisStore(f"rediss://{tls}?ssl_ca_certs={authority.path}", KEY)

    await store.save(token := make_token("kept"))

    assert await store.load() == token
    assert repr(store).startswith(f"<RedisStore {tls} ")


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("rediss://{tls}", "SSLCertVerificationError"),
        ("rediss://{tls}?ssl_ca_certs={other}", "SSLCertVerificationError"),
        ("rediss://{named}?ssl_ca_certs={ours}", "SSLCertVerificationError"),
        ("rediss://{tls}?ssl_ca_certs={missing}", "FileNotFoundError"),
        ("redis://{tls}", "Connection"),
    ],
)
async def test_a_server_without_a_valid_certificate_gets_no_token(
    tls: str, authority: Authority, tmp_path: Path, address: str, kind: str
) -> None:
    """An unknown authority, another host's certificate and no TLS end before the token is sent."""
    url = address.format(
        tls=tls,
        named=tls.replace("127.0.0.1", "localhost"),
        ours=authority.path,
        other=Authority(tmp_path, "other").path,
        missing=tmp_path / "missing.pem",
    )

    text = await refusal(RedisStore(url, KEY))

    assert text.startswith(f"Redis at {httpx.URL(url).netloc.decode()} cannot be used: {kind}")
