import copy
import pickle
import sys
from typing import Any

import pytest
import redis.asyncio

from gateway_sdk import ConfigurationError, MissingExtraError, TokenStoreError
from gateway_sdk.auth import RedisStore
from tests.support.logins import KEY
from tests.support.secrecy import CANARY, texts_of

NAME = f"gateway-sdk:token:{KEY.digest}"


def test_a_store_shows_only_its_place_and_is_not_pickled() -> None:
    """Neither the password nor the user name is in its repr, and it cannot be pickled."""
    store = RedisStore(f"rediss://ada:{CANARY}@redis.test:7000/3?password={CANARY}", KEY)

    assert repr(store) == f"<RedisStore redis.test:7000 {NAME}>"
    for save in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            save(store)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("rediss://redis.test", "redis.test:6379"),
        ("rediss://redis.test:7000/3?ssl_ca_certs=ca.pem", "redis.test:7000"),
        ("redis://127.0.0.1", "127.0.0.1:6379"),
        ("redis://127.7.7.7:7000?db=3", "127.7.7.7:7000"),
        ("redis://[::1]:7000", "::1:7000"),
        ("redis://localhost", "localhost:6379"),
        ("redis://", "localhost:6379"),
        (f"redis://ada:{CANARY}@localhost", "localhost:6379"),
        (f"unix://ada:{CANARY}@/run/redis.sock", "/run/redis.sock"),
        ("unix:///run/redis.sock?db=3&password=pw", "/run/redis.sock"),
    ],
)
def test_a_safe_url_is_accepted(url: str, place: str) -> None:
    """TLS, a Unix socket, or this machine; the repr shows host and port or path."""
    assert repr(RedisStore(url, KEY)) == f"<RedisStore {place} {NAME}>"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"redis://ada:{CANARY}@redis.test", "would be sent unencrypted"),
        (f"redis://localhost:{CANARY}@redis.test", "would be sent unencrypted"),
        ("redis://localhost.redis.test", "would be sent unencrypted"),
        ("redis://127.0.0.1.redis.test", "would be sent unencrypted"),
        ("redis://10.0.0.1", "would be sent unencrypted"),
        ("redis://0.0.0.0", "would be sent unencrypted"),
        (f"https://:{CANARY}@redis.test", "must be rediss"),
        (f"http://:{CANARY}@localhost", "must be rediss"),
        ("", "must be rediss"),
        ("localhost:6379", "must be rediss"),
        (CANARY, "must be rediss"),
        (b"redis://localhost", "must be a string"),
        ("redis:localhost", "must be rediss"),
        ("redis:/localhost", "must be rediss"),
        ("unix:/run/redis.sock", "must be rediss"),
        ("unix://", "must be rediss"),
        ("unix://run", "must be rediss"),
        (f"redis://:{CANARY}@localhost:99999", "is invalid"),
        ("redis://localhost:port", "is invalid"),
        (f"redis://:1234/{CANARY}@localhost", "write a / in a password as %2F"),
        (f"rediss://redis.test:1234/{CANARY}@localhost", "write a / in a password as %2F"),
        ("redis://localhost/0x", "can have only the number of a database"),
        ("rediss://[::1", "is invalid"),
        (None, "must be a string"),
        (7, "must be a string"),
        (["redis://localhost"], "must be a string"),
        ("rediss://redis.test?ssl_cert_reqs=none", "can have only"),
        ("rediss://redis.test?ssl_cert_reqs=", "can have only"),
        ("rediss://redis.test?ssl_check_hostname=false", "can have only"),
        ("redis://localhost?host=redis.test", "can have only"),
        ("redis://localhost?socket_timeout=0", "can have only"),
        (f"rediss://redis.test?{CANARY}=1", "can have only"),
        ("redis://localhost?ssl_ca_certs=ca.pem", "can have only db, password in its query"),
        ("unix:///run/redis.sock?ssl_keyfile=key.pem", "can have only db, password in its query"),
    ],
)
def test_an_unsafe_url_is_refused(url: Any, told: str) -> None:
    """No token is sent unencrypted, and no certificate check is off; the URL is not shown."""
    with pytest.raises(ConfigurationError, match=f"^the URL of Redis .*{told}") as caught:
        RedisStore(url, KEY)

    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize("scheme", ["rediss", "REDISS"])
async def test_the_certificate_is_checked(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of redis-py check the name in it only if they are told to."""
    told: dict[str, Any] = {}

    def refuse(url: str, **options: Any) -> None:
        told.update(options)
        raise ConnectionRefusedError

    monkeypatch.setattr(redis.asyncio, "from_url", refuse)
    with pytest.raises(TokenStoreError, match="ConnectionRefusedError"):
        await RedisStore(f"{scheme}://redis.test", KEY).load()

    assert (told["ssl_cert_reqs"], told["ssl_check_hostname"]) == ("required", True)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot work is not created."""
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[redis\]'"):
        RedisStore("redis://localhost", KEY)
