import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio as client

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import RedisStore, SharedTokenSource, Token, TokenKey
from gateway_sdk.auth.stores import _redis as redis_store
from gateway_sdk.auth.token import text_of
from tests.support.logins import KEY, Person, make_token
from tests.support.raw_server import raw_server
from tests.support.records import IN_A_STORE
from tests.support.redis_server import NEEDS_REDIS, RedisServer, refusal
from tests.support.secrecy import CANARY, logged, texts_of

NAME = f"gateway-sdk:token:{KEY.digest}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
async def store(server: RedisServer) -> RedisStore:
    async with connected(server) as redis:
        await redis.flushall()
    return RedisStore(server.url, KEY)


@pytest.fixture(autouse=True)
def _nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Search the log records of all libraries for tokens and passwords."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in logged(caplog.get_records("call"))


@asynccontextmanager
async def connected(server: RedisServer) -> AsyncIterator[Any]:
    async with client.Redis.from_url(server.url) as redis:
        yield redis


@NEEDS_REDIS
async def test_redis_keeps_the_last_token(server: RedisServer, store: RedisStore) -> None:
    """At first there is no token; then it is the last one saved, until it is deleted."""
    assert await store.load() is None
    await store.delete()

    for name in ("first", "second"):
        await store.save(token := make_token(name, expires_at=4e9))
        assert await store.load() == token
        async with connected(server) as redis:
            assert await redis.keys() == [NAME.encode()]
    await store.delete()

    assert await store.load() is None


@NEEDS_REDIS
async def test_each_key_has_an_entry_of_its_own(server: RedisServer, store: RedisStore) -> None:
    """Tokens for two gateways are stored beside each other."""
    other_key = TokenKey(KEY.authorization_url, KEY.client_id, "https://other.test")
    other = RedisStore(server.url, other_key)
    await store.save(make_token("mine"))

    assert await other.load() is None
    await other.delete()

    assert await store.load() is not None


@NEEDS_REDIS
async def test_redis_forgets_a_token_when_it_expires(
    server: RedisServer, store: RedisStore
) -> None:
    """The entry expires when the token does, to the millisecond."""
    end = time.time() + 3600.5

    await store.save(make_token("kept", expires_at=end))

    async with connected(server) as redis:
        assert await redis.pexpiretime(NAME) == int(end * 1000)
        assert 3_500_000 < await redis.pttl(NAME) <= 3_600_500


@NEEDS_REDIS
async def test_a_token_whose_end_is_not_known_is_kept(
    server: RedisServer, store: RedisStore
) -> None:
    """Its entry does not expire, and does not keep the expiry of the token before it."""
    await store.save(make_token("first", expires_at=time.time() + 3600))

    await store.save(make_token("second"))

    async with connected(server) as redis:
        assert await redis.pttl(NAME) == -1


@NEEDS_REDIS
async def test_an_expired_token_is_not_stored(store: RedisStore) -> None:
    """Saving an expired token leaves no entry."""
    await store.save(make_token("first"))

    await store.save(make_token("over", expires_at=time.time() - 10))

    assert await store.load() is None


@NEEDS_REDIS
@pytest.mark.parametrize("record", IN_A_STORE.values(), ids=IN_A_STORE)
async def test_a_broken_entry_is_an_error_that_does_not_show_it(
    server: RedisServer, store: RedisStore, record: bytes
) -> None:
    """A record without a valid token for this key is refused; saving another one repairs it."""
    async with connected(server) as redis:
        await redis.set(NAME, record)

    with pytest.raises(TokenStoreError, match=r"^Redis at .* has no valid token for") as caught:
        await store.load()
    await store.save(token := make_token("new"))

    assert CANARY not in texts_of(caught.value)
    assert await store.load() == token


@NEEDS_REDIS
async def test_an_entry_of_another_type_is_an_error(server: RedisServer, store: RedisStore) -> None:
    """The message about an entry of another type has only the type of the error."""
    async with connected(server) as redis:
        await redis.rpush(NAME, CANARY)

    with pytest.raises(TokenStoreError, match=r"cannot be used: \w*ResponseError$") as caught:
        await store.load()

    assert CANARY not in texts_of(caught.value)


@NEEDS_REDIS
async def test_two_workers_share_one_login(server: RedisServer, store: RedisStore) -> None:
    """A source finds the token of another one; after a refusal, one login serves both."""
    person, other_person = Person(), Person()
    one = SharedTokenSource(store, person)
    other = SharedTokenSource(RedisStore(server.url, KEY), other_person)

    first = await one.token()
    assert await other.token() == first
    second = await one.token(rejected=first)
    assert await other.token(rejected=first) == second

    assert text_of(second) == f"{CANARY}-2"
    assert (person.asked, other_person.asked) == (2, 0)


@NEEDS_REDIS
async def test_two_sources_at_once_agree_in_the_end(server: RedisServer, store: RedisStore) -> None:
    """Many renewals in two workers at the same time leave one token."""
    sources = [SharedTokenSource(RedisStore(server.url, KEY), Person()) for _ in range(2)]

    tokens = await asyncio.gather(
        *(source.token() for source in sources for _ in range(200)),
    )

    kept = await store.load()
    assert {text_of(token) for token in tokens} == {f"{CANARY}-1"}
    assert kept in tokens


@NEEDS_REDIS
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_store_serves_any_event_loop(server: RedisServer, side_by_side: bool) -> None:
    """It may be used in several event loops, one after the other or at the same time."""

    async def use() -> None:
        for _ in range(20):
            await store.save(make_token("kept"))
            loaded.append(await store.load())

    store = RedisStore(server.url, KEY)
    loaded: list[Token | None] = []
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
        if not side_by_side:
            thread.join()
    for thread in threads:
        thread.join()

    assert [text_of(token) for token in loaded if token] == [f"{CANARY}-kept"] * 40


@NEEDS_REDIS
async def test_no_connection_is_left_open(server: RedisServer, store: RedisStore) -> None:
    """Each operation closes its connection, also after an error."""
    async with connected(server) as redis:
        await redis.set(NAME, b"broken")
        for _ in range(20):
            with pytest.raises(TokenStoreError):
                await store.load()
            cancelled = asyncio.create_task(store.load())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
        await store.delete()

        clients = await redis.client_list()

    assert len(clients) == 1  # our own connection


@pytest.mark.parametrize("answers", [b"", b"+", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_redis_that_does_not_reply_is_an_error(
    monkeypatch: pytest.MonkeyPatch, answers: bytes
) -> None:
    """Silence, half a reply and a reply of another protocol end as an error within seconds."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers)
        await reader.read()  # until the client disconnects

    monkeypatch.setattr(redis_store, "_TIMEOUT", 0.05)
    async with raw_server(handle) as url:
        place = url.removeprefix("http://")
        store = RedisStore(f"redis://:{CANARY}@{place}", KEY)

        for use in (store.load(), store.save(make_token("new")), store.delete()):
            with pytest.raises(TokenStoreError, match=f"^Redis at {place} cannot be") as caught:
                await use
            assert CANARY not in texts_of(caught.value)


async def test_a_redis_that_disconnects_is_an_error() -> None:
    """The error about a connection that is closed at once names host and port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(handle) as url:
        text = await refusal(RedisStore(url.replace("http://", "redis://"), KEY))

    assert text.startswith(f"Redis at {url.removeprefix('http://')} cannot be used: ")
