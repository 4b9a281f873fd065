"""JSON that people give, read strictly: what it cannot say again exactly is refused."""

import json
from decimal import Decimal
from typing import Any, NoReturn

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.input.files import name_of, read_all
from gateway_sdk.cli.output.printable import printable


def read_json(word: str) -> Any:
    """Read a file, or standard input if the word is "-".

    Raises:
        CommandError: it cannot be read, or is no JSON; the message says where, and shows no value.
    """
    try:
        return parse(read_all(word))
    except _NoJsonError as error:
        raise CommandError(f"{name_of(word)}{error}\nNothing was sent.", MISUSED) from None


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
