"""Files that people give, by name or as standard input, checked before anything is sent."""

import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeVar

from pydantic import ValidationError

from gateway_sdk._http.request import describe
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.values import printable
from gateway_sdk.models._base import Model

STDIN: Final = "-"

IN_WORDS: Final = {
    r"an? \w+ or a mapping": "an object, {...}",
    "a list or tuple": "a list, [...]",
    "True or False": "true or false",
    r"not str\b": "not a string",
    r"not (int|float)\b": "not a number",
    r"not bool\b": "not true or false",
    r"not list\b": "not a list",
    r"not dict\b": "not an object",
}
"""What is said of Python's values, and how it is said of JSON."""

M = TypeVar("M", bound=Model)


def name_of(word: str) -> str:
    """Give the name for messages."""
    return "standard input" if word == STDIN else printable(word)


def refuse(message: str) -> NoReturn:
    """End the command before anything was sent."""
    raise CommandError(f"{message}\nNothing was sent.", MISUSED) from None


def open_content(word: str) -> Path | IO[bytes] | bytes:
    """Give a file as what can be uploaded: a path, or what can only be read once, open.

    What is typed is read here, because reading on after its end would ask for more.
    """
    if word == STDIN:
        stdin = _stdin()
        return stdin.read() if stdin.isatty() else stdin
    path = Path(word)
    try:
        if path.is_fifo():  # as a shell's <(command) is
            return path.open("rb")
        with path.open("rb"):
            return path
    except OSError as error:
        _refuse_file(word, error)


def _read_all(word: str) -> bytes:
    try:
        return _stdin().read() if word == STDIN else Path(word).read_bytes()
    except OSError as error:
        _refuse_file(word, error)


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise CommandError("there is no standard input to read", MISUSED)
    if sys.stdin.isatty():
        say("Reading what you type; Ctrl-D at the start of a line ends it.")
    return sys.stdin.buffer


def _refuse_file(word: str, error: OSError) -> NoReturn:
    refuse(f"cannot read {name_of(word)}: {error.strerror or type(error).__name__}")


def read_json(word: str) -> Any:
    """Read JSON strictly: what cannot be sent again exactly is refused; no value is shown."""
    try:
        return parse(_read_all(word))
    except _NoJsonError as error:
        refuse(f"{name_of(word)}{error}")


class _NoJsonError(Exception):
    """Why it is none, behind the name of the file."""


def parse(data: bytes) -> Any:
    """Parse UTF-8, with or without a byte order mark."""
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_exact,
        )
    except UnicodeDecodeError as error:
        raise _NoJsonError(f" is not UTF-8: byte {error.start + 1} is wrong") from None
    except json.JSONDecodeError as error:
        where = f", line {error.lineno}, column {error.colno}"
        raise _NoJsonError(f"{where}: this is no JSON: {error.msg}") from None
    except RecursionError:
        raise _NoJsonError(" is nested too deeply") from None
    except ValueError:  # more digits of a whole number than Python converts
        raise _NoJsonError(" holds a number of too many digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice, of which the parser would silently take the last."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _NoJsonError(f" has {printable(name[:100])} twice in one object")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _NoJsonError(f" holds {name}, which is no JSON")


def _exact(text: str) -> float:
    """Refuse a fraction that would arrive as another one."""
    number = float(text)
    if Decimal(repr(number)) != Decimal(text):
        raise _NoJsonError(" holds a number of more digits than can be sent: write it as a string")
    return number


def check_fields(model: type[M], value: Any, word: str) -> M:
    """Make a model of JSON from a file; the message names fields as on the wire, and no value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = describe(error)
        for python, words in IN_WORDS.items():
            problem = re.sub(python, words, problem)
        refuse(f"{name_of(word)}: {printable(problem)}")
