"""What a server behind others received and executed, and a file that holds it for processes."""

import os
from collections import Counter
from pathlib import Path
from typing import Final

CALL: Final = "X-Call"
"""The header that names the call that a request belongs to."""
CONNECTION: Final = "X-Connection"
"""The header in which a server in front names the client's connection."""
EXPIRED: Final = "expired"
"""A token that is refused with 401 before the body of the request is read."""
ARRIVED: Final = "arrived"
EXECUTED: Final = "executed"
BUSY: Final = 3
"""Requests that are executed and not answered when a server is killed."""


class Ledger:
    """Counts requests by the call that they belong to."""

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()  # how often the head of a call's request came
        self.executed: Counter[str] = Counter()  # how often the whole of it came, and was done
        # By call: the process that took its last request, and the client's connection.
        self.connections: dict[str, str] = {}
        self.targets: dict[str, str] = {}  # the address of its last request, where it is noted
        self.last = ""  # the connection over which the request came that was executed last

    @property
    def worker(self) -> int:
        """The number of the process in front that took the request that was executed last."""
        return int(self.last.partition("-")[0])

    def note(self, what: str, call: str, connection: str) -> None:
        if what == ARRIVED:
            self.arrived[call] += 1
            self.connections[call] = connection
        else:
            self.executed[call] += 1
            self.last = connection


def note_in(path: str, what: str, call: str, connection: str) -> None:
    """Append to a file in one step, so that a killed process leaves no half of a line."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{what} {call} {connection}\n".encode())
    finally:
        os.close(file)


def read_ledger(path: Path) -> Ledger:
    ledger = Ledger()
    # Where a line goes over the end of a page of the file, a reader may see a part of it.
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    for line in whole:
        ledger.note(*line.split(" "))
    return ledger
