"""The code in the documents, and how a reader runs it: files in a folder, lines in a shell."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID

ROOT: Final = Path(__file__).parents[2]
STAND_INS: Final = Path(__file__).with_name("standins")
DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVES: Final = re.compile(r"^gateway sandbox\b")
BROWSER: Final = "import sys; from gateway_sdk.sandbox import Visitor; Visitor()(sys.argv[1])"
FENCE: Final = re.compile(r"(?<=\n)```(\w+)\n(.*?)```$", re.MULTILINE | re.DOTALL)
SAVED_AS: Final = re.compile(r"as `([\w.]+)`:\s*$")


@dataclass(frozen=True)
class Block:
    """A block of code in a document: its language, its text, and what it is to be saved as."""

    document: Path
    line: int
    language: str
    text: str
    file: str | None

    @property
    def name(self) -> str:
        return f"{self.document.name}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """What a reader types; the other lines of a console are what is printed."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]

    @property
    def serves(self) -> bool:
        return any(SERVES.match(command) for command in self.commands)


@dataclass(frozen=True)
class Ended:
    """What a process left behind."""

    status: int
    out: str
    err: str


def blocks(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        before = text[: found.start()]
        saved = SAVED_AS.search(before)
        line = before.count("\n") + 1
        yield Block(document, line, found[1], found[2], saved and saved[1])


def every(*languages: str) -> list[Block]:
    return [
        block for document in DOCUMENTS for block in blocks(document) if block.language in languages
    ]


def save_files(document: Path, folder: Path) -> None:
    for block in blocks(document):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def save_for_type_checkers(folder: Path) -> None:
    """Save the examples and every Python block as modules that a user's type checker is to accept.

    The settings are those of a user who is strict and has no plugin. Libraries without complete
    types are not our matter.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(STAND_INS, folder, dirs_exist_ok=True)
    for block in every("python"):
        place = block.document.relative_to(ROOT).with_suffix("").as_posix()
        name = re.sub(r"\W", "_", f"{place}_{block.line}")
        (folder / f"{name}.py").write_text(block.text, encoding="utf-8")
    settings = {
        "typeCheckingMode": "strict",
        "reportUnknownMemberType": False,
        "reportUnknownVariableType": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nexplicit_package_bases = true\nmypy_path = {folder}\n"
    )


def run_program(code: str, folder: Path) -> Ended:
    from tests.support.forks import run_in_fork  # noqa: PLC0415 - Windows has no forks

    (folder / "program.py").write_text(code, encoding="utf-8")
    shutil.copytree(STAND_INS, folder, dirs_exist_ok=True)
    status = run_in_fork(folder, _environment())
    out, err = ((folder / name).read_text(encoding="utf-8") for name in ("out", "err"))
    return Ended(status, out, err)


async def run_console(block: Block, folder: Path, base_url: str) -> Ended:
    """Type the commands of a block into one shell, which ends at the first that fails.

    The addresses in the documents stand for the sandbox at `base_url`. A reader who logs in has
    no access token yet, and a browser.
    """
    script = "\n".join(["set -eo pipefail", *block.commands])
    for address, ours in {
        "http://127.0.0.1:8080": base_url,
        "https://gateway.example.com": base_url,
        "https://login.example.com/authorize": base_url + AUTHORIZE_PATH,
        "=our-client": f"={SANDBOX_CLIENT_ID}",
    }.items():
        script = script.replace(address, ours)
    if "gateway login" in script:
        browser = folder / "browser.py"
        browser.write_text(BROWSER, encoding="utf-8")
        variables = {
            "BROWSER": shlex.join([sys.executable, str(browser)]) + " %s",
            "XDG_CONFIG_HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
        }
        settings = "".join(f"export {name}={shlex.quote(variables[name])}\n" for name in variables)
        script = settings + "unset GATEWAY_ACCESS_TOKEN\n" + script
    return await run("bash", "-c", script, folder=folder)


async def run(*command: str, folder: Path) -> Ended:
    """Run a command in a folder, with this environment's programs in its path."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=_environment(), stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:  # the caller was cancelled
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def serve_until_ready(command: str, folder: Path) -> Ended:
    """Start a server at a free port, wait until it is ready, and end it as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(
        *command.split(), "--port", "0", cwd=folder, env=_environment(), stdout=PIPE, stderr=PIPE
    )
    assert process.stdout
    assert process.stderr
    out = b""
    while b"Ready" not in out and (line := await process.stdout.readline()):
        out += line
    process.send_signal(signal.SIGINT)
    rest, err = await process.communicate()
    return Ended(process.returncode or 0, (out + rest).decode(), err.decode())


def _environment() -> dict[str, str]:
    return os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONIOENCODING": "utf-8",
    }


if __name__ == "__main__":
    save_for_type_checkers(Path(sys.argv[1]))
