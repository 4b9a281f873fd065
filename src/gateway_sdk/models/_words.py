"""What is wrong with a model, in plain words: the field, what is wanted, what was given."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

PROBLEM: Final = "wrong_argument"
"""The type of these errors, which differs from pydantic's own types."""

_LONGEST_VALUE: Final = 40  # characters; longer values are not shown
_SHOWN_PROBLEMS: Final = 10
_SHOWN_TYPES: Final = (str, bytes, bool, int, float)

# By type of pydantic's errors. A field with other needs has its own validator.
_WANTED: Final = {
    "string_type": "a string",
    "string_sub_type": "a string",
    "int_type": "a whole number",
    "bool_type": "True or False",
    "is_instance_of": "a list or tuple",
    "list_type": "a list or tuple",
    "sequence_str": "a list or tuple",
    "invalid-json-value": "a JSON value",
    "model_type": "{article} {class_name} or a mapping",
}
_WRONG: Final = {
    "missing": "is missing",
    "invalid_key": "is not a string, as the name of a field must be",
    "greater_than_equal": "must fit into 64 bits",
    "less_than_equal": "must fit into 64 bits",
    "frozen_instance": "cannot be changed: models are frozen, so make a new one",
    "finite_number": "holds NaN or Infinity, which are not JSON",
    "recursion_depth_exceeded": "is nested too deeply",
    "recursion_loop": "is nested too deeply, or holds itself",
}


def problem(message: str) -> PydanticCustomError:
    """Return the error for a field; the message follows its name."""
    return PydanticCustomError(PROBLEM, "{message}", {"message": message})


def shown(value: object, *, personal: bool = False) -> str:
    """Show a value, or name its type if it may be secret or personal, is long or unusual."""
    if value is None:
        return "None"
    try:
        text = repr(value) if type(value) in _SHOWN_TYPES and not personal else ""
    except ValueError:  # an int with more digits than Python converts
        text = ""
    return text if 0 < len(text) <= _LONGEST_VALUE else type(value).__name__


def in_plain_words(
    error: ValidationError, model: type[BaseModel], *, personal: bool
) -> ValidationError:
    """Return an error of pydantic's in words for the users of a model; personal: without values."""
    # Errors of inner models were converted before.
    details = error.errors(include_url=False)
    lines = [_line(detail, model, personal=personal) for detail in details]
    return ValidationError.from_exception_data(model.__name__, lines, hide_input=True)


def _line(detail: ErrorDetails, model: type[BaseModel], *, personal: bool) -> InitErrorDetails:
    message = _message(detail, model, personal=personal)
    # The input would be in errors() and in pickles.
    given = None if personal else detail["input"]
    return {"type": problem(message), "loc": _location(detail, model), "input": given}


def _location(detail: ErrorDetails, model: type[BaseModel]) -> tuple[int | str, ...]:
    location = detail["loc"]
    if detail["type"] == PROBLEM:
        return location
    if detail["type"] == "missing":
        return (_attribute(model, location[0]),)
    # After "dict" and "list" come the keys of a free JSON value: they are data, not field names.
    inner = takewhile(lambda part: part not in ("dict", "list"), location[1:])
    return (*location[:1], *inner)


def _message(detail: ErrorDetails, model: type[BaseModel], *, personal: bool) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == PROBLEM:
        return str(context["message"])
    if kind == "extra_forbidden":
        return _unknown(str(detail["loc"][-1]), model)
    if kind in _WRONG:
        return _WRONG[kind]
    if kind not in _WANTED:
        return f"is wrong: {detail['msg']}"
    vowel = context.get("class_name", "").startswith(tuple("AEIOU"))
    wanted = _WANTED[kind].format_map({"article": "an" if vowel else "a", **context})
    return f"must be {wanted}, not {shown(value, personal=personal)}"


def _unknown(name: str, model: type[BaseModel]) -> str:
    if name in model.model_fields:
        return f"is given twice: {model.model_fields[name].serialization_alias} is the same field"
    from difflib import get_close_matches  # noqa: PLC0415 - after a mistake only

    close = get_close_matches(name, _names(model), n=1)
    return f"is not a field of {model.__name__}" + "".join(f": did you mean {it}?" for it in close)


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield name
        yield str(field.serialization_alias)


def _attribute(model: type[BaseModel], wire_name: Any) -> str:
    fields = model.model_fields.items()
    return next(name for name, field in fields if field.serialization_alias == wire_name)


def describe(error: ValidationError) -> str:
    """Name the first few wrong fields and the reasons, without their values."""
    problems = error.errors(include_input=False, include_url=False)
    first = "; ".join(map(_described, problems[:_SHOWN_PROBLEMS]))
    more = len(problems) - _SHOWN_PROBLEMS
    return first + (f"; and {more} more" if more > 0 else "")


def _described(problem: ErrorDetails) -> str:
    field = ".".join(map(str, problem["loc"]))[:100]
    if problem["type"] == PROBLEM:
        return f"{field or 'the value'} {problem.get('ctx', {})['message'][:150]}"
    return f"{field or 'it'}: {problem['msg'][:100]}"
