import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keyring
import keyring.backend
import keyring.backends.chainer
import keyring.backends.fail
import keyring.backends.null
import keyring.errors
import pytest

from gateway_sdk import MissingExtraError, TokenStoreError
from gateway_sdk.auth import KeyringStore, SharedTokenSource, TokenKey
from tests.support.logins import KEY, Person, make_token
from tests.support.records import IN_A_STORE
from tests.support.secrecy import CANARY, logged, texts_of


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory, which records the threads that use it, and fails on request."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.threads: set[int] = set()
        self.error: Exception | None = None

    def _use(self) -> None:
        self.threads.add(threading.get_ident())
        if self.error:
            raise self.error

    def get_password(self, service: str, username: str) -> str | None:
        self._use()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._use()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._use()
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError


class PlaintextKeyring(Ring):
    """A keyring with the name and the methods of a plain-text one."""


@pytest.fixture(autouse=True)
def _as_it_was(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Restore the keyring of this process, and search the log records for tokens."""
    caplog.set_level(logging.DEBUG)
    before = keyring.get_keyring()
    yield
    keyring.set_keyring(before)
    assert CANARY not in logged(caplog.get_records("call"))


@pytest.fixture
def ring() -> Ring:
    """Provide a keyring in memory as the keyring of this process."""
    ring = Ring()
    keyring.set_keyring(ring)
    return ring


USES: dict[str, Callable[[KeyringStore], Any]] = {
    "load": lambda store: store.load(),
    "save": lambda store: store.save(make_token("new")),
    "delete": lambda store: store.delete(),
}


@pytest.fixture(params=USES.values(), ids=list(USES))
def use(request: pytest.FixtureRequest) -> Callable[[KeyringStore], Any]:
    use: Callable[[KeyringStore], Any] = request.param
    return use


async def refusal(use: Callable[[KeyringStore], Any]) -> str:
    """Return the error of an operation of a store, after searching it for the token."""
    with pytest.raises(TokenStoreError) as caught:
        await use(KeyringStore(KEY))
    assert CANARY not in texts_of(caught.value)
    return str(caught.value)


async def test_a_keyring_keeps_the_last_token(ring: Ring) -> None:
    """At first there is no token; then it is the last one saved, until it is deleted."""
    store = KeyringStore(KEY)
    assert await store.load() is None
    await store.delete()

    for name in ("first", "second"):
        await store.save(token := make_token(name, expires_at=4e9))
        assert await store.load() == token
        assert list(ring.kept) == [("gateway-sdk", KEY.digest)]
    await store.delete()

    assert await store.load() is None
    assert ring.kept == {}


async def test_a_token_that_another_process_deletes_first_is_deleted(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two logouts at a time: both succeed. A keyring that does not delete is an error."""
    store = KeyringStore(KEY)
    delete = ring.delete_password

    def after_another(service: str, username: str) -> None:
        delete(service, username)
        delete(service, username)

    await store.save(make_token("kept"))
    monkeypatch.setattr(ring, "delete_password", after_another)
    await store.delete()
    assert ring.kept == {}

    def never(service: str, username: str) -> None:
        raise keyring.errors.PasswordDeleteError

    await store.save(make_token("kept"))
    monkeypatch.setattr(ring, "delete_password", never)
    assert "cannot be used here: PasswordDeleteError" in await refusal(USES["delete"])


@pytest.mark.usefixtures("ring")
async def test_each_key_has_an_entry_of_its_own() -> None:
    """Tokens for two gateways are stored beside each other."""
    other = KeyringStore(TokenKey(KEY.authorization_url, KEY.client_id, "https://other.test"))
    await KeyringStore(KEY).save(make_token("mine"))

    assert await other.load() is None
    await other.delete()

    assert await KeyringStore(KEY).load() is not None


async def test_a_keyring_is_not_used_in_the_event_loop(
    ring: Ring, use: Callable[[KeyringStore], Any]
) -> None:
    """A keyring may ask its user to unlock it, so it is used in other threads."""
    await use(KeyringStore(KEY))

    assert ring.threads
    assert threading.get_ident() not in ring.threads


async def test_a_missing_keyring_is_an_error(use: Callable[[KeyringStore], Any]) -> None:
    """The token is not stored elsewhere, such as in a plain file."""
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]

    assert await refusal(use) == "the keyring cannot be used here: NoKeyringError"


