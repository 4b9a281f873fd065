"""Revisions, from the command line or from a file."""

from collections.abc import Sequence
from typing import Any

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.input.fields import check_fields
from gateway_sdk.cli.input.files import name_of
from gateway_sdk.cli.input.json_file import read_json
from gateway_sdk.models import Revision


def read_revisions(words: Sequence[str]) -> list[Revision]:
    """Read KEY=VALUE words, or the file that a single word without "=" names.

    Returns:
        The revisions in their order; a key may come twice.

    Raises:
        CommandError: a word or the file is neither; the message shows no value.
    """
    if len(words) == 1 and "=" not in words[0]:
        return _from_file(words[0])
    return [_from_word(word, place) for place, word in enumerate(words, 1)]


def _from_word(word: str, place: int) -> Revision:
    key, equals, value = word.partition("=")
    if not (key and equals):
        raise CommandError(
            f"revision {place} is not KEY=VALUE\nNothing was sent; quote what holds spaces.",
            MISUSED,
        )
    return check_fields(Revision, {"key": key, "value": value}, f"revision {place}")


def _from_file(file: str) -> list[Revision]:
    """Read {"key": "value"}, or {"revisions": [{"key": …, "value": …}]} as on the wire."""
    content: Any = read_json(file)
    match content:
        case {"revisions": list(entries)} if len(content) == 1:
            pass
        case dict():
            entries = [{"key": key, "value": value} for key, value in content.items()]
        case _:
            entries = []
    if not entries:
        raise CommandError(
            f'{name_of(file)} holds no revisions: write {{"key": "value"}}\nNothing was sent.',
            MISUSED,
        )
    return [
        check_fields(Revision, entry, f"{file}, revision {place}")
        for place, entry in enumerate(entries, 1)
    ]
