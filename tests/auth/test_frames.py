"""Tracebacks that show variables, as Sentry's do, hold no token of a failed login or save."""

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from gateway_sdk import (
    AuthError,
    ConfigurationError,
    GatewayError,
    GatewaySession,
    MalformedResponseError,
    TokenStoreError,
)
from gateway_sdk.auth import LoopbackReceiver, PrivateFileStore, Token, login
from gateway_sdk.auth._stores.store import dump
from tests.auth.visits import FLOW, Surfer, join_threads
from tests.support.logins import KEY
from tests.support.secrecy import CANARY

BAD = f"access_token={CANARY}-token&token_type=mac&state=STATE"


async def log_in(_: Path) -> object:
    return await login(FLOW, browser=Surfer(BAD), show=str)


async def save(folder: Path) -> None:
    (folder / "in the way").write_text("")
    await PrivateFileStore(KEY, folder / "in the way").save(Token(f"{CANARY}-token"))


async def load(folder: Path) -> None:
    store = PrivateFileStore(KEY, folder)
    store.path.write_bytes(dump(Token(f"{CANARY}-token"), KEY).replace(b"client", b"other"))
    store.path.chmod(0o600)
    await store.load()


async def read_response(_: Path) -> object:
    attempt = FLOW.start("http://127.0.0.1:1/callback")
    response = BAD.replace("STATE", httpx.URL(attempt.url).params["state"])
    return FLOW.finish_url(attempt, f"{attempt.redirect_uri}#{response}", now=0.0)


async def make_token(_: Path) -> object:
    return Token(f"{CANARY}-token\n")


async def make_session(_: Path) -> object:
    return GatewaySession("https://gateway.test", access_token=f"{CANARY}-token\n")


async def make_session_with_another_fault(_: Path) -> object:
    return GatewaySession("https://gateway.test", access_token=f"{CANARY}-token", timeout=0)


async def make_session_from_env(_: Path) -> object:
    return GatewaySession.from_env(base_url="https://g.test", access_token=f"{CANARY}-token\n")


async def make_view(_: Path) -> object:
    return SESSION.with_options(access_token=f"{CANARY}-token\n")


async def call(_: Path) -> object:
    async def give() -> str:
        return f"{CANARY}-token\n"

    return await SESSION.with_options(access_token=give).country_data.list_countries()


SESSION = GatewaySession("https://gateway.test", access_token="x")


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        *((log_in, MalformedResponseError), (read_response, MalformedResponseError)),
        *((save, TokenStoreError), (load, TokenStoreError)),
        *((make_token, ConfigurationError), (make_session, ConfigurationError)),
        *((make_session_with_another_fault, ConfigurationError), (make_view, ConfigurationError)),
        *((make_session_from_env, ConfigurationError), (call, AuthError)),
    ],
)
async def test_no_frame_of_ours_holds_the_token(
    work: Callable[[Path], Awaitable[object]], kind: type[GatewayError], tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        await work(tmp_path)
    join_threads()
    assert caught.tb.tb_next
    ours = caught.tb.tb_next.tb_next  # without the frames of the test
    shown = traceback.TracebackException(kind, caught.value, ours, capture_locals=True)
    assert f"{CANARY}-token" not in "".join(shown.format())
    assert LoopbackReceiver.receive.__name__ == "receive"
