from typing import Any

import pytest

from gateway_sdk.sandbox._interface import (
    CREATE_REQUEST,
    EXCHANGE_RATE_SERIES,
    REVISIONS,
    Record,
    ShapeError,
    check,
)

NAME = {
    "name": "Ada",
    "order": 1,
    "abbreviation": "A.",
    "language": "en",
    "native": "Ada",
    "suffix": None,
    "prefix": "Countess",
}
THREE_STRINGS = {"name": "pages", "type": "count", "value": "2"}
ADDRESS = {
    "country": "GB",
    "area": "Marylebone",
    "city": "London",
    "zipCode": "W1U",
    "street": "St James's Square",
    "streetNumber": ["12", "12a"],
    "building": "12",
    "apartment": None,
    "entrance": None,
    "floor": "2",
    "doorNumber": "3",
    "geoPosition": {"latitude": 51, "longitude": 0, "altitude": None},
    "alternative": {"word1": "filled", "word2": "count", "word3": "soap"},
    "relatedToAddress": [{"relationType": "owner"}],
    "additionalData": [THREE_STRINGS],
}
DOCUMENT = {
    "purpose": "identity",
    "name": "passport",
    "verificationResponse": {"score": [0.5, None]},
    "documentType": "passport",
    "location": "vault",
    "status": "uploaded",
    "metadata": [THREE_STRINGS],
}
PERSON = {
    "firstName": NAME,
    "lastName": NAME,
    "gender": "female",
    "dateOfBirth": "1815-12-10",
    "placeOfBirth": "London",
    "nationality": "British",
    "pinCode": "1234",
    "password": "enchantress",
    "fullName": "Ada Lovelace",
    "email": "ada@example.com",
    "groupId": None,
    "documents": [DOCUMENT],
    "telephoneNumbers": [
        {
            "phoneType": "mobile",
            "operator": "O2",
            "encoding": "E.164",
            "country": "GB",
            "number": "+447700900000",
            "purpose": "private",
        }
    ],
    "SecretQuestion": [{"question": "first engine", "answer": "difference"}],
    "addresses": [{"addresspurpose": "home", "address": ADDRESS}],
}
EVERY_FIELD = {
    "customerType": "person",
    "customerName": "Ada",
    "externalCustomerId": "ext-1",
    "customerStatus": "new",
    "categorization": "retail",
    "person": PERSON,
    "notifications": [{"notificationType": "email", "isEnabled": True}],
    "isB2B": False,
    "sharePercentage": 2**63 - 1,
    "ultimatePercentage": -(2**63),
    "isDirector": True,
}

REFUSED: list[tuple[Any, str]] = [
    ([], "$ must be an object"),
    ({"customertype": "person"}, "$.customertype is not a field of the interface"),
    ({"customerType": 1}, "$.customerType must be a string or null"),
    ({"isB2B": None}, "$.isB2B must be a boolean"),
    ({"isB2B": 1}, "$.isB2B must be a boolean"),
    ({"person": None}, "$.person must be an object"),
    ({"notifications": None}, "$.notifications must be an array"),
    ({"notifications": {}}, "$.notifications must be an array"),
    ({"sharePercentage": True}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": 5.0}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": 2**63}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": -(2**63) - 1}, "$.sharePercentage must be an int64 or null"),
    ({"person": {"secretQuestion": []}}, "$.person.secretQuestion is not a field of the interface"),
    (
        {"person": {"addresses": [{}, {"address": {"streetNumber": ["1", None]}}]}},
        "$.person.addresses[1].address.streetNumber[1] must be a string",
    ),
]


@pytest.mark.parametrize("body", [{}, EVERY_FIELD])
def test_customer_with_no_field_or_every_field_fits(body: Any) -> None:
    """No field of a CreateRequest is required, and each of the interface's is known."""
    check(body, CREATE_REQUEST)


@pytest.mark.parametrize(("body", "complaint"), REFUSED)
def test_misfit_is_refused_by_its_path(body: Any, complaint: str) -> None:
    """A value that does not fit is refused in a sentence that names where it stands."""
    with pytest.raises(ShapeError) as refused:
        check(body, CREATE_REQUEST)

    assert str(refused.value) == complaint


def test_refusal_does_not_tell_the_value() -> None:
    """A refused secret does not appear in the message."""
    with pytest.raises(ShapeError) as refused:
        check({"person": {"pinCode": ["9876"]}}, CREATE_REQUEST)

    assert "9876" not in str(refused.value)


@pytest.mark.parametrize(
    ("body", "shape", "complaint"),
    [
        ({}, REVISIONS, "$.revisions is missing"),
        ({"revisions": [{"key": "a"}]}, REVISIONS, "$.revisions[0].value is missing"),
        ({"base": "EUR"}, EXCHANGE_RATE_SERIES, "$.symbols is missing"),
    ],
)
def test_complete_record_lacks_nothing(body: Any, shape: Record, complaint: str) -> None:
    """Where every field is needed, a missing one is refused by its path."""
    with pytest.raises(ShapeError) as refused:
        check(body, shape)

    assert str(refused.value) == complaint
