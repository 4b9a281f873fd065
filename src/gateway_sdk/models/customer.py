"""The models of the customer area: a person with addresses, telephone numbers and documents."""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
)

from gateway_sdk._python import MASK
from gateway_sdk.models._base import HALF_OF_A_PAIR, IN_CLEAR, NOT_FINITE, RequestModel, problem

__all__ = [
    "AdditionalDataItem", "Address", "AddressesItem", "Alternative", "CreateRequest",
    "DocumentsItem", "GeoPosition", "MetadataItem", "Name", "NotificationsItem", "PersonData",
    "RelatedToAddressItem", "Revision", "SecretQuestionItem", "TelephoneNumbersItem",
]  # fmt: skip

_T = TypeVar("_T")

_HALF: Final = re.compile("[\ud800-\udfff]")


def _refuse_null(value: _T | None) -> _T:
    """Refuse an explicit null where the interface does not allow one."""
    if value is None:
        raise problem("may be left out, but not null")
    return value


def _without_null(schema: dict[str, Any]) -> None:
    """Leave null out of the JSON schema: clients that are made of it would send it."""
    schema.pop("default", None)
    # In pydantic's other format of unions, a boolean alone has no "anyOf", but a list of two types.
    schema.update(schema.pop("anyOf", [{"type": "boolean"}])[0])


def _check_secret(secret: Any) -> Any:
    """Refuse the mask: from a dumped model it would become the password of every customer."""
    text = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
    if isinstance(text, str):
        if text == MASK:
            raise problem("is the mask of a secret, not a secret")
        if not text.isascii() and _HALF.search(text):
            raise problem(HALF_OF_A_PAIR)
    return secret


def _check_numbers(value: Any) -> Any:
    """Refuse what is no number in JSON: from a JSON text, pydantic takes it."""
    if isinstance(value, float) and not isfinite(value):
        raise problem(NOT_FINITE)
    parts: Any = [*value.values()] if isinstance(value, dict) else value
    for part in parts if isinstance(parts, list) else ():
        _check_numbers(part)
    return value


def _dump_secret(secret: SecretStr | None, info: SerializationInfo) -> SecretStr | str | None:
    """Return the clear text for `to_wire`; pydantic writes the mask for every other dump."""
    if secret is None or info.context is not IN_CLEAR:
        return secret
    return secret.get_secret_value()


_Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
_NotNull = Annotated[
    _T | None, BeforeValidator(_refuse_null), Field(json_schema_extra=_without_null)
]
"""Optional: None if it was not given; an explicit None is refused."""
_Json = Annotated[JsonValue, AfterValidator(_check_numbers)]
_Items = Annotated[_NotNull[Sequence[_T]], AfterValidator(tuple)]
"""A list or tuple, kept as a tuple. Optional: None if not given; an explicit None is refused."""
_Secret = Annotated[
    Annotated[SecretStr, BeforeValidator(_check_secret)] | None, PlainSerializer(_dump_secret)
]
"""Masked in repr, dumps and logs; clear text only in `to_wire()`. May be null."""


