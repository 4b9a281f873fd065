"""Tracebacks that show variables, as Sentry's do, hold no token of a failed login or save."""

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway_sdk import GatewayError, MalformedResponseError, TokenStoreError
from gateway_sdk.auth import LoopbackReceiver, PrivateFileStore, Token, login
from tests.auth.visits import FLOW, Surfer, join_threads
from tests.support.logins import KEY
from tests.support.secrecy import CANARY

BAD = f"access_token={CANARY}-token&token_type=mac&state=STATE"


async def log_in(_: Path) -> object:
    return await login(FLOW, browser=Surfer(BAD), show=str)


async def save(folder: Path) -> None:
    (folder / "in the way").write_text("")
    await PrivateFileStore(KEY, folder / "in the way").save(Token(f"{CANARY}-token"))


@pytest.mark.parametrize(
    ("work", "kind"), [(log_in, MalformedResponseError), (save, TokenStoreError)]
)
async def test_no_frame_of_ours_holds_the_token(
    work: Callable[[Path], Awaitable[object]], kind: type[GatewayError], tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        await work(tmp_path)
    join_threads()
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert f"{CANARY}-token" not in "".join(shown.format())
    assert LoopbackReceiver.receive.__name__ == "receive"
