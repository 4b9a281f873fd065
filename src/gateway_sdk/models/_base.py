"""The base of all models: frozen, strict, with wire names; absent is not null. No I/O here."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

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
from pydantic_core import PydanticSerializationError

from gateway_sdk._python import safe_repr
from gateway_sdk.models._problems import in_plain_words, problem

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
    """Replaces a value in a repr."""

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

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel, serialization_alias=to_camel),
        allow_inf_nan=False,
        frozen=True,
        hide_input_in_errors=True,
        ser_json_inf_nan="constants",
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

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


def wire_json(model: Model) -> bytes | None:
    """Return the JSON of `to_wire`, as UTF-8 and in half the time; None if `to_wire` is needed.

    It is needed for a model that was made without validation, for what may hold NaN or infinity,
    and for long JSON, in which a number may have more digits than Python writes.
    """
    try:
        data = model.model_dump_json(**_ON_THE_WIRE).encode()
    except PydanticSerializationError:
        return None
    return None if len(data) > _MOST_DIGITS or b"NaN" in data or b"Infinity" in data else data


class RequestModel(Model):
    """A request: a field that the interface does not know is refused.

    A value that does not fit raises a `ValidationError`, which names the field, what it must be
    and what was given, in the same words as the errors of the methods.
    """

    model_config = ConfigDict(extra="forbid")
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

    model_config = ConfigDict(extra="allow")
