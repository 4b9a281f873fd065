"""The public names and signatures: a change of them is a decision, and is written down.

`python -m tests.shape.test_public` writes them to public.txt.
"""

import enum
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel

import gateway_sdk
from gateway_sdk import errors

WRITTEN = Path(__file__).with_name("public.txt")
STAR = re.compile(r"^\s*from (\S+) import \*", re.MULTILINE)
MODULES = (
    "gateway_sdk", "gateway_sdk.auth", "gateway_sdk.bulk", "gateway_sdk.cluster",
    "gateway_sdk.models", "gateway_sdk.operations", "gateway_sdk.otel",
    "gateway_sdk.sandbox", "gateway_sdk.sentry",
    *(f"gateway_sdk.areas.{area}" for area in
      ("aml", "currency", "customer", "wallet")),
)  # fmt: skip


def names_of(module: ModuleType) -> list[str]:
    if (listed := getattr(module, "__all__", None)) is not None:
        return sorted(listed)
    return sorted(
        name
        for name, it in vars(module).items()
        if getattr(it, "__module__", None) == module.__name__ and name[0] != "_" and len(name) > 2
    )


def lines_of(name: str, it: Any) -> Iterator[str]:
    """Yield a name with its parameters, and then what its class adds to its bases."""
    if isinstance(it, ModuleType):
        return
    if not isinstance(it, type):
        yield name + (parameters_of(it) if isinstance(it, FunctionType) else "")
        return
    is_error = issubclass(it, Exception)
    bases = ", ".join(base.__name__ for base in it.__bases__ if is_error and base in ours(it))
    made = "" if getattr(it, "_is_protocol", False) else parameters_of(it)
    members = sorted(it.__members__) if issubclass(it, enum.Enum) else []
    if issubclass(it, BaseModel):
        members = sorted(it.model_fields)
    had: dict[str, Any] = {}
    for base in [it] if is_error else reversed(ours(it)):
        had.update(vars(base))
    inherited = {"of_call", *(dir(BaseModel) if issubclass(it, BaseModel) else ())}
    own = [member for member in sorted(had) if member[0] != "_" and member not in members]
    yield f"{name}{'' if members else made}{f' of {bases}' if bases else ''}"
    for member in own:
        function = getattr(had[member], "__func__", had[member])
        if not isinstance(function, FunctionType):
            members.append(member)
        elif member not in inherited:
            yield f"    .{member}{parameters_of(function)}"
    if members:
        yield f"    {' '.join(sorted({*members} - {'model_config'}))}"


def parameters_of(it: Any) -> str:
    """Return the names of parameters; `=` after one that may be left out."""
    if isinstance(it, type) and not {"__init__", "__new__"} & {*chain(*map(vars, ours(it)))}:
        return ""
    shown: list[str] = []
    for one in inspect.signature(it).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not any(name.startswith("*") for name in shown):
            shown.append("*")
        if one.kind is one.VAR_POSITIONAL:
            shown.append(f"*{one.name}")
        elif one.kind is one.VAR_KEYWORD:
            shown.append(f"**{one.name}")
        elif one.name not in ("self", "cls"):
            shown.append(one.name + ("" if one.default is one.empty else "="))
    return f"({', '.join(shown)})"


def ours(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "gateway_sdk"]


def public() -> str:
    written: list[str] = []
    for place in MODULES:
        module = importlib.import_module(place)
        written.append(f"# {place}")
        for name in names_of(module):
            written += lines_of(name, getattr(module, name))
    return "\n".join(written) + "\n"


def test_they_are_those_that_are_written_down() -> None:
    assert public() == WRITTEN.read_text(encoding="utf-8"), __doc__


def test_no_signature_hides_its_parameters() -> None:
    """Mocks, editors and `help()` see no more than `inspect.signature` does."""
    hiding = [line.strip() for line in public().splitlines() if "**" in line]

    # The arguments are those of the method with the name of the kind.
    assert hiding == [".of_kind(kind, *values, **more)"]


def test_every_annotation_can_be_evaluated() -> None:
    """By tools that ask at run time, such as web frameworks and validators."""
    failed: list[str] = []
    for place in MODULES:
        module = importlib.import_module(place)
        for name in names_of(module):
            it = getattr(module, name)
            members = (
                [member for base in ours(it) for member in vars(base).values()]
                if isinstance(it, type)
                else []
            )
            for one in [it, *members]:
                function = getattr(one, "__func__", one)
                if isinstance(function, type | FunctionType):
                    try:
                        get_type_hints(function)
                    except (NameError, AttributeError, TypeError) as error:
                        failed.append(f"{name} {function.__qualname__}: {error}")

    assert failed == []


def test_every_public_module_is_looked_at() -> None:
    at_the_top = {"errors", "observer", "outcome", "rate_limit", "retry_policy", "session"}
    found = {it.name for it in pkgutil.iter_modules(gateway_sdk.__path__) if it.name[0] != "_"}

    assert found == {place.split(".")[1] for place in MODULES[1:]} | at_the_top | {"cli"}


def test_a_star_gives_public_names_only() -> None:
    """Without `__all__` it gives whatever the module has imported."""
    files = Path(gateway_sdk.__file__).parent.rglob("*.py")
    starred = {place for file in files for place in STAR.findall(file.read_text(encoding="utf-8"))}

    assert starred >= {"gateway_sdk.errors", "gateway_sdk.models.records"}
    for place in starred:
        module = importlib.import_module(place)
        assert names_of(module) == sorted(
            name for name, it in vars(module).items()
            if getattr(it, "__module__", None) == place and name[0] != "_"
            and isinstance(it, type)
        )  # fmt: skip


def test_every_error_can_be_imported_from_the_top() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception) and not name.startswith("_")
    }

    assert kinds - set(importlib.import_module("gateway_sdk").__all__) == set()


if __name__ == "__main__":
    WRITTEN.write_text(public(), encoding="utf-8")
