"""The data of the interface, under its names. No I/O."""

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
from gateway_sdk.models.replies import Country, ErrorPayload
from gateway_sdk.models.requests import ExchangeRateSeriesRequest, OrderHistoryPage

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
