"""The models compared with the hand-written table of the interface, in both directions."""

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic import SecretStr, ValidationError

from gateway_sdk import models
from gateway_sdk.models._base import Model, RequestModel
from tests.interface_table import MODELS, REPLIES, REQUESTS, REQUIRED_FIELDS, SECRETS, Field, sample
from tests.support.secrecy import CANARY, texts_of

# Values that do not fit a type, by type; none of them may be converted.
WRONG: dict[str, list[Any]] = {
    "string": [1, 1.5, True, b"text", [], {}, ["text"]],
    "integer": ["7", 7.0, True, False, b"7", [], {}, float("nan")],
    "int64": ["7", 7.0, True, 2**63, -(2**63) - 1, [], {}],
    "boolean": [0, 1, "true", "yes", "", 1.0, [], {}],
    "object": [1, "text", True, [], [{}]],
    "array": [1, "text", b"text", True, {}, {"0": {}}],
    "any": [object(), b"bytes", {1: 2}, float("nan"), float("inf"), [float("nan")], {1, 2}, (1,)],
}


# A list of codes is joined: tests/models/test_arguments.py.
TAKEN: dict[tuple[str, str], list[Any]] = {("ExchangeRateSeriesRequest", "symbols"): [["text"]]}


def _model(name: str) -> type[Model]:
    found: type[Model] = getattr(models, name)
    return found


def _is_any(_: Field) -> bool:
    return True


def _fields(*names: str, where: Callable[[Field], bool] = _is_any) -> list[Any]:
    return [
        pytest.param(name, field, id=f"{name}.{field.wire_name}")
        for name in names
        for field in MODELS[name]
        if where(field)
    ]


def _missing(name: str, field: Field) -> str:
    if name in REPLIES:
        return f"{field.wire_name}\n  Field required"
    return f"{field.wire_name}\n  is missing"


def _wrong_values(kind: str) -> list[Any]:
    if kind.startswith("["):
        return [*WRONG["array"], [None], [object()]]
    return WRONG["object"] if kind in MODELS else WRONG[kind]


