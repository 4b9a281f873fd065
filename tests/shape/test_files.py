"""Files can be read in one go; a public name has its docstring, what is private a line or none."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import gateway_sdk
from gateway_sdk import auth, bulk, cluster, models, otel, sandbox

ROOT: Final = Path(gateway_sdk.__file__).parent
FILES: Final = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
LONGEST, SHORTEST = 450, 30  # lines
SHORT_ALL_THE_SAME: Final = {
    "_pyinstaller/hook-gateway_sdk.py",  # its name is PyInstaller's
    "_version.py",
}
FACES: Final = (gateway_sdk, auth, bulk, cluster, models, otel, sandbox)
# Public too: the bases of the models, whose methods users call, and the text of `gateway --help`.
PUBLIC: Final = {"Model", "RequestModel", "gateway"}.union(
    *(vars(face)["__all__"] for face in FACES)
)
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def is_command(node: Documented) -> bool:
    """Tell whether a function is a command of the command line: its docstring is its help."""
    return any(".command(" in ast.unparse(one) for one in node.decorator_list)


def private_ones(body: list[ast.stmt], *, private: bool) -> Iterator[Documented]:
    """Yield the classes and functions that no user sees, with those inside of them."""
    for node in body:
        if isinstance(node, Documented):
            hidden = is_private(node.name) or (private and node.name not in PUBLIC)
            if hidden:
                yield node
            yield from private_ones(node.body, private=hidden)
        elif isinstance(node, ast.If | ast.Try):
            yield from private_ones(node.body, private=private)


def test_no_file_is_long_or_tiny() -> None:
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in FILES.items()}

    assert not {name: number for name, number in lines.items() if number > LONGEST}
    tiny = {name for name, number in lines.items() if number < SHORTEST}
    assert not {name for name in tiny - SHORT_ALL_THE_SAME if not name.endswith("__init__.py")}


def test_a_private_docstring_is_one_line_at_most() -> None:
    long = []
    for name, path in FILES.items():
        parts = Path(name).with_suffix("").parts
        hidden = parts[0] == "cli" or any(map(is_private, parts))  # nobody imports the former
        long += [
            f"{name}:{node.lineno}: {node.name}"
            for node in private_ones(ast.parse(path.read_text("utf-8")).body, private=hidden)
            if "\n" in (ast.get_docstring(node) or "") and not is_command(node)
        ]

    assert not long
