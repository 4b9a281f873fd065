"""The six areas of the gateway: coroutine methods that know only how to send."""

from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea

__all__ = ["AmlArea", "CountryDataArea", "CurrencyArea", "CustomerArea", "KycArea", "WalletArea"]
