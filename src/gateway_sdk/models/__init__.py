"""The data of the interface, under its names. No I/O."""

from typing import TYPE_CHECKING

from gateway_sdk._python import lazy

if TYPE_CHECKING:
    from gateway_sdk.models.customer import (
        AdditionalDataItem,
        Address,
        AddressesItem,
        Alternative,
        CreateRequest,
        DocumentsItem,
        GeoPosition,
        MetadataItem,
        Name,
        NotificationsItem,
        PersonData,
        RelatedToAddressItem,
        Revision,
        SecretQuestionItem,
        TelephoneNumbersItem,
    )
    from gateway_sdk.models.records import (
        Country,
        ErrorPayload,
        ExchangeRateSeriesRequest,
        OrderHistoryPage,
    )
else:
    # Pydantic takes 20 ms to build the models of a customer.
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "gateway_sdk.models.customer": (
                "AdditionalDataItem",
                "Address",
                "AddressesItem",
                "Alternative",
                "CreateRequest",
                "DocumentsItem",
                "GeoPosition",
                "MetadataItem",
                "Name",
                "NotificationsItem",
                "PersonData",
                "RelatedToAddressItem",
                "Revision",
                "SecretQuestionItem",
                "TelephoneNumbersItem",
            ),
            "gateway_sdk.models.records": (
                "Country",
                "ErrorPayload",
                "ExchangeRateSeriesRequest",
                "OrderHistoryPage",
            ),
        },
    )

__all__ = [
    "AdditionalDataItem",
    "Address",
    "AddressesItem",
    "Alternative",
    "Country",
    "CreateRequest",
    "DocumentsItem",
    "ErrorPayload",
    "ExchangeRateSeriesRequest",
    "GeoPosition",
    "MetadataItem",
    "Name",
    "NotificationsItem",
    "OrderHistoryPage",
    "PersonData",
    "RelatedToAddressItem",
    "Revision",
    "SecretQuestionItem",
    "TelephoneNumbersItem",
]
