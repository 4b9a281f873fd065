"""A keyring that is locked, and whose user is not there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keyring
from keyring.backend import KeyringBackend


class _Locked(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.unlocked = threading.Event()

    def _wait(self, *_: str) -> None:
        self.unlocked.wait()

    get_password: Any = _wait
    set_password: Any = _wait


@contextmanager
def locked_keyring() -> Iterator[threading.Event]:
    """Let each use of the keyring wait for this event; at the end it is set."""
    before, ring = keyring.get_keyring(), _Locked()
    keyring.set_keyring(ring)
    yield ring.unlocked
    ring.unlocked.set()
    keyring.set_keyring(before)
