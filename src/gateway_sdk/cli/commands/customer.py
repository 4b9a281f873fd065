"""The commands `gateway customer create`, `example` and `revise`."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Any

import typer

from gateway_sdk.cli.arguments import CustomerId, argument, examples
from gateway_sdk.cli.files import check_fields, name_of, read_json, refuse
from gateway_sdk.cli.output.show import show_done
from gateway_sdk.cli.process import write_out
from gateway_sdk.cli.session import ask
from gateway_sdk.models import CreateRequest, Revision

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog=examples(
        "gateway customer create ada.json",
        "gateway customer create - < ada.json",
        "gateway customer create ada.json --sandbox",
    )
)
def create(
    ctx: typer.Context,
    file: Annotated[
        str, argument("FILE", 'JSON, as `gateway customer example` prints; "-" is standard input.')
    ],
) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5, and somebody has to
    check at the gateway. The tenant is that of --tenant or GATEWAY_TENANT_ID.
    """
    request = check_fields(CreateRequest, read_json(file), file)
    reply = ask(ctx, lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    show_done("The customer is created.", reply)


@app.command(epilog=examples("gateway customer example > ada.json"))
def example() -> None:
    """Print an example of a file for `gateway customer create`, with every field.

    Remove the fields that your gateway does not need, and change the others. Nothing is sent.
    """
    # Interface: CreateRequest and its objects. No data of a real person.
    write_out(files("gateway_sdk.cli.commands").joinpath("customer.json").read_bytes())


@app.command(
    epilog=examples(
        "gateway customer revise customer-0001 customerStatus=active",
        "gateway customer revise customer-0001 changes.json",
    )
)
def revise(
    ctx: typer.Context,
    customer_id: CustomerId,
    revisions: Annotated[
        list[str],
        argument(
            "FILE | KEY=VALUE...",
            'The changes; or a file with {"key": "value"}; "-" is standard input. Use a file for'
            " personal data: others on this machine can read arguments.",
        ),
    ],
) -> None:
    """Change fields of a customer, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5.
    """
    read = read_revisions(revisions)
    reply = ask(ctx, lambda gateway: gateway.customer.revise_customer(customer_id, read))
    show_done("The customer is revised.", reply)


def read_revisions(words: Sequence[str]) -> list[Revision]:
    """Read KEY=VALUE words, or the file that a word without "=" names; messages show no value."""
    where = ""
    entries: list[Any] = []
    if len(words) == 1 and "=" not in words[0]:
        where, content = f"{words[0]}, ", read_json(words[0])
        if isinstance(content, dict) and list(content) != ["revisions"]:
            entries += [{"key": key, "value": value} for key, value in content.items()]
        else:  # the entries {"key": …, "value": …}, as on the wire
            found: Any = content["revisions"] if isinstance(content, dict) else content
            entries += found if isinstance(found, list) else []
        if not entries:
            refuse(f'{name_of(words[0])} has no revisions: write {{"key": "value"}}')
    for place, word in enumerate(() if where else words, 1):
        key, equals, value = word.partition("=")
        if not (key and equals):
            refuse(f"revision {place} is not KEY=VALUE: quote it if it has spaces")
        entries.append({"key": key, "value": value})
    places = enumerate(entries, 1)
    return [check_fields(Revision, entry, f"{where}revision {place}") for place, entry in places]
