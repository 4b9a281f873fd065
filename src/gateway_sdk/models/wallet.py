"""The wallet area's model."""

from gateway_sdk.models._base import RequestModel


class OrderHistoryPage(RequestModel):
    """Which page of the order history is asked for; the interface gives no bounds."""

    # Interface: Order history page request
    page: int
    take: int
