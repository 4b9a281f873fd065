"""The tables of docs/models.md, made from the models.

`python -m tests.support.field_reference` writes them into the page.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, JsonValue, SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from gateway_sdk import models

PAGE: Final = Path(__file__).parents[2] / "docs" / "models.md"
NAMES: Final = {str: "string", int: "integer", bool: "boolean", SecretStr: "string, masked"}
HEAD: Final = "| attribute | name on the wire | type | may be `null` |\n|---|---|---|---|\n"


def tables() -> str:
    """Return a section with a table for each model, the parts of a `CreateRequest` first."""
    return "\n".join(f"## {model.__name__}\n\n{HEAD}{_rows(model)}" for model in _models())


def _models() -> dict[type[BaseModel], None]:
    found: dict[type[BaseModel], None] = {}

    def visit(model: type[BaseModel]) -> None:
        if model not in found:
            found[model] = None
            for field in model.model_fields.values():
                for inner in _leaves(field.annotation):
                    if isinstance(inner, type) and issubclass(inner, BaseModel):
                        visit(inner)

    visit(models.CreateRequest)
    for name in vars(models)["__all__"]:
        visit(getattr(models, name))
    return found


def _leaves(annotation: Any) -> Iterator[Any]:
    if annotation is JsonValue or not get_args(annotation):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _leaves(get_args(annotation)[0])
    else:
        for part in get_args(annotation):
            if part is not type(None):
                yield from _leaves(part)


def _rows(model: type[BaseModel]) -> str:
    return "".join(
        f"| `{name}` | `{field.serialization_alias}` | {_type(field)} | {_null(model, field)} |\n"
        for name, field in model.model_fields.items()
    )


def _type(field: FieldInfo) -> str:
    (leaf,) = _leaves(field.annotation)
    if leaf is JsonValue:
        return "any JSON"
    name = NAMES.get(leaf) or f"[{leaf.__name__}](#{leaf.__name__.lower()})"
    return f"list of {name}" if "Sequence" in str(field.annotation) else name


def _null(model: type[BaseModel], field: FieldInfo) -> str:
    try:
        TypeAdapter(model).validate_python({field.validation_alias: None})
    except ValidationError:
        return "no"
    return "yes"


if __name__ == "__main__":
    head = re.split(r"^## CreateRequest$", PAGE.read_text(), flags=re.MULTILINE)[0]
    PAGE.write_text(head + tables())