def test_every_model_is_in_the_table_and_the_reverse() -> None:
    assert sorted(vars(models)["__all__"]) == sorted(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_full_object_comes_back_as_it_went_in(name: str) -> None:
    fields, full = _model(name).model_fields, sample(name)
    by_name = {ours: full[str(field.serialization_alias)] for ours, field in fields.items()}

    assert [field.serialization_alias for field in fields.values()] == [*full]
    assert [*full] == [row.wire_name for row in MODELS[name]]
    assert _model(name).model_validate(full).to_wire() == full
    assert _model(name)(**by_name).to_wire() == full


@pytest.mark.parametrize(("name", "field"), _fields(*REQUESTS))
def test_null_is_taken_where_the_interface_says_so(name: str, field: Field) -> None:
    values = sample(name) | {field.wire_name: None}

    if field.nullable:
        assert _model(name).model_validate(values).to_wire() == values
    else:
        with pytest.raises(ValidationError, match=field.wire_name):
            _model(name).model_validate(values)


@pytest.mark.parametrize("union_format", ["any_of", "primitive_type_array"])
@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize(("name", "field"), _fields(*REQUESTS))
def test_the_json_schema_has_null_where_the_model_takes_it(
    name: str, field: Field, mode: Any, union_format: Any
) -> None:
    """Clients that are made of a service's OpenAPI send null where they may, and take no other."""
    whole = _model(name).model_json_schema(mode=mode, union_format=union_format)
    schema = whole["properties"][field.wire_name]
    kinds = [kind.get("type") for kind in schema.get("anyOf", [schema])]

    takes_any = field.type == "any"
    assert takes_any or ("null" in kinds or "null" in (kinds[0] or ())) == field.nullable
    assert schema.get("default", ...) is (None if field.nullable else ...)
    assert (field.wire_name in whole.get("required", ())) == (name in REQUIRED_FIELDS)


@pytest.mark.parametrize(("name", "field"), _fields("ErrorPayload"))
def test_a_wrong_field_of_an_error_reads_as_absent(name: str, field: Field) -> None:
    """A bad record says at least what can be read of it."""
    full = sample(name)
    others = {ours: value for ours, value in full.items() if ours != field.wire_name}
    kind = "integer" if field.type == "int32" else field.type
    for wrong in [None, *WRONG[kind]]:
        payload = _model(name).model_validate(full | {field.wire_name: wrong})
        found = {ours: value for ours, value in payload if value is not None}
        assert found == others


@pytest.mark.parametrize(("name", "field"), _fields(*REQUESTS, "Country"))
def test_wrong_types_are_refused_and_never_converted(name: str, field: Field) -> None:
    taken = TAKEN.get((name, field.wire_name), [])
    for wrong in [value for value in _wrong_values(field.type) if value not in taken]:
        with pytest.raises(ValidationError, match=field.wire_name):
            _model(name).model_validate(sample(name) | {field.wire_name: wrong})


HALF = "\udce9" + CANARY
"""As `errors="surrogateescape"` reads a file in Latin-1."""
HALVES: dict[str, list[Any]] = {
    "string": [HALF, SecretStr(HALF)],
    "[string]": [["text", HALF]],
    "any": [HALF, [HALF], {"a": {"b": HALF}}, {HALF: 1}],
}


@pytest.mark.parametrize(
    ("name", "field"), _fields(*REQUESTS, where=lambda field: field.type in HALVES)
)
def test_half_of_a_surrogate_pair_is_refused_where_it_stands(name: str, field: Field) -> None:
    """It could not be encoded when it is sent, and nobody would know which field it is."""
    secret = (name, field.wire_name) in SECRETS
    for half in HALVES[field.type][: None if secret or field.type != "string" else 1]:
        with pytest.raises(ValidationError) as caught:
            _model(name).model_validate(sample(name) | {field.wire_name: half})

        (problem,) = caught.value.errors()
        assert problem["loc"][0] == field.wire_name
        assert problem["msg"] == "holds half of a surrogate pair, which is no character"
        assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("name", "field"), _fields(*[name for name in REQUESTS if name not in REQUIRED_FIELDS])
)
def test_absent_field_is_not_sent(name: str, field: Field) -> None:
    values = sample(name)
    del values[field.wire_name]

    model = _model(name).model_validate(values)

    assert model.to_wire() == values
    python_name = next(
        ours
        for ours, row in _model(name).model_fields.items()
        if row.serialization_alias == field.wire_name
    )
    assert getattr(model, python_name) is None


@pytest.mark.parametrize(("name", "field"), _fields(*REQUIRED_FIELDS))
def test_required_field_may_not_be_left_out(name: str, field: Field) -> None:
    values = sample(name)
    del values[field.wire_name]

    with pytest.raises(ValidationError, match=_missing(name, field)):
        _model(name).model_validate(values)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_refuse_what_they_do_not_know(name: str) -> None:
    assert issubclass(_model(name), RequestModel)
    with pytest.raises(ValidationError, match="customertype") as caught:
        _model(name).model_validate(sample(name) | {"customertype": "canary-value"})

    assert "canary-value" not in str(caught.value)


@pytest.mark.parametrize("name", REPLIES)
def test_replies_keep_what_they_do_not_know(name: str) -> None:
    values = sample(name) | {"novelty": [1, {"a": None}]}

    model = _model(name).model_validate(values)

    assert model.model_extra == {"novelty": [1, {"a": None}]}
    assert model.to_wire() == values


@pytest.mark.parametrize(
    ("name", "field"), _fields(*MODELS, where=lambda field: field.type.startswith("["))
)
def test_lists_become_tuples(name: str, field: Field) -> None:
    given = sample(field.type)

    model = _model(name).model_validate({field.wire_name: given})
    given.append("late")

    (kept,) = [value for _, value in model if value is not None]
    assert isinstance(kept, tuple)
    assert len(kept) == 1