async def test_a_keyring_that_is_switched_off_keeps_nothing(
    use: Callable[[KeyringStore], Any],
) -> None:
    """A backend that accepts everything and stores nothing is refused."""
    keyring.set_keyring(keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]

    assert "is switched off" in await refusal(use)


def chain(monkeypatch: pytest.MonkeyPatch, *rings: Ring) -> None:
    """Let keyring use these one after the other, as it does if several are installed."""
    monkeypatch.setattr(keyring.backend, "get_all_keyring", lambda: list(rings))
    keyring.set_keyring(keyring.backends.chainer.ChainerBackend())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("chained", [False, True])
async def test_a_plain_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[KeyringStore], Any], chained: bool
) -> None:
    plain = PlaintextKeyring()
    if chained:
        chain(monkeypatch, plain)
    else:
        keyring.set_keyring(plain)

    assert "is a plain file" in await refusal(use)
    assert plain.threads == set()


async def test_a_chain_without_keyrings_is_refused(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[KeyringStore], Any]
) -> None:
    chain(monkeypatch)

    assert "has no backend" in await refusal(use)


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_keyring_beside_a_plain_file_is_used(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """keyrings.alt adds a plain file to the chain, which must get nothing."""
    ring, second, plain = Ring(), Ring(), PlaintextKeyring()
    chain(monkeypatch, *((ring, plain, second) if is_first else (plain, ring, second)))

    await KeyringStore(KEY).save(token := make_token("kept"))

    assert await KeyringStore(KEY).load() == token
    assert list(ring.kept) == [("gateway-sdk", KEY.digest)]
    await KeyringStore(KEY).delete()
    assert ring.kept == second.kept == plain.kept == {}
    assert plain.threads == set()


@pytest.mark.parametrize(
    "error",
    [
        keyring.errors.KeyringLocked(CANARY),
        keyring.errors.PasswordSetError(CANARY),
        keyring.errors.InitError(CANARY),
        OSError(CANARY),
        LookupError(CANARY),
    ],
)
async def test_any_error_of_a_keyring_is_a_store_error(
    ring: Ring, use: Callable[[KeyringStore], Any], error: Exception
) -> None:
    """The message about a locked or broken keyring has only the type of its error."""
    ring.error = error

    assert await refusal(use) == f"the keyring cannot be used here: {type(error).__name__}"


@pytest.mark.parametrize("kind", [kind for kind in IN_A_STORE if IN_A_STORE[kind].isascii()])
async def test_a_broken_entry_is_an_error_that_does_not_show_it(ring: Ring, kind: str) -> None:
    """A record without a valid token for this key is refused; saving another one repairs it."""
    ring.kept["gateway-sdk", KEY.digest] = IN_A_STORE[kind].decode()

    assert (await refusal(USES["load"])).startswith("the keyring has no valid token for")
    await KeyringStore(KEY).save(token := make_token("new"))

    assert await KeyringStore(KEY).load() == token


async def test_a_locked_keyring_does_not_stop_a_process_that_has_a_token(ring: Ring) -> None:
    """The token in memory is used; only a call that needs another token fails."""
    store, person = KeyringStore(KEY), Person()
    source = SharedTokenSource(store, person)
    token = await source.token()
    ring.error = keyring.errors.KeyringLocked()

    assert await source.token() is token
    with pytest.raises(TokenStoreError, match="KeyringLocked"):
        await source.token(rejected=token)

    assert person.asked == 1


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot work is not created."""
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[keyring\]'"):
        KeyringStore(KEY)


def test_a_store_shows_its_entry(ring: Ring) -> None:
    """The repr says where a user finds the entry; creating the store does not use the keyring."""
    assert repr(KeyringStore(KEY)) == f"<KeyringStore gateway-sdk/{KEY.digest}>"
    assert ring.threads == set()
