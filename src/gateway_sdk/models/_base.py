"""The base of all models: frozen, strict, with wire names; absent is not null. No I/O here."""

from collections.abc import Generator, Mapping
from contextlib import suppress
from functools import wraps
from inspect import Parameter, Signature
from itertools import takewhile
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    JsonValue,
    ModelWrapValidatorHandler,
    PlainSerializer,
    ValidationError,
    WrapSerializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import (
    CoreSchema,
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
    SchemaSerializer,
)
from pydantic_core.core_schema import (
    CoreConfig,
    SerializerFunctionWrapHandler,
    no_info_after_validator_function,
    wrap_serializer_function_ser_schema,
)

from gateway_sdk._python import MASK, Wire, safe_repr

_MOST_DIGITS: Final = 4300  # of an integer that Python writes by default

IN_CLEAR: Final = object()  # a context that only the JSON to send is written with

PROBLEM: Final = "wrong_argument"
"""The type of the errors with words of ours, which differs from pydantic's own types."""
_SHOWN_PROBLEMS: Final = 10
Location: TypeAlias = tuple[str | int, ...]
NOT_FINITE: Final = "holds NaN or Infinity, which are not JSON"
HALF_OF_A_PAIR: Final = "holds half of a surrogate pair, which is no character"
_WAY_OUT: Final = "gateway.send(operation, body={...}) can send it"

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
    "model_type": "a JSON object ({class_name})",
}
_WRONG: Final = {
    "missing": "is missing",
    "invalid_key": "is not a string, as the name of a field must be",
    "greater_than_equal": "must fit into 64 bits",
    "less_than_equal": "must fit into 64 bits",
    "frozen_instance": "cannot be changed: models are frozen, so make a new one",
    "finite_number": NOT_FINITE,
    "string_unicode": HALF_OF_A_PAIR,
    "recursion_depth_exceeded": "is nested too deeply",
    "recursion_loop": "is nested too deeply, or holds itself",
}


class Hidden(str):
    """Stands for what was given, in errors() and pickles: models of the user's show it."""

    __slots__ = ()


_HIDDEN: Final = Hidden(MASK)


class _Signature:
    """The signature of a model, with the names and types that type checkers know."""

    def __init__(self, pydantics: Any, fields: Mapping[str, FieldInfo]) -> None:
        self._pydantics, self._fields = pydantics, fields  # a subclass may lack types of its own

    def __get__(self, made: object, model: type[BaseModel]) -> Signature:
        signature: Signature = self._pydantics.__get__(made, model)  # AttributeError for an object
        names = {str(it.serialization_alias): name for name, it in self._fields.items()}

        def plain() -> None: ...

        plain.__annotations__ = {name: it.annotation for name, it in self._fields.items()}
        kinds = get_type_hints(plain)  # without their validators
        shown: list[Parameter] = []
        for one in signature.parameters.values():
            name = names.get(one.name, one.name)
            shown.append(one.replace(name=name, annotation=kinds.get(name, one.annotation)))
        return signature.replace(parameters=shown)


class Model(Wire, BaseModel):
    """The base of every model that is sent or received as a JSON object.

    Fields can be given by their Python name or by their wire name. Fields that were not given are
    not sent; None is sent as null.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel, serialization_alias=to_camel),
        allow_inf_nan=False,
        frozen=True,
        hide_input_in_errors=True,
        ser_json_inf_nan="constants",
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    # Texts and numbers cannot change after their check, and "error" takes 0.8 µs.
    _warnings: ClassVar[Any] = False
    _writer: ClassVar[SchemaSerializer | None] = None

    if not TYPE_CHECKING:  # pragma: no branch - type checkers would allow assignments

        def __setattr__(self, name: str, value: object) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError as error:  # it shows the value, which may be secret
                raise _in_plain_words(error, type(self)) from None

    @safe_repr
    def __repr__(self) -> str:
        return super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object to send: wire names, only fields that were set, clear secrets."""
        with suppress(PydanticSerializationError):  # its text shows the value
            return self.model_dump(
                mode="json", by_alias=True, exclude_unset=True, context=IN_CLEAR, warnings="error"
            )
        raise ValueError(f"{type(self).__name__} was changed since, and does not fit any more")

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        cls._writer = None  # not that of its base
        shown = _Signature(vars(cls)["__signature__"], cls.model_fields)
        type.__setattr__(cls, "__signature__", shown)

    @classmethod
    def _make_writer(cls) -> SchemaSerializer:
        # `exclude_unset` does the same as `_write_what_is_set`, in a third of the time.
        schema = _without_that(cls.__pydantic_core_schema__)
        cls._writer = SchemaSerializer(schema, CoreConfig(ser_json_inf_nan="constants"))
        return cls._writer

    def __wire__(self) -> bytes | None:
        try:
            # The serializer itself: `model_dump_json` takes twice as long.
            data = (self._writer or self._make_writer()).to_json(
                self,
                by_alias=True,
                exclude_unset=True,
                context=IN_CLEAR,
                warnings=self._warnings,
            )
        except PydanticSerializationError:
            return None
        # In long JSON a number may have more digits than Python writes. `in` is slower than `find`.
        may_be_odd = data.find(b"NaN") >= 0 or data.find(b"Infinity") >= 0
        return None if may_be_odd or len(data) > _MOST_DIGITS else data


