"""The manual says what the command line does."""

import re
from pathlib import Path

from gateway_sdk.cli.process import Status
from tests.cli.test_app import COMMANDS

MANUAL = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_manual_lists_every_status() -> None:
    """The table has those that the code has, and 0."""
    listed = {int(status) for status in re.findall(r"^\| (\d+) \|", MANUAL, re.MULTILINE)}

    assert listed == {*Status, 0}


def test_manual_lists_every_command() -> None:
    """A new command is written down, and no other is."""
    table = MANUAL.partition("## Which gateway")[0]
    listed = {
        " ".join(re.findall(r"[a-z]+", words)) for words in re.findall(r"`gateway ([a-z ]+)", table)
    }

    groups = {command.split()[0] for command in COMMANDS if " " in command}
    assert listed == set(COMMANDS) - groups
