"""The customer area: creates customers and revises them."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, Unpack, overload

from gateway_sdk import models, operations
from gateway_sdk._call.options import Unchecked
from gateway_sdk.areas import Area, IntoAny, IntoType, T, as_model
from gateway_sdk.errors import InvalidArgumentError

Customer: TypeAlias = "models.CreateRequest | Mapping[str, Any]"
Revisions: TypeAlias = "Mapping[str, str] | Iterable[models.Revision]"


class CustomerArea(Area):
    """Creates customers and revises them."""

    @overload
    async def create_customer(self, request: "Customer", **call: Unpack[IntoType[T]]) -> T: ...

    @overload
    async def create_customer(self, request: "Customer", **call: Unpack[IntoAny]) -> Any: ...

    async def create_customer(self, request: "Customer", **call: Unpack[IntoAny]) -> Any:
        """Create a customer; a second call creates a second one, so it is never repeated for you.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"customerId": "customer-0005", "externalCustomerId": "crm-1815"}
        ```

        Args:
            request: The model, or a mapping with its Python or wire names.

        Raises:
            InvalidArgumentError: the request does not fit, or the session has no `tenant_id`.
            GatewayError: its `outcome` says whether the customer may have been created.
        """
        # Interface: Endpoints 1
        body = Unchecked(lambda: as_model(models.CreateRequest, request))
        return await self._caller.call(operations.CREATE_CUSTOMER, call, body=body)

    @overload
    async def revise_customer(
        self, customer_id: str, revisions: "Revisions", **call: Unpack[IntoType[T]]
    ) -> T: ...

    @overload
    async def revise_customer(
        self, customer_id: str, revisions: "Revisions", **call: Unpack[IntoAny]
    ) -> Any: ...

    async def revise_customer(
        self, customer_id: str, revisions: "Revisions", **call: Unpack[IntoAny]
    ) -> Any:
        """Change fields of an existing customer.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"customerId": "customer-0001", "current": {"email": "ada@example.com"}}
        ```

        Args:
            customer_id: The gateway's id of the customer.
            revisions: A mapping of keys to new values, or `Revision` objects; sent in this order.

        Raises:
            InvalidArgumentError: there is no revision, or one does not have two strings.
            NotFoundError: there is no such customer.
            GatewayError: its `outcome` says whether the customer may have been changed.
        """
        # Interface: Endpoints 2; Revision entry
        return await self._caller.call(
            operations.REVISE_CUSTOMER,
            call,
            path={"customerId": customer_id},
            body=Unchecked(lambda: {"revisions": _revisions(revisions)}),
        )


def _revisions(given: Any) -> "list[models.Revision]":
    if isinstance(given, models.Revision) or (
        isinstance(given, Mapping) and set(given) == {"key", "value"}
    ):
        problem = "is one entry: give a list of entries, or a mapping of keys to values"
        raise InvalidArgumentError(problem, field="revisions")
    if isinstance(given, Mapping):
        given = [{"key": key, "value": value} for key, value in given.items()]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidArgumentError("must be a mapping or an iterable", field="revisions")
    entries = [
        as_model(models.Revision, entry, "revisions", place) for place, entry in enumerate(given)
    ]
    if not entries:
        raise InvalidArgumentError("is empty", field="revisions")
    return entries
