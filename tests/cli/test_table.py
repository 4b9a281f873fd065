"""The command line as a table: what is typed, what there is beside it, and how it ends.

`table.txt` has blocks, parted by empty lines. Of their lines, those that begin with

- `#` are the section, with the reason;
- `file NAME CONTENT` is a file in the folder of the command;
- `env NAME=TEXT` is a variable, where an empty one counts as missing;
- `token LIFE AGE`, in seconds, is the token of a login, which is stored; LIFE may be `unknown`;
- `fault TEXT` is a fault of the gateway, as in `gateway sandbox --fault`;
- `< CONTENT` is standard input;
- `$` is a command, with its exit status in front if that is not 0: `2$ gateway nonsense`;
- `=` are the operations of which the gateway receives a call;
- `>` and `!` are lines of standard output and of standard error; `...` stands for any text, and
  alone for any lines.

What is given may have the escapes of Python. In a block that gives nothing, each command is a case
of its own.
"""

import io
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended
from tests.cli.logins import keep

MISUSED = 2
TABLE = Path(__file__).with_name("table.txt")


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
    token: tuple[float | None, float] | None = None
    stdin: bytes | None = None
    steps: list[Step] = field(default_factory=list)


def cases() -> Iterator[Case]:
    number = 1
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        case = _case(f"line {number}", lines)
        if case.files or case.variables or case.faults or case.stdin is not None:
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
            case "token":
                life, age = text.split()
                case.token = None if life == "unknown" else float(life), float(age)
            case "fault":
                case.faults.append(text)
            case "<":
                case.stdin = _bytes(text)
            case "=":
                case.steps[-1].received = text.split()
            case ">":
                case.steps[-1].out.append(text)
            case "!":
                case.steps[-1].err.append(text)
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


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_command(
    call_gateway: Callable[..., Ended],
    served: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    case: Case,
) -> None:
    """It ends as the table says. What is wrong is never sent, and no secret is shown."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, content in case.files.items():
        Path(name).write_bytes(content)
    for fault in case.faults:
        served.faults.add(fault)
    if case.stdin is not None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(case.stdin)))
    for name, value in case.variables.items():
        monkeypatch.setenv(name, value)
    if case.token:
        keep(life=case.token[0], age=case.token[1])
    for step in case.steps:
        before = len(served.received)

        ended = call_gateway(*step.arguments)

        shown = f"{ended.out}{ended.err}"
        assert ended.status == step.status, shown
        assert _matches(step.out, ended.out), ended.out
        assert _matches(step.err, ended.err), ended.err
        assert [call.operation for call in [*served.received][before:]] == step.received
        assert step.status != MISUSED or {path.name for path in folder.iterdir()} == {*case.files}
        assert "canary" not in shown
        assert "Input should" not in shown  # the words of pydantic
