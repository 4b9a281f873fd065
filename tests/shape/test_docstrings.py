"""How much is said where: a public name has its whole docstring, what is private a line or none."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import gateway_sdk
from gateway_sdk import auth, bulk, fleet, models, otel, sandbox
from gateway_sdk.auth import stores

SOURCE: Final = Path(gateway_sdk.__file__).parent
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


FACES: Final = (gateway_sdk, auth, stores, bulk, fleet, models, otel, sandbox)
# Public too: the bases of the models, whose methods users call, and the text of `gateway --help`.
PUBLIC: Final = {"Model", "RequestModel", "gateway"}.union(
    *(vars(face)["__all__"] for face in FACES)
)


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


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_a_private_docstring_is_one_line_at_most(path: Path) -> None:
    """Reasons, units and traps stand in comments, where they are needed."""
    module = ast.parse(path.read_text("utf-8"))
    parts = path.relative_to(SOURCE).with_suffix("").parts
    # Nobody imports the command line; the docstrings of its commands are the texts of `--help`.
    is_cli = parts[0] == "cli" and parts[1] != "commands"
    hidden = is_cli or any(map(is_private, parts))
    long = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.name}"
        for node in private_ones(module.body, private=hidden)
        if "\n" in (ast.get_docstring(node) or "")
    ]
    assert not long
