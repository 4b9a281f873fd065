"""The base of all models: frozen, strict, with wire names; absent is not null. No I/O here.

What is wrong with a request is said in plain words: the field, what is wanted, what was given.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import (
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
)

from gateway_sdk._python import safe_repr

T = TypeVar("T")

_MOST_DIGITS: Final = 4300  # of an integer that Python writes by default

MASK: Final = str(SecretStr("any"))
_IN_CLEAR: Final = object()  # a context that only `to_wire` and `wire_json` hold
_ON_THE_WIRE: Final[dict[str, Any]] = {
    "by_alias": True,
    "exclude_unset": True,
    "context": _IN_CLEAR,
    "warnings": "error",
}


class _Hidden:
    def __repr__(self) -> str:
        return "…"


_HIDDEN: Final = _Hidden()


def _refuse_null(value: T | None) -> T:
    """Refuse an explicit null where the interface does not allow one."""
    if value is None:
        raise problem("may be left out, but not null")
    return value


def _refuse_mask(secret: SecretStr) -> SecretStr:
    """Refuse the mask: from a dumped model it would become the password of every customer."""
    if secret.get_secret_value() == MASK:
        raise problem("is the mask of a secret, not a secret")
    return secret


def _dump_secret(secret: SecretStr | None, info: SerializationInfo) -> SecretStr | str | None:
    """Return the clear text for `to_wire`, and the mask for every other dump."""
    if secret is None:
        return None
    if info.context is _IN_CLEAR:
        return secret.get_secret_value()
    return secret if info.mode == "python" else MASK


Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
NotNull = Annotated[T | None, BeforeValidator(_refuse_null)]
"""Optional: None if it was not given; an explicit None is refused."""
Items = Annotated[Sequence[T] | None, BeforeValidator(_refuse_null), AfterValidator(tuple)]
"""A list or tuple, kept as a tuple. Optional: None if not given; an explicit None is refused."""
Secret = Annotated[
    Annotated[SecretStr, AfterValidator(_refuse_mask)] | None, PlainSerializer(_dump_secret)
]
"""Masked in repr, dumps and logs; clear text only in `to_wire()`. May be null."""


class Model(BaseModel):
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

    if not TYPE_CHECKING:  # pragma: no branch - type checkers would allow assignments

        def __setattr__(self, name: str, value: object) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError as error:  # it shows the value, which may be secret
                raise in_plain_words(error, type(self), personal=True) from None

    @safe_repr
    def __repr__(self) -> str:
        return super().__repr__()

    @safe_repr
    def __str__(self) -> str:
        return super().__str__()

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object to send: wire names, only fields that were set, clear secrets.

        A model that was made without validation, by `model_construct` or
        `model_copy(update=...)`, is validated here.

        Raises:
            ValueError: a value does not fit its field.
        """
        with suppress(PydanticSerializationError):  # its text shows the value
            return self._dumped()
        given = {name: getattr(self, name) for name in self.model_fields_set}
        validated = type(self).model_validate(given)
        with suppress(PydanticSerializationError):
            return validated._dumped()  # noqa: SLF001 - of the same class
        msg = f"{type(self).__name__} holds a model that was made without validation"
        raise ValueError(msg)

    def _dumped(self) -> dict[str, Any]:
        return self.model_dump(mode="json", **_ON_THE_WIRE)


@lru_cache(maxsize=64)
def _has_text_fields_only(kind: type[Model]) -> bool:
    return all(field.annotation is str for field in kind.model_fields.values())


def _is_text(model: Model) -> bool:
    """Tell whether a model has texts only, which are neither secret nor wrong."""
    if not _has_text_fields_only(type(model)):
        return False
    for value in model.__dict__.values():  # noqa: SIM110 - `all` takes ten times as long
        if type(value) is not str:  # it was made without validation
            return False
    return True


def wire_json(model: Model) -> bytes | None:
    """Return the JSON of `to_wire`, as UTF-8 and in half the time; None if `to_wire` is needed."""
    # For a model that was made without validation, for what may hold NaN or infinity, and for long
    # JSON, in which a number may have more digits than Python writes.
    # The serializer itself: `model_dump_json` takes twice as long.
    write = model.__pydantic_serializer__.to_json
    try:
        if _is_text(model):  # no context and no warnings are needed, and it takes half as long
            return write(model, by_alias=True, exclude_unset=True)
        data = write(model, **_ON_THE_WIRE)
    except PydanticSerializationError:
        return None
    return None if len(data) > _MOST_DIGITS or b"NaN" in data or b"Infinity" in data else data


