"""How much is said where: a public name has its whole docstring, what is private a line or none."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import gateway_sdk

SOURCE: Final = Path(gateway_sdk.__file__).parent
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_private(name: str) -> bool:
    """Tell whether a name is private; magic methods are not."""
    return name.startswith("_") and not name.endswith("__")


def exported(path: Path) -> set[str]:
    """Return the names that a package's face has in its lists."""
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


FACES: Final = [
    path
    for path in SOURCE.rglob("__init__.py")
    if not any(map(is_private, path.relative_to(SOURCE).parent.parts))
]
# Public too: the bases of the models, whose methods users call.
PUBLIC: Final = {"Model", "RequestModel"}.union(*map(exported, FACES))


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