def _interface_of(model: type[BaseModel]) -> type[BaseModel]:
    # Its parents have no fields.
    with_fields = [it for it in model.__mro__ if issubclass(it, Model) and it.model_fields]
    return with_fields[-1] if with_fields else model


def _foreign_fields(model: type[BaseModel]) -> list[str]:
    """Name what a subclass sends of its own: inside another request pydantic writes the base."""
    ours, known = model.model_fields, _interface_of(model).model_fields
    changed = {it for it in {*ours, *known} if _as_sent(ours.get(it)) != _as_sent(known.get(it))}
    changed |= {it for it in known if not _fits(ours[it].annotation, known[it].annotation)}
    decorators = model.__pydantic_decorators__
    for serializer in decorators.field_serializers.values():
        changed.update(serializer.info.fields)
    return sorted({*changed, *decorators.computed_fields, *decorators.model_serializers})


def _default(field: FieldInfo) -> tuple[Any, ...]:
    return field.default, field.default_factory


def _as_sent(field: FieldInfo | None) -> object:
    if field is None or field.exclude:
        return None
    written_by = [it for it in field.metadata if isinstance(it, PlainSerializer | WrapSerializer)]
    return field.serialization_alias, written_by


def _fits(kind: Any, known: Any) -> bool:
    """Tell whether a type of a subclass is written like that of the interface: only narrower."""
    if kind == known:
        return True
    wanted = tuple(_leaves(known))
    return JsonValue in wanted or all(
        isinstance(it, type) and issubclass(it, wanted) for it in _leaves(kind)
    )


def _leaves(kind: Any) -> set[Any]:
    """Return the types that a type consists of, without containers."""
    if get_origin(kind) is Literal:
        return {type(it) for it in get_args(kind)}
    parts = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return set[Any]().union(*map(_leaves, parts)) if parts else {kind}


def _write_what_is_set(request: Any, write: SerializerFunctionWrapHandler) -> Any:
    # An absent field as a null would be refused when it is read again, or be sent as a null.
    data = write(request)
    if isinstance(request, RequestModel):  # in a model of the user's it may be anything
        for name, field in type(request).model_fields.items():
            if name not in request.model_fields_set:
                data.pop(name, None)
                data.pop(field.serialization_alias, None)
    return data


_WHAT_IS_SET: Final = wrap_serializer_function_ser_schema(_write_what_is_set)


