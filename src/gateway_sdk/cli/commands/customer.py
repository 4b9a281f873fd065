"""The commands `gateway customer create`, `example` and `revise`."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import typer

from gateway_sdk.cli.files import check_fields, name_of, read_json, refuse
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.process import write_out
from gateway_sdk.cli.session import ask
from gateway_sdk.models import CreateRequest, Revision


def create(ctx: typer.Context, file: str) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5, and somebody has to
    check at the gateway. The tenant is that of --tenant or GATEWAY_TENANT_ID.

    Args:
        file (FILE): JSON such as `gateway customer example` prints; "-" is standard input.

    Examples:
        gateway customer create ada.json
        gateway customer create - < ada.json
        gateway customer create ada.json --sandbox
    """
    request = check_fields(CreateRequest, read_json(file), file)
    reply = ask(ctx, lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    show_done("The customer is created.", reply)


def example() -> None:
    """Print an example of a file for `gateway customer create`, with every field.

    Remove the fields that your gateway does not need, and change the others. Nothing is sent.

    Examples:
        gateway customer example > ada.json
    """
    # Interface: CreateRequest and its objects. No data of a real person.
    write_out(files("gateway_sdk.cli.commands").joinpath("customer.json").read_bytes())


def revise(ctx: typer.Context, customer_id: str, revisions: list[str]) -> None:
    """Change fields of a customer, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5.

    Args:
        revisions (FILE | KEY=VALUE...): The changes; or a file with {"key": "value"}; "-" is
            standard input. Use a file for personal data: others on this machine can read arguments.

    Examples:
        gateway customer revise customer-0001 customerStatus=active
        gateway customer revise customer-0001 changes.json
    """
    read = read_revisions(revisions)
    reply = ask(ctx, lambda gateway: gateway.customer.revise_customer(customer_id, read))
    show_done("The customer is revised.", reply)


def read_revisions(words: Sequence[str]) -> list[Revision]:
    """Read KEY=VALUE words, or the file that a word without "=" names; messages show no value."""
    if len(words) == 1 and "=" not in words[0]:
        return _from_file(words[0])
    return [_from_word(word, place) for place, word in enumerate(words, 1)]


def _from_word(word: str, place: int) -> Revision:
    key, equals, value = word.partition("=")
    if not (key and equals):
        refuse(f"revision {place} is not KEY=VALUE: quote it if it has spaces")
    return check_fields(Revision, {"key": key, "value": value}, f"revision {place}")


def _from_file(file: str) -> list[Revision]:
    """Read {"key": "value"}, or the entries {"key": …, "value": …}, as on the wire."""
    content: Any = read_json(file)
    match content:
        case {"revisions": list(entries)} if len(content) == 1:
            pass
        case list(entries):
            pass
        case dict():
            entries = [{"key": key, "value": value} for key, value in content.items()]
        case _:
            entries = []
    if not entries:
        refuse(f'{name_of(file)} has no revisions: write {{"key": "value"}}')
    places = enumerate(entries, 1)
    return [check_fields(Revision, entry, f"{file}, revision {place}") for place, entry in places]
