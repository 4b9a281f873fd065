"""The six areas together."""

from abc import ABC, abstractmethod

from gateway_sdk.areas._area import Send
from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea


class Areas(ABC):
    """All six, each under its name; made when asked for, so that a view costs next to nothing."""

    @property
    @abstractmethod
    def _sender(self) -> Send:
        """How an area's request gets to the gateway."""

    @abstractmethod
    def _gateway_name(self) -> str:
        """Name the gateway and the tenant, for a file that holds what they answered."""

    @property
    def customer(self) -> CustomerArea:
        """Creates customers and revises them."""
        return CustomerArea(self._sender)

    @property
    def currency(self) -> CurrencyArea:
        """Returns series of exchange rates."""
        return CurrencyArea(self._sender, self._gateway_name)

    @property
    def wallet(self) -> WalletArea:
        """Shows orders and balances, and cancels orders."""
        return WalletArea(self._sender)

    @property
    def aml(self) -> AmlArea:
        """Uploads documents, updates them and changes their status."""
        return AmlArea(self._sender)

    @property
    def kyc(self) -> KycArea:
        """Calls the webhook."""
        return KycArea(self._sender)

    @property
    def country_data(self) -> CountryDataArea:
        """Lists the countries of the world."""
        return CountryDataArea(self._sender)
