"""The files that a file store leaves in its folder, and the errors of the store."""

import stat
from pathlib import Path

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import PrivateFileStore
from tests.support.logins import make_token
from tests.support.secrecy import CANARY, texts_of


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def refusal(store: PrivateFileStore) -> str:
    """Return the error of loading, after searching it for the token."""
    with pytest.raises(TokenStoreError) as caught:
        await store.load()
    assert CANARY not in texts_of(caught.value)
    return str(caught.value)


async def failure(store: PrivateFileStore) -> str:
    """Return the error of saving, after searching it for the token."""
    with pytest.raises(TokenStoreError) as caught:
        await store.save(make_token("new"))
    assert CANARY not in texts_of(caught.value)
    return str(caught.value)