@pytest.mark.parametrize("name", REQUESTS)
def test_same_field_under_both_names_is_refused(name: str) -> None:
    for python_name, row in _model(name).model_fields.items():
        wire_name = str(row.serialization_alias)
        if python_name != wire_name:
            values = sample(name)
            with pytest.raises(ValidationError, match=python_name):
                _model(name).model_validate(values | {python_name: values[wire_name]})


@pytest.mark.parametrize(
    ("name", "field"), _fields(*REQUESTS, where=lambda field: field.type == "int64")
)
@pytest.mark.parametrize("limit", [2**63 - 1, -(2**63)])
def test_int64_reaches_to_its_limits(name: str, field: Field, limit: int) -> None:
    model = _model(name).model_validate({field.wire_name: limit})

    assert model.to_wire() == {field.wire_name: limit}


def test_a_reply_is_written_with_unknown_fields_in_their_order() -> None:
    """Also those that are named as a method is."""
    values = {"id": 1, "copy": 1, **{f"more{n}": n for n in range(9)}, "to_wire": "x"}
    model = _model("Country").model_validate(values)
    assert list(model.to_wire().items()) == list(values.items())


@pytest.mark.parametrize("name", MODELS)
def test_the_signature_has_the_names_and_types_that_type_checkers_take(name: str) -> None:
    """For help(), editors and completion."""
    model = _model(name)
    signature = inspect.signature(model)

    assert [*signature.parameters] == [*model.model_fields, *["extra_data"] * (name in REPLIES)]
    for word in ("Annotated", "FieldInfo", "function", "0x"):
        assert word not in str(signature)
    for one in signature.parameters.values():
        assert (one.default is one.empty) == (
            one.name == "extra_data" or model.model_fields[one.name].is_required()
        )
    with pytest.raises(AttributeError):
        _ = model.model_validate(sample(name)).__signature__


class Own(models.CreateRequest):
    customer_type: str | None = "person"
    other: "Later | None" = pydantic.Field(None, exclude=True)

    def __init__(self, number: int, **fields: Any) -> None:
        super().__init__(external_customer_id=str(number), **fields)


class Later(pydantic.BaseModel):
    """A type that is not there yet when the model is made."""


def test_the_signature_of_a_subclass_is_that_of_its_own_constructor() -> None:
    made = Own(7, is_b2b=True)
    signature = inspect.signature(Own)

    assert made.to_wire() == {"customerType": "person", "externalCustomerId": "7", "isB2B": True}
    assert next(iter(signature.parameters)) == "number"
    assert {"is_b2b", "customer_type"} <= signature.parameters.keys()
    assert signature.parameters["share_percentage"].annotation == int | None
    assert signature.parameters["customer_type"].default == "person"


class Early(models.CreateRequest):
    person: "Nowhere | None" = None  # type: ignore[name-defined]  # noqa: F821


def test_the_signature_of_a_model_that_lacks_a_type_yet_is_that_of_its_base() -> None:
    assert inspect.signature(Early) == inspect.signature(models.CreateRequest)


def _constructors() -> Iterator[tuple[str, list[str]]]:
    for file in Path(models.__path__[0]).glob("*.py"):
        for kind in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(kind, ast.ClassDef) and kind.name in MODELS:
                for part in ast.walk(kind):
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        yield kind.name, [argument.arg for argument in part.args.kwonlyargs]


def test_arguments_that_are_written_out_for_type_checkers_are_the_fields() -> None:
    found = dict(_constructors())

    assert {"PersonData", "SecretQuestionItem", "ExchangeRateSeriesRequest"} <= found.keys()
    for name, arguments in found.items():
        assert arguments == list(_model(name).model_fields)
