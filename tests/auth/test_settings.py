"""The settings of a login: the key that its token is kept under, the store, and from_env."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway_sdk import ConfigurationError, GatewaySession, LoginRequiredError
from gateway_sdk.auth import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    SharedTokenSource,
    TokenKey,
    open_store,
)
from gateway_sdk.session import ENVIRONMENT, EnvironmentSettings, token_store
from tests.support.calls import CALLS
from tests.support.logins import KEY, make_token
from tests.support.scripted import ScriptedEngine
from tests.support.secrecy import CANARY, texts_of

LOGIN = {
    "GATEWAY_BASE_URL": "HTTPS://GATEWAY.test:443/below",
    "GATEWAY_AUTH_URL": "https://login.test/authorize",
    "GATEWAY_CLIENT_ID": "client-1",
}


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Provide an environment with the settings of a login, and an empty folder for its state."""
    for variable in ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)
    folders = dict.fromkeys(("XDG_STATE_HOME", "WIN_PD_OVERRIDE_LOCAL_APPDATA"), str(tmp_path))
    for name, value in {**LOGIN, **folders}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


async def sent_by(**overrides: Any) -> str:
    engine = ScriptedEngine([httpx.Response(200, json={})])
    async with GatewaySession.from_env(transport=engine, **overrides) as gateway:
        await CALLS["order_history"](gateway)
    return engine.requests[0].headers["Authorization"]


def store_of(gateway: GatewaySession) -> Any:
    source = gateway._caller.options.access_token
    assert isinstance(source, SharedTokenSource)
    return source._store


def test_each_key_has_a_name_of_its_own() -> None:
    """Keys that differ in any part, or in the border between parts, have different digests."""
    parts = [
        ("https://login.test/authorize2", "client-1", "https://gateway.test"),
        ("https://login.test/authorize", "client-2", "https://gateway.test"),
        ("https://login.test/authorize", "client-1", "https://gateway.test:8443"),
        ("https://login.test/authorizeclient-1", "", "https://gateway.test"),
        ("https://login.test/authorize", 'client-1", "https://gateway.test', ""),
    ]
    digests = {TokenKey(*part).digest for part in parts}
    assert len(digests) == len(parts)
    assert all(len(digest) == 32 and digest.isalnum() for digest in digests)
    assert KEY.digest == "87966c78730b321c5edcd81e1c3388e3"  # after an update, too


@pytest.mark.parametrize("part", range(3))
def test_a_key_needs_valid_urls(part: int) -> None:
    named = ("authorization_url", "client_id", "base_url")[part]
    wrong: list[Any] = [None, "", 7]
    # A line end is of a file from which it was read; no token would ever be found under its key.
    wrong += (
        ["client-1\n", " client-1", "client-1 ", "cli\nent", "clïent"]
        if part == 1
        else ["login.test", "{auth_url}", b"https://login.test", "https://login.test\n"]
    )
    for value in wrong:
        given: list[Any] = ["https://login.test", "client-1", "https://gateway.test"]
        given[part] = value
        with pytest.raises(ConfigurationError, match=f"^{named} "):
            TokenKey.of(*given)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("", PrivateFileStore),
        ("file:", PrivateFileStore),
        pytest.param("file:/srv/a:b", PrivateFileStore, marks=pytest.mark.posix),
        ("keyring", KeyringStore),
        ("redis://127.0.0.1:7000", RedisStore),
        ("rediss://redis.test:7000/3", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
    ],
)
def test_login_and_session_agree_on_the_store(
    environment: pytest.MonkeyPatch, tmp_path: Path, setting: str, kind: type
) -> None:
    """The same settings, from the environment or as arguments, lead to the same store."""
    environment.setenv("GATEWAY_TOKEN_STORE", setting)
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
        open_store(setting or None, KEY),
    ]
    assert {type(store) for store in stores} == {kind}
    assert len({repr(store) for store in stores}) == 1
    assert {store.key for store in stores} == {KEY}
    if kind is PrivateFileStore:
        default = tmp_path / "gateway-sdk" / "tokens"
        folder = Path("/srv/a:b") if "srv" in setting else default
        assert {store.path for store in stores} == {folder / f"{KEY.digest}.json"}


@pytest.mark.parametrize("setting", [None, "file:~nobody-4711/tokens"])
def test_a_missing_home_folder_is_an_error(
    monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    """A container may have a user without an entry; the error says what to set."""

    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigurationError, match="set HOME, or set a folder"):
        open_store(setting, KEY)


@pytest.mark.parametrize(
    "setting",
    [
        *("memory", "FILE", " file", "keyring:login", "~/tokens", "/srv/tokens"),
        *("file:tokens", "file:./tokens", "file: "),  # another folder for each current folder
        "file:/srv/tokens\n",
        *("https://redis.test", f"redis.test:6379:{CANARY}", f"ada:{CANARY}@redis.test"),
        *(7, b"file", MemoryStore()),
    ],
)
def test_an_unknown_store_is_refused_and_not_repeated(setting: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^GATEWAY_TOKEN_STORE must be file, .* absolute folder"
    ) as caught:
        open_store(setting, KEY)
    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("variable", "overrides", "sent"),
    [
        ("", {}, f"Bearer {CANARY}-kept"),
        ("env", {}, "Bearer env"),
        ("env", {"access_token": "given"}, "Bearer given"),
        (None, {"access_token": SecretStr("given")}, "Bearer given"),
    ],
)
async def test_a_token_that_is_given_goes_before_that_of_a_login(
    environment: pytest.MonkeyPatch, variable: str | None, overrides: dict[str, Any], sent: str
) -> None:
    """The argument comes first, then the variable, then the login; an empty variable is ignored."""
    if variable is not None:
        environment.setenv("GATEWAY_ACCESS_TOKEN", variable)
    await open_store(None, KEY).save(make_token("kept"))
    assert await sent_by(**overrides) == sent


@pytest.mark.parametrize(
    ("changes", "overrides", "told"),
    [
        (
            {"GATEWAY_AUTH_URL": "", "GATEWAY_CLIENT_ID": ""},
            {},
            "GATEWAY_ACCESS_TOKEN .* GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID, .*`gateway login`",
        ),
        *(
            ({variable: ""}, overrides, told)
            for name, variable in ENVIRONMENT.items()
            if variable in LOGIN
            for overrides, told in (
                ({}, f"{variable} is not set, and no {name}= was given"),
                ({name: None}, f"{name} must not be None$"),
            )
        ),
        ({"GATEWAY_AUTH_URL": f"https://ada:{CANARY}@login.test"}, {}, "auth_url "),
        ({"GATEWAY_BASE_URL": "http://gateway.test"}, {}, "base_url "),
        ({"GATEWAY_TOKEN_STORE": f"redis://:{CANARY}@redis.test"}, {}, "the URL of Redis "),
    ],
)
def test_what_is_missing_or_wrong_for_a_login_is_named(
    environment: pytest.MonkeyPatch, changes: dict[str, str], overrides: Any, told: str
) -> None:
    """Already when the session is made, and without the value; empty and None are missing."""
    for variable, text in changes.items():
        environment.setenv(variable, text)
    with pytest.raises(ConfigurationError, match=f"^{told}") as caught:
        GatewaySession.from_env(**overrides)
    assert CANARY not in texts_of(caught.value)


async def test_making_a_session_opens_no_login(tmp_path: Path) -> None:
    """Nothing is read or created until a call needs a token; then the error names the command."""
    GatewaySession.from_env()
    with pytest.raises(LoginRequiredError, match="`gateway login`"):
        await sent_by()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - an empty folder
