"""The models of the customer area: a person with addresses, telephone numbers and documents."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue, SecretStr

from gateway_sdk.models._base import Int64, Items, NotNull, PersonalModel, Secret


class Name(PersonalModel):
    """A first or last name."""

    # Interface: Name object
    name: str | None = None
    order: Int64 | None = None
    abbreviation: str | None = None
    language: str | None = None
    native: str | None = None
    suffix: str | None = None
    prefix: str | None = None


class MetadataItem(PersonalModel):
    """A named value that describes a document."""

    # Interface: MetadataItem
    name: str | None = None
    type: str | None = None
    value: str | None = None


class AdditionalDataItem(PersonalModel):
    """A named value that describes an address."""

    # Interface: AdditionalDataItem
    name: str | None = None
    type: str | None = None
    value: str | None = None


class DocumentsItem(PersonalModel):
    """A document of the customer: its type, its address, and the result of its verification."""

    # Interface: DocumentsItem
    purpose: str | None = None
    name: str | None = None
    verification_response: JsonValue = None
    document_type: str | None = None
    location: str | None = None
    status: str | None = None
    metadata: Items[MetadataItem] = None


class TelephoneNumbersItem(PersonalModel):
    """A telephone number."""

    # Interface: TelephoneNumbersItem
    phone_type: str | None = None
    operator: str | None = None
    encoding: str | None = None
    country: str | None = None
    number: str | None = None
    purpose: str | None = None


class SecretQuestionItem(PersonalModel):
    """A question that only the customer can answer."""

    # Interface: SecretQuestionItem
    question: str | None = None
    answer: Secret = None

    if TYPE_CHECKING:  # the attribute is a `SecretStr`; the argument may be a string

        def __init__(
            self, *, question: str | None = None, answer: SecretStr | str | None = None
        ) -> None: ...


class GeoPosition(PersonalModel):
    """A point on the earth, in whole numbers; the interface does not give their unit."""

    # Interface: GeoPosition
    latitude: Int64 | None = None
    longitude: Int64 | None = None
    altitude: Int64 | None = None


class Alternative(PersonalModel):
    """An address that consists of three words."""

    # Interface: Alternative
    word1: str | None = None
    word2: str | None = None
    word3: str | None = None


class RelatedToAddressItem(PersonalModel):
    """How a person is related to an address."""

    # Interface: RelatedToAddressItem
    relation_type: str | None = None


class Address(PersonalModel):
    """A postal address."""

    # Interface: Address
    country: str | None = None
    area: str | None = None
    city: str | None = None
    zip_code: str | None = None
    street: str | None = None
    street_number: Items[str] = None
    building: str | None = None
    apartment: str | None = None
    entrance: str | None = None
    floor: str | None = None
    door_number: str | None = None
    geo_position: NotNull[GeoPosition] = None
    alternative: NotNull[Alternative] = None
    related_to_address: Items[RelatedToAddressItem] = None
    additional_data: Items[AdditionalDataItem] = None


class AddressesItem(PersonalModel):
    """An address and its purpose."""

    # Interface: AddressesItem
    addresspurpose: str | None = None
    address: NotNull[Address] = None


class PersonData(PersonalModel):
    """The person behind a customer."""

    # Interface: PersonData
    first_name: NotNull[Name] = None
    last_name: NotNull[Name] = None
    gender: str | None = None
    date_of_birth: str | None = None
    place_of_birth: str | None = None
    nationality: str | None = None
    pin_code: Secret = None
    password: Secret = None
    full_name: str | None = None
    email: str | None = None
    group_id: str | None = None
    documents: Items[DocumentsItem] = None
    telephone_numbers: Items[TelephoneNumbersItem] = None
    secret_question: Items[SecretQuestionItem] = Field(
        default=None, validation_alias="SecretQuestion", serialization_alias="SecretQuestion"
    )
    addresses: Items[AddressesItem] = None

    if TYPE_CHECKING:  # two attributes are a `SecretStr`; their arguments may be strings

        def __init__(
            self,
            *,
            first_name: Name | None = None,
            last_name: Name | None = None,
            gender: str | None = None,
            date_of_birth: str | None = None,
            place_of_birth: str | None = None,
            nationality: str | None = None,
            pin_code: SecretStr | str | None = None,
            password: SecretStr | str | None = None,
            full_name: str | None = None,
            email: str | None = None,
            group_id: str | None = None,
            documents: Sequence[DocumentsItem] | None = None,
            telephone_numbers: Sequence[TelephoneNumbersItem] | None = None,
            secret_question: Sequence[SecretQuestionItem] | None = None,
            addresses: Sequence[AddressesItem] | None = None,
        ) -> None: ...


class NotificationsItem(PersonalModel):
    """Whether a kind of notification is wanted."""

    # Interface: NotificationsItem
    notification_type: str | None = None
    is_enabled: NotNull[bool] = None


class CreateRequest(PersonalModel):
    """A request to create a customer."""

    # Interface: Customer creation request (CreateRequest)
    customer_type: str | None = None
    customer_name: str | None = None
    external_customer_id: str | None = None
    customer_status: str | None = None
    categorization: str | None = None
    person: NotNull[PersonData] = None
    notifications: Items[NotificationsItem] = None
    is_b2b: NotNull[bool] = Field(
        default=None, validation_alias="isB2B", serialization_alias="isB2B"
    )
    share_percentage: Int64 | None = None
    ultimate_percentage: Int64 | None = None
    is_director: NotNull[bool] = None


class Revision(PersonalModel):
    """One change to an existing customer: the field and its new value."""

    # Interface: Revision entry
    key: str
    value: str
