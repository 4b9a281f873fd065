"""The commands `gateway customer create`, `example` and `revise`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from gateway_sdk.cli.content import check_fields, name_of, read_json, refuse
from gateway_sdk.cli.output.show import show_done, show_json
from gateway_sdk.cli.session import ask
from gateway_sdk.models import CreateRequest, Revision

_NAME: Final = {
    "order": 1,
    "abbreviation": None,
    "language": "en",
    "native": None,
    "suffix": None,
    "prefix": None,
}

# Interface: CreateRequest and the objects in it. Nobody's name, number or address.
EXAMPLE: Final[Mapping[str, Any]] = {
    "customerType": "individual",
    "customerName": "Ada Example",
    "externalCustomerId": "example-0001",
    "customerStatus": "new",
    "categorization": "retail",
    "person": {
        "firstName": {"name": "Ada", **_NAME},
        "lastName": {"name": "Example", **_NAME},
        "gender": "female",
        "dateOfBirth": "1990-12-31",
        "placeOfBirth": "London",
        "nationality": "British",
        "pinCode": "EXAMPLE-PIN",
        "password": "EXAMPLE-PASSWORD",
        "fullName": "Ada Example",
        "email": "ada@example.com",
        "groupId": None,
        "documents": [
            {
                "purpose": "identity",
                "name": "passport.pdf",
                "verificationResponse": None,
                "documentType": "passport",
                "location": None,
                "status": "new",
                "metadata": [{"name": "country", "type": "string", "value": "GB"}],
            }
        ],
        "telephoneNumbers": [
            {
                "phoneType": "mobile",
                "operator": None,
                "encoding": None,
                "country": "GB",
                "number": "+44 7700 900000",
                "purpose": "contact",
            }
        ],
        "SecretQuestion": [{"question": "EXAMPLE-QUESTION", "answer": "EXAMPLE-ANSWER"}],
        "addresses": [
            {
                "addresspurpose": "home",
                "address": {
                    "country": "GB",
                    "area": None,
                    "city": "London",
                    "zipCode": "EX1 1EX",
                    "street": "Example Street",
                    "streetNumber": ["1"],
                    "building": None,
                    "apartment": None,
                    "entrance": None,
                    "floor": None,
                    "doorNumber": None,
                    "geoPosition": {"latitude": 51, "longitude": 0, "altitude": None},
                    "alternative": {"word1": None, "word2": None, "word3": None},
                    "relatedToAddress": [{"relationType": "resident"}],
                    "additionalData": [{"name": "note", "type": "string", "value": "example"}],
                },
            }
        ],
    },
    "notifications": [{"notificationType": "email", "isEnabled": True}],
    "isB2B": False,
    "sharePercentage": None,
    "ultimatePercentage": None,
    "isDirector": False,
}


def create(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file of JSON with the fields of CreateRequest, as `gateway customer example`"
            ' prints it; "-" is stdin.',
        ),
    ],
) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    A customer is never created twice behind your back: if the reply is lost, the status is 5, and
    somebody has to look. The tenant is that of GATEWAY_TENANT_ID.
    """
    request = check_fields(CreateRequest, read_json(file), file)
    reply = ask(ctx, lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    show_done("The customer is created.", reply)


def example() -> None:
    """Print an example of what `gateway customer create` takes, with every field, as JSON.

    Leave out the fields that your gateway does not need, and change the others. Nothing is sent.
    """
    # Models are frozen, and made of what the wire has: a misspelt field is an error here.
    show_json(CreateRequest.model_validate(EXAMPLE).to_wire())


def revise(
    ctx: typer.Context,
    customer_id: Annotated[
        str, typer.Argument(metavar="CUSTOMER", help="The gateway's id of the customer.")
    ],
    revisions: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | KEY=VALUE...",
            help='What to change; or a file of JSON, {"key": "value"}; "-" is stdin. Others on this'
            " machine can read arguments: what is private belongs into a file.",
        ),
    ],
) -> None:
    """Change fields of a customer, and print the gateway's reply as JSON.

    It is never done twice behind your back: if the reply is lost, the status is 5.
    """
    read = read_revisions(revisions)
    reply = ask(ctx, lambda gateway: gateway.customer.revise_customer(customer_id, read))
    show_done("The customer is revised.", reply)


def read_revisions(words: Sequence[str]) -> list[Revision]:
    """Read KEY=VALUE words, or the file that a single word without "=" names.

    Returns:
        The revisions in their order; a key may come twice. Messages show no value.
    """
    if len(words) == 1 and "=" not in words[0]:
        return _from_file(words[0])
    return [_from_word(word, place) for place, word in enumerate(words, 1)]


def _from_word(word: str, place: int) -> Revision:
    key, equals, value = word.partition("=")
    if not (key and equals):
        refuse(f"revision {place} is not KEY=VALUE: quote what holds spaces")
    return check_fields(Revision, {"key": key, "value": value}, f"revision {place}")


def _from_file(file: str) -> list[Revision]:
    """Read {"key": "value"}, or {"revisions": [{"key": …, "value": …}]} as on the wire."""
    content: Any = read_json(file)
    match content:
        case {"revisions": list(entries)} if len(content) == 1:
            pass
        case dict():
            entries = [{"key": key, "value": value} for key, value in content.items()]
        case _:
            entries = []
    if not entries:
        refuse(f'{name_of(file)} holds no revisions: write {{"key": "value"}}')
    return [
        check_fields(Revision, entry, f"{file}, revision {place}")
        for place, entry in enumerate(entries, 1)
    ]
