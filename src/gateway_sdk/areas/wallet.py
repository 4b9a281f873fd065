"""The wallet area: shows orders and balances, and cancels orders."""

from typing import Any

from gateway_sdk import operations
from gateway_sdk.areas._area import Area, checked
from gateway_sdk.models import OrderHistoryPage


class WalletArea(Area):
    """Shows orders and balances, and cancels orders."""

    async def order_history(self, page: int, take: int) -> Any:
        """Return one page of the tenant's order history.

        Args:
            page: The number of the page; the interface does not say whether the first is 0 or 1.
            take: The number of orders in a page; the interface gives no bounds.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            InvalidArgumentError: an argument is not an integer.
            GatewayError: the page did not come; asking again does no harm.
        """
        # Interface: Endpoints 4; Order history page request
        body = checked(operations.ORDER_HISTORY, OrderHistoryPage, {"page": page, "take": take})
        return (await self._caller.send(operations.ORDER_HISTORY, body=body)).value

    async def trading_order_history(self, customer_id: str) -> Any:
        """Return the trading orders of a customer.

        Args:
            customer_id: The gateway's id of the customer.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            GatewayError: the orders did not come; asking again does no harm.
        """
        # Interface: Endpoints 5
        path = {"customerId": customer_id}
        return (await self._caller.send(operations.TRADING_ORDER_HISTORY, path=path)).value

    async def spot_trading_available_balance(self) -> Any:
        """Return the balance that the tenant has for spot trading.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            GatewayError: the balance did not come; asking again does no harm.
        """
        # Interface: Endpoints 6
        return (await self._caller.send(operations.SPOT_TRADING_AVAILABLE_BALANCE)).value

    async def cancel_order(self, wallet_id: str, order_id: str) -> Any:
        """Cancel a trading order.

        Cancelling an order twice has the same effect as cancelling it once, so a lost attempt is
        repeated unless the session's `RetryPolicy` forbids it.

        Args:
            wallet_id: The gateway's id of the wallet.
            order_id: The gateway's id of the order.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            NotFoundError: there is no such order. If `outcome` is UNKNOWN, an earlier attempt was
                lost and may have cancelled the order.
            GatewayError: its `outcome` says whether the order may have been cancelled.
        """
        # Interface: Endpoints 7
        path = {"walletId": wallet_id, "orderId": order_id}
        return (await self._caller.send(operations.CANCEL_ORDER, path=path)).value