class _PersonalModel(RequestModel):
    """A request that holds personal data: its repr names the fields that are set, no values."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        set_here = self.model_fields_set
        return ((name, MASK) for name in type(self).model_fields if name in set_here)


class Name(_PersonalModel):
    """A first or last name."""

    # Interface: Name object
    name: str | None = None
    order: _Int64 | None = None
    abbreviation: str | None = None
    language: str | None = None
    native: str | None = None
    suffix: str | None = None
    prefix: str | None = None


class MetadataItem(_PersonalModel):
    """A named value that describes a document."""

    # Interface: MetadataItem
    name: str | None = None
    type: str | None = None
    value: str | None = None


class AdditionalDataItem(_PersonalModel):
    """A named value that describes an address."""

    # Interface: AdditionalDataItem
    name: str | None = None
    type: str | None = None
    value: str | None = None


class DocumentsItem(_PersonalModel):
    """A document of the customer: its type, its address, and the result of its verification."""

    # Interface: DocumentsItem
    purpose: str | None = None
    name: str | None = None
    verification_response: _Json = None
    document_type: str | None = None
    location: str | None = None
    status: str | None = None
    metadata: _Items[MetadataItem] = None


class TelephoneNumbersItem(_PersonalModel):
    """A telephone number."""

    # Interface: TelephoneNumbersItem
    phone_type: str | None = None
    operator: str | None = None
    encoding: str | None = None
    country: str | None = None
    number: str | None = None
    purpose: str | None = None


class SecretQuestionItem(_PersonalModel):
    """A question that only the customer can answer."""

    # Interface: SecretQuestionItem
    question: str | None = None
    answer: _Secret = None

    if TYPE_CHECKING:  # the attribute is a `SecretStr`; the argument may be a string

        def __init__(
            self, *, question: str | None = None, answer: SecretStr | str | None = None
        ) -> None: ...


class GeoPosition(_PersonalModel):
    """A point on the earth, in whole numbers; the interface does not give their unit."""

    # Interface: GeoPosition
    latitude: _Int64 | None = None
    longitude: _Int64 | None = None
    altitude: _Int64 | None = None


class Alternative(_PersonalModel):
    """An address that consists of three words."""

    # Interface: Alternative
    word1: str | None = None
    word2: str | None = None
    word3: str | None = None


class RelatedToAddressItem(_PersonalModel):
    """How a person is related to an address."""

    # Interface: RelatedToAddressItem
    relation_type: str | None = None


class Address(_PersonalModel):
    """A postal address."""

    # Interface: Address
    country: str | None = None
    area: str | None = None
    city: str | None = None
    zip_code: str | None = None
    street: str | None = None
    street_number: _Items[str] = None
    building: str | None = None
    apartment: str | None = None
    entrance: str | None = None
    floor: str | None = None
    door_number: str | None = None
    geo_position: _NotNull[GeoPosition] = None
    alternative: _NotNull[Alternative] = None
    related_to_address: _Items[RelatedToAddressItem] = None
    additional_data: _Items[AdditionalDataItem] = None


class AddressesItem(_PersonalModel):
    """An address and its purpose."""

    # Interface: AddressesItem
    addresspurpose: str | None = None
    address: _NotNull[Address] = None


class PersonData(_PersonalModel):
    """The person behind a customer."""

    # Interface: PersonData
    first_name: _NotNull[Name] = None
    last_name: _NotNull[Name] = None
    gender: str | None = None
    date_of_birth: str | None = None
    place_of_birth: str | None = None
    nationality: str | None = None
    pin_code: _Secret = None
    password: _Secret = None
    full_name: str | None = None
    email: str | None = None
    group_id: str | None = None
    documents: _Items[DocumentsItem] = None
    telephone_numbers: _Items[TelephoneNumbersItem] = None
    secret_question: _Items[SecretQuestionItem] = Field(
        default=None, validation_alias="SecretQuestion", serialization_alias="SecretQuestion"
    )
    addresses: _Items[AddressesItem] = None

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


class NotificationsItem(_PersonalModel):
    """Whether a kind of notification is wanted."""

    # Interface: NotificationsItem
    notification_type: str | None = None
    is_enabled: _NotNull[bool] = None


class CreateRequest(_PersonalModel):
    """A request to create a customer. Every field is optional.

    A field that is not given is not sent, and one that is None is sent as null; objects, lists and
    booleans may not be None.
    """

    # Interface: Customer creation request (CreateRequest)
    _warnings: ClassVar[Any] = "error"  # free JSON values can be changed after their check
    customer_type: str | None = None
    customer_name: str | None = None
    external_customer_id: str | None = None
    customer_status: str | None = None
    categorization: str | None = None
    person: _NotNull[PersonData] = None
    notifications: _Items[NotificationsItem] = None
    is_b2b: _NotNull[bool] = None
    share_percentage: _Int64 | None = None
    ultimate_percentage: _Int64 | None = None
    is_director: _NotNull[bool] = None


class Revision(_PersonalModel):
    """One change to an existing customer: the field and its new value."""

    # Interface: Revision entry
    key: str
    value: str
