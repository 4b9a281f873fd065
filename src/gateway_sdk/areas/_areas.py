"""The six areas together."""

from gateway_sdk.areas._area import Send
from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea


class Areas:
    """All six, each under its name.

    Attributes:
        customer: Creates customers and revises them.
        currency: Returns series of exchange rates.
        wallet: Shows orders and balances, and cancels orders.
        aml: Uploads documents, updates them and changes their status.
        kyc: Calls the webhook.
        country_data: Lists the countries of the world.
    """

    def __init__(self, send: Send) -> None:
        self.customer = CustomerArea(send)
        self.currency = CurrencyArea(send)
        self.wallet = WalletArea(send)
        self.aml = AmlArea(send)
        self.kyc = KycArea(send)
        self.country_data = CountryDataArea(send)