class RequestModel(Model):
    """A request: a field that the interface does not know is refused.

    A value that does not fit raises a `ValidationError`, which names the field, what it must be
    and what was given, in the same words as the errors of the methods.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    _personal: ClassVar[bool] = False

    @model_validator(mode="wrap")
    @classmethod
    def _in_plain_words(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise in_plain_words(error, cls, personal=cls._personal) from None


class PersonalModel(RequestModel):
    """A request that holds personal data: its repr names the fields that are set, no values."""

    _personal: ClassVar[bool] = True

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        set_here = self.model_fields_set
        return ((name, _HIDDEN) for name in type(self).model_fields if name in set_here)


class ReplyModel(Model):
    """A reply: fields that the interface does not know are kept, in `model_extra`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


PROBLEM: Final = "wrong_argument"
"""The type of these errors, which differs from pydantic's own types."""

_LONGEST_VALUE: Final = 40  # characters; longer values are not shown
_SHOWN_PROBLEMS: Final = 10
_SHOWN_TYPES: Final = (str, bytes, bool, int, float)

_LIST: Final = ("a list or tuple", "a list, [...]")
# By type of pydantic's errors, in the words of Python and of JSON. A field with other needs has its
# own validator.
_WANTED: Final = {
    "string_type": ("a string", "a string"),
    "string_sub_type": ("a string", "a string"),
    "int_type": ("a whole number", "a whole number"),
    "bool_type": ("True or False", "true or false"),
    "is_instance_of": _LIST,
    "list_type": _LIST,
    "sequence_str": _LIST,
    "invalid-json-value": ("a JSON value", "a JSON value"),
    "model_type": ("{article} {class_name} or a mapping", "an object, {{...}}"),
}
_GIVEN_IN_JSON: Final = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
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


def problem(message: str, in_json: str = "") -> PydanticCustomError:
    """Return the error for a field; the message follows its name, also in the words of JSON."""
    words = {"message": message, "in_json": in_json or message}
    return PydanticCustomError(PROBLEM, "{message}", words)


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
    words = _words(detail, model, personal=personal)
    # The input would be in errors() and in pickles.
    given = None if personal else detail["input"]
    return {"type": problem(*words), "loc": _location(detail, model), "input": given}


def _location(detail: ErrorDetails, model: type[BaseModel]) -> tuple[int | str, ...]:
    location = detail["loc"]
    if detail["type"] == PROBLEM:
        return location
    if detail["type"] == "missing":
        return (_attribute(model, location[0]),)
    # After "dict" and "list" come the keys of a free JSON value: they are data, not field names.
    inner = takewhile(lambda part: part not in ("dict", "list"), location[1:])
    return (*location[:1], *inner)


def _words(
    detail: ErrorDetails, model: type[BaseModel], *, personal: bool
) -> tuple[str] | tuple[str, str]:
    """Return what is wrong, and the same in the words of JSON where these differ."""
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == PROBLEM:
        return context["message"], context["in_json"]
    if kind == "extra_forbidden":
        return (_unknown(str(detail["loc"][-1]), model),)
    if kind in _WRONG:
        return (_WRONG[kind],)
    if kind not in _WANTED:
        return (f"is wrong: {detail['msg']}",)
    vowel = context.get("class_name", "").startswith(tuple("AEIOU"))
    parts = {"article": "an" if vowel else "a", **context}
    wanted, in_json = (words.format_map(parts) for words in _WANTED[kind])
    return (
        f"must be {wanted}, not {shown(value, personal=personal)}",
        f"must be {in_json}, not {_GIVEN_IN_JSON.get(type(value), 'null')}",
    )


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


def describe(error: ValidationError, words: Literal["message", "in_json"] = "message") -> str:
    """Name the first few wrong fields and the reasons, without their values."""
    problems = error.errors(include_input=False, include_url=False)
    shown = [_described(problem, words) for problem in problems[:_SHOWN_PROBLEMS]]
    more = len(problems) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _described(problem: ErrorDetails, words: str) -> str:
    field = ".".join(map(str, problem["loc"]))[:100]
    if problem["type"] == PROBLEM:
        return f"{field or 'the value'} {problem.get('ctx', {})[words][:150]}"
    return f"{field or 'it'}: {problem['msg'][:100]}"
