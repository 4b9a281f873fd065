"""The customer and KYC areas: create customers, revise them, and call the webhook."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gateway_sdk import operations
from gateway_sdk.areas import Area, checked, wrong

if TYPE_CHECKING:
    from gateway_sdk.models import CreateRequest, Revision


class CustomerArea(Area):
    """Creates customers and revises them."""

    async def create_customer(self, request: "CreateRequest | Mapping[str, Any]") -> Any:
        """Create a customer; a second call creates a second one, so it is never repeated for you.

        Args:
            request: The model, or a mapping with its Python or wire names.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            InvalidArgumentError: the request does not fit, or the session has no `tenant_id`.
            StatusError: the gateway refused the request, or failed.
            GatewayError: its `outcome` says whether the customer may have been created.
        """
        # Interface: Endpoints 1
        from gateway_sdk.models.customer import CreateRequest  # noqa: PLC0415 - built in 20 ms

        body = checked(operations.CREATE_CUSTOMER, CreateRequest, request)
        return await self._caller.value(operations.CREATE_CUSTOMER, body=body)

    async def revise_customer(
        self, customer_id: str, revisions: "Mapping[str, str] | Iterable[Revision]"
    ) -> Any:
        """Change fields of an existing customer.

        Args:
            customer_id: The gateway's id of the customer.
            revisions: A mapping of keys to new values, or `Revision` objects; sent in this order.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            InvalidArgumentError: there is no revision, or one does not have two strings.
            GatewayError: its `outcome` says whether the customer may have been changed.
        """
        # Interface: Endpoints 2; Revision entry
        entries = _revisions(revisions)
        if not entries:
            raise wrong(operations.REVISE_CUSTOMER, "revisions is empty")
        return await self._caller.value(
            operations.REVISE_CUSTOMER,
            path={"customerId": customer_id},
            body={"revisions": entries},
        )


def _revisions(given: Any) -> "list[Revision]":
    from gateway_sdk.models.customer import Revision  # noqa: PLC0415 - built in 20 ms

    if isinstance(given, Mapping):
        if set(given) == {"key", "value"}:
            raise wrong(
                operations.REVISE_CUSTOMER,
                "revisions is one entry: give a list of entries, or a mapping of keys to values",
            )
        given = [{"key": key, "value": value} for key, value in given.items()]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong(operations.REVISE_CUSTOMER, "revisions must be a mapping or an iterable")
    return [checked(operations.REVISE_CUSTOMER, Revision, entry) for entry in given]
