from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway_sdk import ConfigurationError, GatewaySession, LoginRequiredError
from gateway_sdk._settings import ENVIRONMENT, EnvironmentSettings, token_store
from gateway_sdk.auth import (
    KeyringStore,
    PrivateFileStore,
    RedisStore,
    SharedTokenSource,
    TokenKey,
    open_store,
)
from tests.support.calls import CALLS
from tests.support.logins import make_token
from tests.support.scripted import ScriptedEngine
from tests.support.secrecy import CANARY, texts_of

BASE_URL = {"GATEWAY_BASE_URL": "https://gateway.test/below"}
LOGIN = {
    **BASE_URL,
    "GATEWAY_AUTH_URL": "https://login.test/authorize",
    "GATEWAY_CLIENT_ID": "client-1",
}
KEY = TokenKey.of("https://login.test/authorize", "client-1", "https://gateway.test/below")


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder for this user's program state, in an environment without settings."""
    for variable in ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def set_all(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def sent_by(**overrides: Any) -> str:
    """Return the Authorization header of a session with the environment's settings."""
    engine = ScriptedEngine([httpx.Response(200, json={})])
    async with GatewaySession.from_env(transport=engine, **overrides) as gateway:
        await CALLS["order_history"](gateway)
    return engine.requests[0].headers["Authorization"]


def store_of(gateway: GatewaySession) -> Any:
    source = gateway._caller.options.access_token
    assert isinstance(source, SharedTokenSource)
    return source._store


async def test_the_token_of_a_login_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was stored under the same settings is sent."""
    set_all(monkeypatch, LOGIN)
    await open_store(None, KEY).save(make_token("kept"))

    assert await sent_by() == f"Bearer {CANARY}-kept"


@pytest.mark.parametrize(
    ("environment", "overrides", "sent"),
    [
        ({"GATEWAY_ACCESS_TOKEN": "env"}, {}, "Bearer env"),
        ({"GATEWAY_ACCESS_TOKEN": "env"}, {"access_token": "given"}, "Bearer given"),
        ({}, {"access_token": SecretStr("given")}, "Bearer given"),
        ({"GATEWAY_ACCESS_TOKEN": ""}, {}, f"Bearer {CANARY}-kept"),
        ({"GATEWAY_ACCESS_TOKEN": "env"}, {"client_id": "client-1"}, "Bearer env"),
    ],
)
async def test_a_token_that_is_given_goes_before_that_of_a_login(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    overrides: dict[str, Any],
    sent: str,
) -> None:
    """The argument comes first, then the variable, then the login; an empty variable is ignored."""
    set_all(monkeypatch, {**LOGIN, **environment})
    await open_store(None, KEY).save(make_token("kept"))

    assert await sent_by(**overrides) == sent


def test_a_missing_token_is_an_error_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names all settings that could be added."""
    set_all(monkeypatch, BASE_URL)

    with pytest.raises(ConfigurationError) as caught:
        GatewaySession.from_env()

    for name in ("GATEWAY_ACCESS_TOKEN", "GATEWAY_AUTH_URL", "GATEWAY_CLIENT_ID", "gateway login"):
        assert name in str(caught.value)


@pytest.mark.parametrize("missing", LOGIN)
@pytest.mark.parametrize("empty", [False, True])
def test_what_is_missing_for_a_login_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str, empty: bool
) -> None:
    """Each missing or empty variable is named, with the argument that can replace it."""
    set_all(monkeypatch, LOGIN)
    if empty:
        monkeypatch.setenv(missing, "")
    else:
        monkeypatch.delenv(missing)
    argument = {variable: name for name, variable in ENVIRONMENT.items()}[missing]

    with pytest.raises(
        ConfigurationError, match=f"^{missing} is not set, and no {argument}= was given$"
    ):
        GatewaySession.from_env()


