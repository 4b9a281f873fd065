"""Browsers in a few lines, tokens in stores, and what must never be shown."""

import asyncio
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Final

from gateway_sdk.auth import Token
from gateway_sdk.cli.login import place_of
from gateway_sdk.cli.session import settings_of_command
from gateway_sdk.sandbox import Visitor
from gateway_sdk.sandbox._authorization import make_opener
from gateway_sdk.session import token_store

CANARY: Final = "canary-4711"

# Kept apart from what the program under test loads: it is another process, as a browser is.
BROWSER: Final = """
import sys
from gateway_sdk.sandbox import Visitor
sys.exit(not Visitor(*sys.argv[1:-1])(sys.argv[-1]))
"""


def browser_command(folder: Path, *words: str) -> str:
    script = folder / "browser.py"
    script.write_text(BROWSER, encoding="utf-8")
    return shlex.join([sys.executable, str(script), *words]) + " %s"


class Tab:
    """A browser that a test reads the answer in, as a person does in the address bar.

    Attributes:
        url: The address that it was opened at.
        answer: The address that it was sent to, token and all.
    """

    def __init__(self, visitor: Visitor | None = None) -> None:
        self.visitor = visitor or Visitor()
        self.url = ""
        self.answer = ""
        self._opener = make_opener()

    def __call__(self, url: str) -> bool:
        self.url = url
        self.answer = self.visitor._log_in(url, self._opener)
        return True

    def hand_over(self, url: str) -> bool:
        self(url)
        self.visitor._hand_over(self.answer, self._opener)
        return True

    @property
    def token(self) -> str:
        return self.answer.partition("access_token=")[2].partition("&")[0]

    @property
    def state(self) -> str:
        return self.answer.partition("state=")[2].partition("&")[0]


def keep(*, life: float | None = 3600.0, age: float = 0.0, scope: str = "") -> Token:
    """Put a canary into the store that the environment says, and return it; times in seconds."""
    now = time.time()
    ends = None if life is None else now - age + life
    token = Token(CANARY, expires_at=ends, obtained_at=now - age, scope=scope)
    asyncio.run(token_store(settings_of_command()).save(token))
    return token


def kept() -> Any:
    return asyncio.run(token_store(settings_of_command()).load())


def record_path() -> Path:
    return Path(place_of(settings_of_command()))
