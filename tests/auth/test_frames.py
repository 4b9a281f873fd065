"""Tracebacks that show variables, as Sentry's do, hold no token of what failed in the SDK."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
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

SECRET = f"{CANARY}-token"
BAD = f"access_token={SECRET}&token_type=mac&state=STATE"
WRONG = f"{SECRET}\n"
SESSION = GatewaySession("https://gateway.test", access_token="x")


def save(folder: Path) -> Any:
    (folder / "in the way").write_text("")
    return PrivateFileStore(KEY, folder / "in the way").save(Token(SECRET))


def load(folder: Path) -> Any:
    store = PrivateFileStore(KEY, folder)
    store.path.write_bytes(dump(Token(SECRET), KEY).replace(b"client", b"other"))
    store.path.chmod(0o600)
    return store.load()


def read_response(_: Path) -> Any:
    attempt = FLOW.start("http://127.0.0.1:1/callback")
    response = BAD.replace("STATE", httpx.URL(attempt.url).params["state"])
    return FLOW.finish_url(attempt, f"{attempt.redirect_uri}#{response}", now=0.0)


async def give() -> str:
    return WRONG


def call(_: Path) -> Any:
    return SESSION.with_options(access_token=give).country_data.list_countries()


def make(**settings: Any) -> GatewaySession:
    return GatewaySession("https://gateway.test", **settings)


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (lambda _: login(FLOW, browser=Surfer(BAD), show=str), MalformedResponseError),
        (read_response, MalformedResponseError),
        (save, TokenStoreError),
        (load, TokenStoreError),
        (lambda _: Token(WRONG), ConfigurationError),
        (lambda _: make(access_token=WRONG), ConfigurationError),
        (lambda _: make(access_token=SECRET, timeout=0), ConfigurationError),
        (lambda _: GatewaySession.from_env(access_token=WRONG), ConfigurationError),
        (lambda _: SESSION.with_options(access_token=WRONG), ConfigurationError),
        (call, ConfigurationError),
    ],
)
async def test_no_frame_of_ours_holds_the_token(
    work: Callable[[Path], Any], kind: type[GatewayError], tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        await work(tmp_path)
    join_threads()
    shown = traceback.TracebackException(kind, caught.value, caught.tb, capture_locals=True)
    ours = [frame for frame in shown.stack if frame.filename != __file__]
    assert ours
    assert not any(SECRET in text for frame in ours for text in (frame.locals or {}).values())
    assert LoopbackReceiver.receive.__name__ == "receive"
