"""The six areas of the gateway: coroutine methods on top of `Caller`. Here is their base."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, overload

from pydantic import ValidationError

from gateway_sdk._call.call import Caller
from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import Model, describe
from gateway_sdk.operations import Operation

A = TypeVar("A", bound="Area")
M = TypeVar("M", bound=Model)


class Area:
    """A group of operations."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller


class AreaOf(Generic[A]):
    """An area of a session: each session has its own; of the class, it is the class of the area.

    `unittest.mock.create_autospec(GatewaySession)` finds the methods of the area there. Of a
    property it would not.
    """

    def __init__(self, kind: type[A]) -> None:
        self._kind = kind

    @overload
    def __get__(self, session: None, owner: type) -> type[A]: ...

    @overload
    def __get__(self, session: object, owner: type) -> A: ...

    def __get__(self, session: object, owner: type) -> type[A] | A:
        if session is not None:
            raise AttributeError("the session is not fully made")
        return self._kind


def checked(operation: Operation[Any], model: type[M], values: Any) -> M:
    """Make a model of the arguments, before anything is sent.

    Raises:
        InvalidArgumentError: the arguments do not fit; the message names the fields.
    """
    try:
        is_other = type(values) is not dict and isinstance(values, Mapping)
        given = dict(values) if is_other else values
        made: M = model.__pydantic_validator__.validate_python(given)
    except ValidationError as error:
        # No cause: it holds the values.
        raise wrong(operation, describe(error)) from None
    else:
        return made


def wrong(operation: Operation[Any], message: str) -> InvalidArgumentError:
    """Return the error for a wrong argument of an operation."""
    return InvalidArgumentError(message).of_call(operation.name, operation.repeatability, ())
