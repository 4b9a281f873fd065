"""The six areas of the gateway: coroutine methods on top of `Caller`. Here is their base."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from gateway_sdk._call.call import Caller
from gateway_sdk._call.options import PER_CALL, PerCall
from gateway_sdk._checks import shown
from gateway_sdk.errors import InvalidArgumentError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class IntoType(PerCall, Generic[T]):
    """The options of a call whose reply is validated into a type."""

    into: type[T]


class IntoAny(PerCall, total=False):
    """The options of a call whose reply the interface leaves open; a union is no `type`."""

    into: Any


class Late:
    """A generic class in annotations, which is loaded when somebody evaluates one."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    def __getitem__(self, kinds: Any) -> Any:
        module, name = self._place
        return getattr(import_module(module), name)[kinds]


class Area:
    """A group of operations, with a coroutine method for each.

    The method of an operation takes two arguments for this call alone: more `headers`, and its
    `deadline` in seconds. Where the interface leaves the reply open, it returns the decoded body,
    None if it is empty; `into`, any type that pydantic can validate, is the type of your gateway's
    replies, which may differ from the sandbox's.

    Raises:
        InvalidArgumentError: an argument is wrong; nothing was sent.
        GatewayError: the call failed; its `outcome` says what the gateway did.
    """

    def __init_subclass__(cls) -> None:
        for method in vars(cls).values():
            if "call" in getattr(method, "__annotations__", ()):
                shown(inherited=PER_CALL)(method)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller


def as_model(model: type[M], values: Any, *at: str | int) -> M:
    """Make a model of the arguments, or raise `InvalidArgumentError`, which names the fields."""
    # Each name begins with *at*.
    is_other = type(values) is not dict and isinstance(values, Mapping)
    try:
        # The validator itself: `model_validate` takes longer.
        made: M = model.__pydantic_validator__.validate_python(dict(values) if is_other else values)
    except ValidationError as error:
        from gateway_sdk.models._base import describe, place_of  # noqa: PLC0415 - after a mistake only

        field = place_of(error.errors(include_input=False)[0], at) or "request"
        problem = describe(error, "request", at).removeprefix(f"{field} ")
        # No cause: it holds the values.
        raise InvalidArgumentError(problem, field=field) from None
    return made
