"""The currency area's model."""

from gateway_sdk.models._base import RequestModel


class ExchangeRateSeriesRequest(RequestModel):
    """Which rates are asked for, over which days.

    The interface gives no format for any of the four, so none is enforced.
    """

    # Interface: Exchange rate series request
    base: str
    symbols: str
    start_date: str
    end_date: str
