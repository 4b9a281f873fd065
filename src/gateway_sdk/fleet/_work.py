"""What is done with each item: an operation, or a coroutine function."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json

from gateway_sdk.areas.dispatch import OperationMethod
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.operations import CREATE_CUSTOMER, OPERATIONS, Operation
from gateway_sdk.outcome import Repeatability
from gateway_sdk.session import GatewaySession

Function: TypeAlias = Callable[[GatewaySession, Any], Awaitable[Any]]

_ANY: Final = TypeAdapter[Any](Any, config=ConfigDict(ser_json_inf_nan="constants"))
_MASK: Final = str(SecretStr("any")).encode()


class OperationWork:
    """One of the twelve operations; an item is a mapping of the arguments of its method."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.is_once = operation.repeatability is Repeatability.ONCE
        self._takes_request = operation is CREATE_CUSTOMER
        self._method = OperationMethod(operation)

    def dump(self, item: Any) -> bytes:
        """Return an item as JSON, after checking everything that can be checked before."""
        if isinstance(item, BaseModel):
            # The arguments have the names of Python, those of a request the names of the wire.
            by_alias = self._takes_request
            try:
                item = item.model_dump(mode="json", by_alias=by_alias, exclude_unset=True)
            except PydanticSerializationError:  # its text may show the value
                raise InvalidArgumentError("it is a model with a value that is not JSON") from None
        text = _json(item if not isinstance(item, Mapping) else dict(item))
        self._method.check(from_json(text))
        return text

    def call(self, gateway: GatewaySession, item: Any) -> Awaitable[Any]:
        return self._method.call(gateway, item)


class FunctionWork:
    """A coroutine function of a session and an item, which is validated as its type."""

    is_once = False  # it is only known when something is sent

    def __init__(self, function: Any) -> None:
        called: Any = function if inspect.isroutine(function) else type(function).__call__
        given: Any = function
        if not callable(function) or not iscoroutinefunction(called):
            raise ConfigurationError(
                "must be a coroutine function of (gateway, item)", setting="function"
            )
        self._function: Function = given
        self._items = _adapter_of(called, given)

    def dump(self, item: Any) -> bytes:
        text = _json(item)
        self._load(text)
        return text

    def _load(self, text: bytes) -> Any:
        try:
            return self._items.validate_json(text)
        except ValidationError as error:
            raise InvalidArgumentError(_described(error)) from None

    def call(self, gateway: GatewaySession, item: Any) -> Awaitable[Any]:
        # As JSON: strict models take other things from Python.
        return self._function(gateway, self._load(to_json(item)))


def _adapter_of(called: Any, function: Any) -> TypeAdapter[Any]:
    try:
        bound = inspect.signature(function).bind(None, None)
    except TypeError:
        raise ConfigurationError(
            "must take two arguments: (gateway, item)", setting="function"
        ) from None
    parameter = list(bound.signature.parameters.values())[min(1, len(bound.arguments) - 1)]
    try:
        hint = get_type_hints(called).get(parameter.name, Any)
    except NameError as error:
        raise ConfigurationError(
            f"function names a type that is not there when it runs ({error.name}): import it"
            " outside of `if TYPE_CHECKING`"
        ) from None
    try:
        return TypeAdapter(hint)
    except (PydanticSchemaGenerationError, PydanticUserError):
        raise ConfigurationError(
            f"function takes a {getattr(hint, '__name__', hint)} as its item: items are JSON, or"
            " models of pydantic"
        ) from None


def _described(error: ValidationError) -> str:
    """Name what is wrong without showing the values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'it'}: {problem['msg']}" for problem in problems
    )


def _json(item: Any) -> bytes:
    """Write an item; equal items have equal texts."""
    try:
        # Refused: too deep items, too long integers, and numbers that JSON does not know.
        plain = from_json(_ANY.dump_json(item, by_alias=True, exclude_unset=True))
        text = json.dumps(
            plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True
        ).encode()
    except (PydanticSerializationError, RecursionError, TypeError, ValueError) as error:
        # Without the cause, whose text may show the value.
        raise InvalidArgumentError(f"it is no JSON value ({type(error).__name__})") from None
    if _MASK in text:
        raise InvalidArgumentError(
            "it holds a secret, which would be kept in clear: use function=, and let it fetch the"
            " secret where the call is made"
        )
    return text


Work: TypeAlias = OperationWork | FunctionWork


def make_work(operation: object, function: object) -> Work:
    if (operation is None) == (function is None):
        raise ConfigurationError("give either operation= or function=")
    if operation is None:
        return FunctionWork(function)
    names = {known.name: known for known in OPERATIONS}
    name = operation.name if isinstance(operation, Operation) else operation
    if not isinstance(name, str) or name not in names:
        raise ConfigurationError(f"operation must be one of {', '.join(names)}")
    return OperationWork(names[name])