def _without_that(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {it: _without_that(schema[it]) for it in schema if schema[it] != _WHAT_IS_SET}
    return [_without_that(it) for it in schema] if isinstance(schema, list) else schema


class RequestModel(Model):
    """A request: a field that the interface does not know is refused.

    Every request is validated, also by `model_construct` and `model_copy`. A value that does not
    fit raises a `ValidationError`, which names the field, what it must be and the type of what was
    given, in the same words as the errors of the methods. A subclass may have methods, validators
    and defaults, which are sent; one that has more fields, or other names, types or serializers for
    them, is refused.

    What pydantic dumps, and `dict()`, have only the fields that were set: so it can be validated
    again, if it holds no mask of a secret.
    """

    # A length makes pydantic look at the characters of a text, which may be half of a pair.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", str_min_length=0)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if not all(it.is_required() for it in cls.model_fields.values()):
            cast("Any", handler.resolve_ref_schema(schema))["serialization"] = _WHAT_IS_SET
        foreign, known = _foreign_fields(cls), _interface_of(cls).model_fields
        own_defaults = {
            name
            for name, it in cls.model_fields.items()
            if name in known and not it.is_required() and _default(it) != _default(known[name])
        }
        if not (foreign or own_defaults) and cls.model_config.get("extra") != "allow":
            return schema

        def finish(made: Self) -> Self:
            kind = problem(f"is not in the interface as {cls.__name__} has it: {_WAY_OUT}")
            lines: list[InitErrorDetails] = [
                {"type": kind, "loc": (name,), "input": _HIDDEN}
                for name in foreign or made.model_extra or ()
            ]
            if lines:
                raise ValidationError.from_exception_data(cls.__name__, lines, hide_input=True)
            made.model_fields_set.update(own_defaults)  # else what it shows would not be sent
            return made

        return no_info_after_validator_function(finish, schema)

    def __iter__(self) -> Generator[tuple[str, Any]]:
        return (it for it in super().__iter__() if it[0] in self.model_fields_set)

    @model_validator(mode="wrap")
    @classmethod
    def _validated(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise _in_plain_words(error, cls) from None

    if not TYPE_CHECKING:  # pragma: no branch - releases of pydantic differ in its options
        __hash__ = Model.__hash__

        def __eq__(self, other: object) -> bool:
            # Absent and null differ on the wire; the hash may be the same.
            if isinstance(other, RequestModel) and self.model_fields_set != other.model_fields_set:
                return False
            return super().__eq__(other)

        @classmethod
        @wraps(BaseModel.model_validate_json.__func__)
        def model_validate_json(cls, *given: Any, **options: Any) -> Self:
            try:
                return super().model_validate_json(*given, **options)
            except ValidationError as error:  # of what is no JSON, it has the whole text
                raise _in_plain_words(error, cls) from None

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        if _fields_set is not None:  # what is not in it is absent, which is not null
            ours = {it.serialization_alias: name for name, it in cls.model_fields.items()}
            set_here = {ours.get(name, name) for name in _fields_set}
            values = {it: values[it] for it in values if ours.get(it, it) in set_here}
        return cls.model_validate(values)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, with other values by either name of a field.

        Raises:
            ValidationError: a value does not fit its field, or a name is no field.
        """
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        fields = type(self).model_fields
        kept = [it for it in self.model_fields_set if fields[it].serialization_alias not in update]
        return self.model_validate({**{it: getattr(copied, it) for it in kept}, **update})


class ReplyModel(Model):
    """A reply: fields that the interface does not know are kept, in `model_extra`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


def problem(message: str) -> PydanticCustomError:
    """Return the error for a field; the message follows its name."""
    return PydanticCustomError(PROBLEM, "{message}", {"message": message})


def type_of(value: object) -> str:
    """Name the type of a value, which itself may be secret or personal."""
    return "None" if value is None else type(value).__name__


def _in_plain_words(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """Return an error of pydantic's in words for the users of a model, without values."""
    lines: list[InitErrorDetails] = []
    for detail in error.errors(include_url=False):
        is_converted = detail["type"] == PROBLEM  # that of an inner model, or of a validator
        # After the name of a field come the keys of a free JSON value, which are data.
        inner = takewhile(lambda part: isinstance(part, int), detail["loc"][1:])
        location = detail["loc"] if is_converted else (*detail["loc"][:1], *inner)
        message = detail["msg"] if is_converted else _message(detail, model)
        lines.append({"type": problem(message), "loc": location, "input": _HIDDEN})
    return ValidationError.from_exception_data(model.__name__, lines, hide_input=True)


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown(str(detail["loc"][-1]), model)
    if kind in _WANTED:
        wanted = _WANTED[kind].format_map(detail.get("ctx", {}))
        return f"must be {wanted}, not {type_of(detail['input'])}"
    return _WRONG.get(kind, f"is wrong: {detail['msg']}")


def _unknown(name: str, model: type[BaseModel]) -> str:
    fields = model.model_fields.items()
    wire_names = {ours: str(field.serialization_alias) for ours, field in fields}
    if name in wire_names:
        return f"is given twice: {wire_names[name]} is the same field"
    from difflib import get_close_matches  # noqa: PLC0415 - after a mistake only

    close = get_close_matches(name, [*wire_names, *wire_names.values()], n=1)
    hint = f"did you mean {close[0]}?" if close else f"in Python, {_WAY_OUT}"
    return f"is not a field of {model.__name__}: {hint}"


def describe(error: ValidationError, whole: str = "the value", at: Location = ()) -> str:
    """Name the first few wrong fields and the reasons, without values where the model is ours."""
    problems = error.errors(include_input=False, include_url=False)
    first = "; ".join(_described(it, whole, at) for it in problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    return first + (f"; and {more} more" if more > 0 else "")


def place_of(problem: ErrorDetails, at: Location) -> str:
    return ".".join(map(str, (*at, *problem["loc"])))[:100]


def _described(problem: ErrorDetails, whole: str, at: Location) -> str:
    field = place_of(problem, at)
    if problem["type"] == PROBLEM:
        return f"{field or whole} {problem['msg'][:150]}"
    return f"{field or 'it'}: {problem['msg'][:100]}"
