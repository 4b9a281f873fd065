"""The command line as a table: what is typed, what there is beside it, and how it ends.

`table.txt` has blocks, parted by empty lines. Of their lines, those that begin with

- `#` are the section, with the reason;
- `file NAME CONTENT` is a file in the folder of the command;
- `env NAME=TEXT` is a variable, where an empty one counts as missing;
- `record TEXT` is the file of the token of a login, broken; the variables of a login are set, too;
- `token LIFE AGE`, in seconds, is the token of a login, which is stored; LIFE may be `unknown`.
  Then the variables of a login are set, too;
- `fault TEXT` is a fault of the gateway, as in `gateway sandbox --fault`;
- `browser NAME=VALUE...` logs in at the gateway, as a `Visitor` with these arguments does; the
  variables of a login are set, too;
- `reply TYPE BODY` is what the gateway answers to every call;
- `lacks MODULE` is a module that is not installed; `lacks stdin` is a program without that;
- `< CONTENT` is standard input;
- `$` is a command, with its exit status in front if that is not 0: `2$ gateway nonsense`;
- `=` are the operations of which the gateway receives a call;
- `>` and `!` are lines of standard output and of standard error; `...` stands for any text, and
  alone for any lines.

What is given may have the escapes of Python. In a block that gives nothing, each command is a case
of its own, unless the block begins with `in turn`.
"""

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Fault, Sandbox, Visitor
from tests.cli.logins import Tab, keep, record_path
from tests.cli.support import Ended

MISUSED = 2
TABLE = Path(__file__).with_name("table.txt")

# Charts and Parquet need NumPy, for which wine lacks functions.
_POSIX = re.compile(r"--png|parquet|demo --out|nowhere/|/dev/")


@dataclass
class Step:
    """A command and how it ends."""

    words: str
    status: int
    received: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> list[str]:
        return [_bytes(word).decode() for word in shlex.split(self.words)[1:]]


@dataclass
class Case:
    """A block: what there is, and its commands."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)  # by the word that begins the line
    steps: list[Step] = field(default_factory=list)

    @property
    def words(self) -> str:
        return "\n".join(step.words for step in self.steps)


def cases() -> Iterator[Case]:
    number = 1
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        in_turn = lines[:1] == ["in turn"]
        case = _case(f"line {number}", lines[in_turn:])
        if in_turn or case != Case(case.name, steps=case.steps):
            yield case
        else:
            yield from (Case(f"{case.name}, {step.words}", steps=[step]) for step in case.steps)
        number += block.count("\n") + 2


def _case(name: str, lines: list[str]) -> Case:
    case = Case(name)
    for line in lines:
        mark, _, text = line.partition(" ")
        match mark:
            case "file":
                file, _, content = text.partition(" ")
                case.files[file] = _bytes(content)
            case "env":
                variable, _, value = text.partition("=")
                case.variables[variable] = _bytes(value).decode()
            case "fault":
                case.faults.append(text)
            case "token" | "record" | "reply" | "browser" | "lacks" | "<":
                case.given[mark] = text
            case "=":
                case.steps[-1].received = text.split()
            case ">" | "!":
                (case.steps[-1].out if mark == ">" else case.steps[-1].err).append(text)
            case _:
                assert mark.endswith("$"), line
                case.steps.append(Step(text, int(mark[:-1] or 0)))
    return case


def _bytes(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def _matches(lines: list[str], text: str) -> bool:
    """Tell whether a text has these lines; "..." stands for any text, alone for any lines."""
    patterns = [
        "(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + "\n"
        for line in lines
    ]
    text = re.sub(r"\AUsage: .*\nTry .*\n\n", "", text.replace("\r\n", "\n"))
    return bool(re.fullmatch("".join(patterns), text))


def _give(mark: str, text: str, served: Sandbox, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _, rest = text.partition(" ")
    match mark:
        case "token":
            keep(life=None if first == "unknown" else float(first), age=float(rest))
        case "record":
            keep()
            record_path().write_text(text)
        case "reply":
            reply = Response(_bytes(rest), media_type=first)
            served.faults.anywhere(Fault("a reply", methodcaller("reply", reply)))
        case "lacks":
            where = vars(sys) if text == "stdin" else sys.modules
            monkeypatch.setitem(where, text, None)
        case "browser":
            how: Any = dict(word.split("=") for word in text.split())
            tab.visitor = Visitor(**how)
        case _:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(_bytes(text))))


@pytest.fixture
def give(
    served: Sandbox, tab: Tab, gateway_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Case], Path]:
    """Provide what makes what a case begins with, and the folder of its commands."""

    def make(case: Case) -> Path:
        folder = tmp_path / "here"
        folder.mkdir()
        monkeypatch.chdir(folder)
        for name, content in case.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        for fault in case.faults:
            served.faults.add(fault)
        login = {
            "GATEWAY_ACCESS_TOKEN": "",
            "GATEWAY_AUTH_URL": gateway_url + AUTHORIZE_PATH,
            "GATEWAY_CLIENT_ID": SANDBOX_CLIENT_ID,
        }
        has_login = {"browser", "record", "token"} & {*case.given}
        for name, value in {**(login if has_login else {}), **case.variables}.items():
            monkeypatch.setenv(name, value)
        for mark, text in case.given.items():
            _give(mark, text, served, tab, monkeypatch)
        return folder

    return make


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.name, marks=[pytest.mark.posix] * bool(_POSIX.search(case.words))
        )
        for case in cases()
    ],
)
def test_command(
    call_gateway: Callable[..., Ended],
    served: Sandbox,
    tab: Tab,
    give: Callable[[Case], Path],
    case: Case,
) -> None:
    """It ends as the table says. What is wrong is never sent, and no secret is shown."""
    folder = give(case)
    for step in case.steps:
        before, there = len(served.received), {*folder.iterdir()}

        ended = call_gateway(*step.arguments)

        shown = f"{ended.out}{ended.err}"
        assert ended.status == step.status, shown
        assert _matches(step.out, ended.out), ended.out
        assert _matches(step.err, ended.err), ended.err
        assert [call.operation for call in [*served.received][before:]] == step.received
        assert step.status != MISUSED or {*folder.iterdir()} == there
        secrets = ("canary", tab.token, tab.state, tab.url)
        assert not any(secret and secret in shown for secret in secrets)
