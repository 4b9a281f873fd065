"""The wallet area's model."""

from gateway_sdk.models._base import RequestModel


class OrderHistoryPage(RequestModel):
    """A page of the order history; the interface gives no bounds."""

    # Interface: Order history page request
    page: int
    take: int
