"""The commands `gateway customer create`, `example` and `revise`."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import typer

from gateway_sdk.cli.content import check_fields, name_of, read_json, refuse
from gateway_sdk.cli.output.show import show_done, show_json
from gateway_sdk.cli.session import ask
from gateway_sdk.models import CreateRequest, Revision


def create(ctx: typer.Context, file: str) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    A customer is never created twice behind your back: if the reply is lost, the status is 5, and
    somebody has to look. The tenant is that of GATEWAY_TENANT_ID.

    Args:
        file (FILE): A file of JSON with the fields of CreateRequest, as `gateway customer example`
            prints it; "-" is stdin.

    Examples:
        gateway customer create ada.json
        gateway customer create - < ada.json
        gateway customer create ada.json --sandbox
    """
    request = check_fields(CreateRequest, read_json(file), file)
    reply = ask(ctx, lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    show_done("The customer is created.", reply)


def example() -> None:
    """Print an example of what `gateway customer create` takes, with every field, as JSON.

    Leave out the fields that your gateway does not need, and change the others. Nothing is sent.

    Examples:
        gateway customer example > ada.json
    """
    # Interface: CreateRequest and the objects in it. No real person's name, number or address.
    show_json(
        json.loads(files("gateway_sdk.cli.commands").joinpath("customer.json").read_text("utf-8"))
    )


def revise(ctx: typer.Context, customer_id: str, revisions: list[str]) -> None:
    """Change fields of a customer, and print the gateway's reply as JSON.

    It is never done twice behind your back: if the reply is lost, the status is 5.

    Args:
        customer_id (CUSTOMER): The gateway's id of the customer.
        revisions (FILE | KEY=VALUE...): What to change; or a file of JSON, {"key": "value"}; "-" is
            stdin. Others on this machine can read arguments: what is private belongs into a file.

    Examples:
        gateway customer revise customer-0001 customerStatus=active
        gateway customer revise customer-0001 changes.json
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
    places = enumerate(entries, 1)
    return [check_fields(Revision, entry, f"{file}, revision {place}") for place, entry in places]
