"""How a command came out, and the fixtures that run one."""

import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.cli.terminal import Terminal


class Ended(NamedTuple):
    """The exit status, what was written to standard output, and to standard error."""

    status: int
    out: str
    err: str


Call = Callable[..., Ended]
Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]
StartInTerminal = Callable[..., Terminal]
RunInTerminal = Callable[..., tuple[int, str]]
Settings = Mapping[str, str]
