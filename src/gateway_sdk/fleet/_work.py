"""What is done with each item: an operation, or a coroutine function."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast, get_type_hints

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from gateway_sdk._checks import is_async
from gateway_sdk._http.request import check_path, encode_json
from gateway_sdk.areas import Area
from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.fleet._json import item_text
from gateway_sdk.models._base import Model, describe
from gateway_sdk.operations import CREATE_CUSTOMER, OPERATIONS, Content, Header, Operation
from gateway_sdk.outcome import Repeatability
from gateway_sdk.session import GatewaySession

Function: TypeAlias = Callable[[GatewaySession, Any], Awaitable[Any]]

_AREAS: Final[tuple[tuple[str, type[Area]], ...]] = (
    ("customer", CustomerArea),
    ("currency", CurrencyArea),
    ("wallet", WalletArea),
    ("aml", AmlArea),
    ("kyc", KycArea),
    ("country_data", CountryDataArea),
)
"""The areas of a session, by the name of its attribute."""


class Work(ABC):
    name: str
    sends_once: bool = False  # False too if that is only known when it is sent

    @abstractmethod
    def dump(self, item: Any) -> str:
        """Return an item as JSON text, after checking everything that can be checked before."""

    def check(self, gateway: object) -> None:
        """Refuse a session with which every item would fail."""
        if not isinstance(gateway, GatewaySession):
            raise InvalidArgumentError("gateway must be a GatewaySession")

    @abstractmethod
    def call(self, gateway: GatewaySession, text: str) -> Awaitable[Any]: ...


class OperationWork(Work):
    """One of the twelve operations; an item is a mapping of the arguments of its method."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.name = operation.name
        self.sends_once = operation.repeatability is Repeatability.ONCE
        self._takes_request = operation is CREATE_CUSTOMER  # an item is the request itself
        self._needs_tenant = operation.tenant_id is Header.ALWAYS
        self._attribute, area = next(
            (attribute, area) for attribute, area in _AREAS if hasattr(area, operation.name)
        )
        self._checked = getattr(area(cast("Any", _Checking())), operation.name)
        arguments = inspect.signature(self._checked)
        self._arguments = arguments.replace(  # an item has none of a single call's options
            parameters=[
                parameter
                for parameter in arguments.parameters.values()
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            ]
        )

    def dump(self, item: Any) -> str:
        """Return an item as JSON text; the method checks it, without sending anything."""
        if not isinstance(item, Mapping | BaseModel):
            names = ", ".join(self._arguments.parameters) or "none"
            raise InvalidArgumentError(
                f"it must be a model, or a mapping of the arguments of {self.name}: {names}"
            )
        if isinstance(item, BaseModel) and not self._takes_request:
            # The arguments have the names of Python, not those of the wire.
            try:
                item = item.model_dump(mode="json", exclude_unset=True)
            except PydanticSerializationError:  # its text may show the value
                raise InvalidArgumentError("it is a model with a value that is not JSON") from None
        text = item_text(dict(item) if isinstance(item, Mapping) else item)
        _drive(self._start(self._checked, text))
        return text

    def check(self, gateway: object) -> None:
        super().check(gateway)
        caller: Any = vars(gateway).get("_caller")  # a double of a session has none
        if self._needs_tenant and caller is not None and caller.options.tenant_id is None:
            raise ConfigurationError(
                f"{self.name} needs a tenant: set GATEWAY_TENANT_ID for the workers"
            )

    def call(self, gateway: GatewaySession, text: str) -> Awaitable[Any]:
        return self._start(getattr(getattr(gateway, self._attribute), self.name), text)

    def _start(self, method: Callable[..., Any], text: str) -> Coroutine[Any, Any, Any]:
        item = json.loads(text)
        if self._takes_request:
            return cast("Coroutine[Any, Any, Any]", method(item))
        try:
            self._arguments.bind(**item)
        except TypeError as error:
            raise InvalidArgumentError(f"{self.name}: {error}") from None
        return cast("Coroutine[Any, Any, Any]", method(**item))


class _Checking:
    """Takes the place of what sends, and checks what would be sent."""

    async def value(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = MappingProxyType({}),
        body: object = None,
        **_: Any,
    ) -> None:
        check_path(operation, path)
        if isinstance(body, Model):
            item_text(body)  # which refuses secrets
        if operation.content is Content.JSON:
            encode_json(body)


def _drive(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a check must not wait")  # pragma: no cover - a bug of ours


class FunctionWork(Work):
    """A coroutine function of a session and an item, which is validated as its type."""

    def __init__(self, function: Any) -> None:
        if not is_async(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                "must be a coroutine function of (gateway, item)", setting="function"
            )
        self._function: Function = function
        # Without its module, which has another name in the process that it is the main one of.
        self.name = f"{getattr(function, '__qualname__', type(function).__qualname__)}()"
        self._items: TypeAdapter[Any] = _items_of(function)

    def dump(self, item: Any) -> str:
        text = item_text(item)
        self._load(text)
        return text

    def _load(self, text: str) -> Any:
        try:
            return self._items.validate_json(text)
        except ValidationError as error:
            raise InvalidArgumentError(describe(error)) from None

    def call(self, gateway: GatewaySession, text: str) -> Awaitable[Any]:
        return self._function(gateway, self._load(text))


def _items_of(function: Any) -> TypeAdapter[Any]:
    called = function if inspect.isroutine(function) else function.__call__
    try:
        bound = inspect.signature(called).bind(None, None)
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
        return TypeAdapter(JsonValue if hint is Any else hint)
    except (PydanticSchemaGenerationError, PydanticUserError):
        raise ConfigurationError(
            f"function takes a {getattr(hint, '__name__', hint)} as its item: items are JSON, or"
            " models of pydantic"
        ) from None


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
