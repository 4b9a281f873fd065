"""The wallet area: shows orders and balances, and cancels orders."""

from collections.abc import AsyncGenerator
from typing import Any, Unpack, overload

from gateway_sdk import models, operations
from gateway_sdk._call.call import Call
from gateway_sdk._call.options import Unchecked
from gateway_sdk._http.reply import check_type
from gateway_sdk.areas import Area, IntoAny, IntoType, T, as_model


class WalletArea(Area):
    """Shows orders and balances, and cancels orders."""

    @overload
    async def order_history(self, page: int, take: int, **call: Unpack[IntoType[T]]) -> T: ...

    @overload
    async def order_history(self, page: int, take: int, **call: Unpack[IntoAny]) -> Any: ...

    async def order_history(self, page: int, take: int, **call: Unpack[IntoAny]) -> Any:
        """Return one page of the tenant's order history.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"page": 1, "take": 1, "total": 57, "orders": [
        {"orderId": "order-0057", "customerId": "customer-0001", "walletId": "wallet-0001",
         "pair": "EUR/PLN", "side": "sell", "quantity": "198.31", "price": "4.3994",
         "status": "filled", "createdAt": "2026-09-22T17:32:42.000Z"}]}
        ```

        Args:
            page: The number of the page; the interface does not say whether the first is 0 or 1.
            take: The number of orders in a page; the interface gives no bounds.

        Raises:
            InvalidArgumentError: an argument is not an integer.
            GatewayError: the page did not come; asking again does no harm.
        """
        # Interface: Endpoints 4; Order history page request
        body = _page_request(page, take)
        return await self._caller.call(operations.ORDER_HISTORY, call, body=body)

    @overload
    def order_history_pages(
        self, take: int = 100, *, first_page: int = 1, **call: Unpack[IntoType[T]]
    ) -> AsyncGenerator[T, None]: ...

    @overload
    def order_history_pages(
        self, take: int = 100, *, first_page: int = 1, **call: Unpack[IntoAny]
    ) -> AsyncGenerator[Any, None]: ...

    async def order_history_pages(
        self, take: int = 100, *, first_page: int = 1, **call: Unpack[IntoAny]
    ) -> AsyncGenerator[Any, None]:
        """Yield the pages of the tenant's order history, up to an empty one.

        The interface leaves the reply open and says neither where pages begin nor how they end, so
        this assumes: pages are numbered one by one from *first_page*; a page is a list of orders,
        or an object in which one value is a list, the orders; after the last page come empty ones,
        or a null in place of the list, alone.
        Orders that are placed meanwhile may move others to the next page, which then has them too.

        Args:
            take: How many orders a page has; the interface gives no bounds.
            first_page: The first page. Of a gateway that counts from 0, the default would leave
                out the newest orders.

        Yields:
            The decoded body of each page that has orders, as `order_history` returns it; `into` is
            the type of a page, and validates it when its orders have been found.

        Raises:
            InvalidArgumentError: an argument is no integer.
            UnexpectedReplyError: a page is of another shape, or the same as the one before, so the
                end cannot be told.
            GatewayError: a page did not come; asking again does no harm.
        """
        # Interface: Endpoints 4; Order history page request
        before: list[Any] | None = None
        name: str | None = None
        page = first_page
        into = call.pop("into", None)
        if into is not None:
            check_type(into)
        while True:
            made = Call(self._caller.shared, self._caller.options, operations.ORDER_HISTORY)
            value = await made.run(call, body=_page_request(page, take))
            name, orders = _orders_of(value, name)
            if orders is None:
                raise made.unexpected("the page has no list of orders, or several lists")
            if not orders:
                return
            if orders == before:
                raise made.unexpected("the gateway returned the same page twice")
            yield value if into is None else made.read_into(into)
            before = orders
            page += 1

    @overload
    async def trading_order_history(self, customer_id: str, **call: Unpack[IntoType[T]]) -> T: ...

    @overload
    async def trading_order_history(self, customer_id: str, **call: Unpack[IntoAny]) -> Any: ...

    async def trading_order_history(self, customer_id: str, **call: Unpack[IntoAny]) -> Any:
        """Return the trading orders of a customer.

        The interface leaves the reply open (see `Area`); that of the sandbox is an object with the
        members "customerId" and "orders", whose orders are as `order_history` has them.

        Args:
            customer_id: The gateway's id of the customer.

        Raises:
            NotFoundError: there is no such customer.
            GatewayError: the orders did not come; asking again does no harm.
        """
        # Interface: Endpoints 5
        path = {"customerId": customer_id}
        return await self._caller.call(operations.TRADING_ORDER_HISTORY, call, path=path)

    @overload
    async def spot_trading_available_balance(self, **call: Unpack[IntoType[T]]) -> T: ...

    @overload
    async def spot_trading_available_balance(self, **call: Unpack[IntoAny]) -> Any: ...

    async def spot_trading_available_balance(self, **call: Unpack[IntoAny]) -> Any:
        """Return the balance that the tenant has for spot trading.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"balances": [{"currency": "CHF", "available": "26116.11"}]}
        ```

        Raises:
            GatewayError: the balance did not come; asking again does no harm.
        """
        # Interface: Endpoints 6
        return await self._caller.call(operations.SPOT_TRADING_AVAILABLE_BALANCE, call)

    @overload
    async def cancel_order(
        self, wallet_id: str, order_id: str, **call: Unpack[IntoType[T]]
    ) -> T: ...

    @overload
    async def cancel_order(self, wallet_id: str, order_id: str, **call: Unpack[IntoAny]) -> Any: ...

    async def cancel_order(self, wallet_id: str, order_id: str, **call: Unpack[IntoAny]) -> Any:
        """Cancel a trading order.

        Cancelling an order twice has the same effect as cancelling it once, so a lost attempt is
        repeated unless the session's `RetryPolicy` forbids it.

        The interface leaves the reply open (see `Area`); that of the sandbox is the order, as
        `order_history` has it, with the status "cancelled".

        Args:
            wallet_id: The gateway's id of the wallet.
            order_id: The gateway's id of the order.

        Raises:
            NotFoundError: there is no such order. If `outcome` is UNKNOWN, an earlier attempt was
                lost and may have cancelled the order.
            GatewayError: its `outcome` says whether the order may have been cancelled.
        """
        # Interface: Endpoints 7
        path = {"walletId": wallet_id, "orderId": order_id}
        return await self._caller.call(operations.CANCEL_ORDER, call, path=path)


def _page_request(page: int, take: int) -> Unchecked:
    given = {"page": page, "take": take}
    return Unchecked(lambda: as_model(models.OrderHistoryPage, given))


def _orders_of(page: Any, name: str | None) -> tuple[str | None, list[Any] | None]:
    """Find the orders of a page, and their name; None if it has another shape than is assumed."""
    if isinstance(page, dict):
        if name in page and page[name] is None:  # as Go writes an empty list
            return name, [] if len(page) == 1 else None  # beside it, an error may be told
        lists = [one for one in page.items() if isinstance(one[1], list)]
        return lists[0] if len(lists) == 1 else (name, None)
    if page is None:
        return name, []
    return name, page if isinstance(page, list) else None
