"""The country area's model."""

from pydantic import Field

from gateway_sdk.models._base import ReplyModel


class Country(ReplyModel):
    """A country of the world with its codes."""

    # Interface: Country record
    id: int
    country_name: str
    nationality: str
    three_digit_iso_code: str = Field(
        validation_alias="three_digit_iso_code", serialization_alias="three_digit_iso_code"
    )
    two_digit_iso_code: str = Field(
        validation_alias="two_digit_iso_code", serialization_alias="two_digit_iso_code"
    )
    currency: str
    phone_code: str = Field(validation_alias="phone_code", serialization_alias="phone_code")
