"""Files and standard input, checked before anything is sent."""

import json
import re
import sys
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeVar

from pydantic import ValidationError

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.values import printable
from gateway_sdk.models._base import Model, describe

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
"""Python's words for values, and those for JSON."""

LARGEST: Final = 16 * 2**20
"""Bytes of a file of JSON, which is read as a whole: no customer is so large, but /dev/zero is."""

M = TypeVar("M", bound=Model)


def name_of(word: str) -> str:
    """Return the name for messages."""
    return "standard input" if word == STDIN else printable(word)


def refuse(message: str) -> NoReturn:
    """End the command before anything was sent."""
    raise CommandError(f"{message}\nNothing was sent.", MISUSED) from None


def open_content(word: str) -> Path | IO[bytes] | bytes:
    """Return what can be uploaded: a path, or an open file if it can be read only once.

    What is typed is read here: a second read after its end would wait for more.
    """
    if word == STDIN:
        stdin = standard_input()
        return stdin.read() if stdin.isatty() else stdin
    path = Path(word)
    try:
        if path.is_fifo():  # such as <(command) of a shell
            return path.open("rb")
        with path.open("rb"):
            return path
    except OSError as error:
        _refuse_file(word, error)


def standard_input() -> IO[bytes]:
    """Return standard input; in a terminal say how to end it."""
    if sys.stdin is None:
        raise CommandError("there is no standard input to read", MISUSED)
    if sys.stdin.isatty():
        say("Reading what you type, until Ctrl-D at the start of a line.")
    return sys.stdin.buffer


def _refuse_file(word: str, error: OSError) -> NoReturn:
    refuse(f"cannot read {name_of(word)}: {error.strerror or type(error).__name__}")


def read_json(word: str) -> Any:
    """Read JSON in UTF-8, with or without a byte order mark; messages show no value.

    Floats may lose digits: no field takes one.
    """
    name, data = name_of(word), b""
    try:
        if word == STDIN:
            data = standard_input().read(LARGEST + 1)
        else:
            with Path(word).open("rb") as file:
                data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            refuse(f"{name} is larger than {LARGEST // 2**20} MiB: is it the right file?")
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except OSError as error:
        _refuse_file(word, error)
    except UnicodeDecodeError as error:
        refuse(f"{name} is not UTF-8: byte {error.start + 1} is wrong")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        refuse(f"{name}, {where}: this is not JSON: {error.msg}" if data else f"{name} is empty")
    except (RecursionError, ValueError):  # Python converts whole numbers up to 4300 digits
        refuse(f"{name} is nested too deeply, or has a number with too many digits")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a name twice: the parser would silently take the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = printable(next(name for name in names if names.count(name) > 1)[:100])
        refuse(f"the file has {twice} twice in one object")
    return found


def check_fields(model: type[M], value: Any, word: str) -> M:
    """Make a model of JSON; the message has the names of fields in JSON, and no value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = describe(error)
        for python, words in IN_WORDS.items():
            problem = re.sub(python, words, problem)
        refuse(f"{name_of(word)}: {printable(problem)}")
