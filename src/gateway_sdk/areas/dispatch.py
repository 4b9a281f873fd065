"""Any of the twelve operations by its name, with its arguments as a mapping."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, cast

from gateway_sdk._call.call import Unchecked
from gateway_sdk._http.request import check_path, encode_json
from gateway_sdk.areas import Area
from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea
from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.models._base import MASK, Model
from gateway_sdk.operations import CREATE_CUSTOMER, Content, Operation

_AREAS: Final[Mapping[str, type[Area]]] = {
    "customer": CustomerArea,
    "currency": CurrencyArea,
    "wallet": WalletArea,
    "aml": AmlArea,
    "kyc": KycArea,
    "country_data": CountryDataArea,
}


class OperationMethod:
    """The coroutine method of an operation, for callers that store its arguments as data.

    The arguments are a mapping by the names of the method's parameters, as JSON has them; of
    `create_customer` they are the request itself.
    """

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation: Final = operation
        self._area = next(name for name, area in _AREAS.items() if hasattr(area, operation.name))
        checking = _AREAS[self._area](cast("Any", _Checking()))
        self._checked = getattr(checking, operation.name)
        parameters = inspect.signature(self._checked).parameters.values()
        # Without the options of a single call.
        self._signature = inspect.Signature(
            [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        )

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments as a call does, without sending anything.

        Raises:
            InvalidArgumentError: they do not fit, or hold a secret; the message says what is wrong.
        """
        with suppress(StopIteration):  # it never waits
            self._start(self._checked, arguments).send(None)

    def call(self, gateway: Any, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Return the call of a GatewaySession, to be awaited, as its method does."""
        area = getattr(gateway, self._area)
        return self._start(getattr(area, self.operation.name), arguments)

    def _start(
        self, method: Callable[..., Coroutine[Any, Any, Any]], arguments: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        if not isinstance(cast("object", arguments), Mapping):
            names = ", ".join(self._signature.parameters) or "none"
            raise InvalidArgumentError(
                f"must be a mapping of the arguments of {self.operation.name}: {names}"
            )
        if self.operation is CREATE_CUSTOMER:
            return method(arguments)
        try:
            self._signature.bind(**arguments)
        except TypeError as error:
            raise InvalidArgumentError(f"{self.operation.name}: {error}") from None
        return method(**arguments)


class _Checking:
    """Takes the place of what sends, and checks what would be sent."""

    async def call(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = MappingProxyType({}),
        body: object = None,
        **_: Any,
    ) -> None:
        if isinstance(body, Unchecked):
            body = body()
        check_path(operation, path)
        if operation.content is Content.JSON:
            encode_json(body)
        if isinstance(body, Model) and MASK in body.model_dump_json():
            raise InvalidArgumentError("it holds a secret, which would be kept in clear")
