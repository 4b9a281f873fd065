"""The base of all models: frozen, strict, with wire names; absent is not null. No I/O here."""

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError

from gateway_sdk._python import safe_repr
from gateway_sdk.models._words import in_plain_words

_MOST_DIGITS: Final = 4300  # of an integer that Python writes by default

MASK: Final = str(SecretStr("any"))
IN_CLEAR: Final = object()  # a context that only the JSON to send is written with
_ON_THE_WIRE: Final[dict[str, Any]] = {
    "by_alias": True,
    "exclude_unset": True,
    "context": IN_CLEAR,
    "warnings": "error",
}


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

        A model that was made without validation, by `model_construct`, is validated here.

        Raises:
            ValueError: a value does not fit its field.
        """
        values = {**self.__dict__, **(self.model_extra or {})}  # a name may be that of a method
        given = {name: value for name, value in values.items() if name in self.model_fields_set}
        validated = type(self).model_validate(given)
        with suppress(PydanticSerializationError):  # its text shows the value
            return validated.model_dump(mode="json", **_ON_THE_WIRE)
        msg = f"{type(self).__name__} holds a model that was made without validation"
        raise ValueError(msg)

    def _wire_json(self) -> bytes | None:
        """Return the JSON of `to_wire` in half the time; None if `to_wire` is needed."""
        # For a model that was made without validation, for what may hold NaN or infinity, and for
        # long JSON, in which a number may have more digits than Python writes.
        # The serializer itself: `model_dump_json` takes twice as long.
        write = self.__pydantic_serializer__.to_json
        try:
            if _is_text(self):  # no context and no warnings are needed, and it takes half as long
                return write(self, by_alias=True, exclude_unset=True)
            if not _required(type(self)) <= self.__dict__.keys():
                return None
            data = write(self, **_ON_THE_WIRE)
        except PydanticSerializationError:
            return None
        return None if len(data) > _MOST_DIGITS or b"NaN" in data or b"Infinity" in data else data


@lru_cache(maxsize=64)
def _required(kind: type[Model]) -> frozenset[str]:
    """Return the fields that a model must have, which `model_construct` does not check."""
    return frozenset(name for name, field in kind.model_fields.items() if field.is_required())


@lru_cache(maxsize=64)
def _text_fields(kind: type[Model]) -> int:
    """Count the fields of a model that has texts only; 0 for another one."""
    fields = kind.model_fields.values()
    return len(fields) if all(field.annotation is str for field in fields) else 0


def _is_text(model: Model) -> bool:
    """Tell whether a model has texts only, which are neither secret, wrong nor missing."""
    if len(model.__dict__) != _text_fields(type(model)):
        return False
    for value in model.__dict__.values():  # noqa: SIM110 - `all` takes ten times as long
        if type(value) is not str:  # it was made without validation
            return False
    return True


class RequestModel(Model):
    """A request: a field that the interface does not know is refused.

    A value that does not fit raises a `ValidationError`, which names the field, what it must be
    and what was given, in the same words as the errors of the methods. Do not subclass a request:
    inside another one, the fields that a subclass adds are not sent.
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
