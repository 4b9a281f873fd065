"""The data of the interface, under its names. No I/O."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk.models.customer import *
    from gateway_sdk.models.records import *
else:
    from gateway_sdk._python import lazy

    # Pydantic takes 20 ms to build the models of a customer.
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "gateway_sdk.models.customer": """
                AdditionalDataItem Address AddressesItem Alternative CreateRequest DocumentsItem
                GeoPosition MetadataItem Name NotificationsItem PersonData RelatedToAddressItem
                Revision SecretQuestionItem TelephoneNumbersItem""",
            "gateway_sdk.models.records": """
                Country ErrorPayload ExchangeRateSeriesRequest OrderHistoryPage""",
        },
    )
    del TYPE_CHECKING, lazy  # every other name is public