@pytest.mark.parametrize("name", ["auth_url", "client_id"])
def test_an_argument_that_is_none_is_missing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The message names the argument that was given as None, and not one of another class."""
    set_all(monkeypatch, BASE_URL)
    given: Any = {"auth_url": "https://login.test", "client_id": "client", name: None}

    with pytest.raises(ConfigurationError, match=f"no {name}= was given$"):
        GatewaySession.from_env(**given)


@pytest.mark.parametrize(
    ("variable", "wrong", "named"),
    [
        ("GATEWAY_AUTH_URL", "login.test", "auth_url"),
        ("GATEWAY_AUTH_URL", "https://{host}/authorize", "auth_url"),
        ("GATEWAY_AUTH_URL", f"https://ada:{CANARY}@login.test", "auth_url"),
        ("GATEWAY_BASE_URL", "gateway.test", "base_url"),
        ("GATEWAY_BASE_URL", "http://gateway.test", "base_url"),
        ("GATEWAY_TOKEN_STORE", "nonsense", "GATEWAY_TOKEN_STORE"),
        ("GATEWAY_TOKEN_STORE", f"ada:{CANARY}@redis.test", "GATEWAY_TOKEN_STORE"),
        ("GATEWAY_TOKEN_STORE", f"redis://:{CANARY}@redis.test", "the URL of Redis"),
    ],
)
def test_what_is_wrong_for_a_login_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, wrong: str, named: str
) -> None:
    """An invalid value is an error when the session is made, and is not shown."""
    set_all(monkeypatch, {**LOGIN, variable: wrong})

    with pytest.raises(ConfigurationError, match=f"^{named} ") as caught:
        GatewaySession.from_env()

    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("", PrivateFileStore),
        ("file", PrivateFileStore),
        ("file:/srv/tokens", PrivateFileStore),
        ("keyring", KeyringStore),
        ("redis://127.0.0.1:7000", RedisStore),
        ("rediss://redis.test", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
    ],
)
def test_login_and_session_agree_on_the_store(
    monkeypatch: pytest.MonkeyPatch, setting: str, kind: type
) -> None:
    """The same settings, from the environment or as arguments, lead to the same file."""
    set_all(monkeypatch, {**LOGIN, "GATEWAY_TOKEN_STORE": setting})
    settings: EnvironmentSettings = {
        "base_url": LOGIN["GATEWAY_BASE_URL"],
        "auth_url": LOGIN["GATEWAY_AUTH_URL"],
        "client_id": LOGIN["GATEWAY_CLIENT_ID"],
        **({"token_store": setting} if setting else {}),
    }

    stores = [
        store_of(GatewaySession.from_env()),
        store_of(GatewaySession.from_env(**settings)),
        token_store(settings),
        open_store(setting, KEY),
    ]

    assert {type(store) for store in stores} == {kind}
    assert len({repr(store) for store in stores}) == 1
    assert {store.key for store in stores} == {KEY}


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (
            {"auth_url": "https://other.test/authorize"},
            TokenKey("https://other.test/authorize", "client-1", "https://gateway.test"),
        ),
        (
            {"client_id": "client-2"},
            TokenKey("https://login.test/authorize", "client-2", "https://gateway.test"),
        ),
        (
            {"base_url": "https://other.test"},
            TokenKey("https://login.test/authorize", "client-1", "https://other.test"),
        ),
    ],
)
def test_arguments_go_before_variables(
    monkeypatch: pytest.MonkeyPatch, overrides: EnvironmentSettings, key: TokenKey
) -> None:
    """An argument replaces the variable in the key of the store."""
    set_all(monkeypatch, LOGIN)

    assert store_of(GatewaySession.from_env(**overrides)).key == key


def test_another_store_may_be_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A store setting that is given replaces the variable."""
    set_all(monkeypatch, {**LOGIN, "GATEWAY_TOKEN_STORE": "keyring"})

    store = store_of(GatewaySession.from_env(token_store=f"file:{tmp_path}"))

    assert store.path == tmp_path / f"{KEY.digest}.json"


@pytest.mark.parametrize("given", [7, b"file", ["file"], None])
def test_a_store_of_another_type_is_refused_or_the_default(
    monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """None means the default, and any other type than a string is an error."""
    set_all(monkeypatch, {**LOGIN, "GATEWAY_TOKEN_STORE": "keyring"})

    if given is None:
        assert isinstance(store_of(GatewaySession.from_env(token_store=None)), PrivateFileStore)
        return
    with pytest.raises(ConfigurationError, match=r"^GATEWAY_TOKEN_STORE must be"):
        GatewaySession.from_env(token_store=given)


async def test_making_a_session_opens_no_login(
    monkeypatch: pytest.MonkeyPatch, state_folder: Path
) -> None:
    """Nothing is read or created until a call needs a token; then the error names the command."""
    set_all(monkeypatch, LOGIN)

    GatewaySession.from_env()
    with pytest.raises(LoginRequiredError, match="`gateway login`"):
        await sent_by()

    assert list(state_folder.iterdir()) == []  # noqa: ASYNC240 - an empty folder
