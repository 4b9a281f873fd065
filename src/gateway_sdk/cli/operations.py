"""The commands of the operations: countries, customers, wallets, documents and the webhook."""

import asyncio
import os
import sys
import unicodedata
from importlib.resources import files
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.prompt import Confirm
from rich.text import Text

from gateway_sdk.cli import output
from gateway_sdk.cli.arguments import (
    GIVEN,
    argument,
    content_of,
    looks_like_json,
    option,
    read_json,
    refuse,
    switch,
)
from gateway_sdk.cli.output import AsCsv, AsJson
from gateway_sdk.cli.process import CommandError, Status, printable, write_out
from gateway_sdk.cli.session import ask
from gateway_sdk.models import Country
from gateway_sdk.session import GatewaySession

app, customer, wallet, aml, kyc = (typer.Typer(rich_markup_mode=None) for _ in range(5))
app.add_typer(customer, name="customer")
app.add_typer(wallet, name="wallet")
app.add_typer(aml, name="aml")
app.add_typer(kyc, name="kyc")

CustomerId: TypeAlias = Annotated[str, argument("CUSTOMER", "The id of the customer.")]
DocumentId: TypeAlias = Annotated[str, argument("DOCUMENT", "The id of the document.")]
ContentType: TypeAlias = Annotated[
    str | None,
    option("TYPE", "The media type, such as application/pdf; by default that of the file's name."),
]

# Interface: Country record. The name is the first column, and the id the last.
COLUMNS: Final = {
    "countryName": "Country",
    "two_digit_iso_code": "ISO2",
    "three_digit_iso_code": "ISO3",
    "currency": "Cur",
    "phone_code": "Phone",
    "nationality": "Nationality",
    "id": "Id",
}
"""The columns, with their shorter names in a terminal."""


@app.command()
def countries(
    search: Annotated[
        str | None, argument("SEARCH", "Part of a name or nationality, or a whole code.")
    ] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = None,
) -> None:
    """List the countries of the world, with their codes and currencies.

    The exit status is 1 if no country matches.
    """
    form = output.choose_form(as_json=as_json, as_csv=as_csv)
    known = ask(lambda gateway: gateway.country_data.list_countries())
    found = [country for country in known if search is None or matches(country, search)]
    found.sort(key=lambda it: _folded(search) not in map(_folded, codes_of(it)))  # a code first
    # Not `to_wire`, which writes an unknown fraction as a text.
    records = [country.model_dump(by_alias=True, exclude_unset=True) for country in found]
    rows = [[record.get(name) for name in COLUMNS] for record in records]
    if found or form != "table":
        table = output.Table(list(COLUMNS), rows)
        output.show(table, records, form, headings=list(COLUMNS.values()))
    if search is not None and not found:
        problem = f"none of the {len(known)} countries matches “{printable(search)}”"
        raise CommandError(f"{problem}\n`gateway countries` lists them.", Status.FAILED)


def matches(country: Country, search: str) -> bool:
    """Whether a search is part of a name or equals a code, without regard to case and accents."""
    wanted = _folded(search)
    names = (country.country_name, country.nationality)
    return any(wanted in _folded(name) for name in names) or wanted in map(
        _folded, codes_of(country)
    )


def codes_of(country: Country) -> set[str]:
    codes = {country.two_digit_iso_code, country.three_digit_iso_code, country.currency}
    codes |= {country.phone_code, (country.phone_code or "").lstrip("+")}
    return {code for code in codes if code is not None}


def _folded(text: str | None) -> str:
    parts = unicodedata.normalize("NFKD", (text or "").strip())
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()


@customer.command()
def create(
    file: Annotated[
        str, argument("FILE", 'JSON, as `gateway customer example` prints; "-" is standard input.')
    ],
) -> None:
    """Create a customer, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5, and somebody has to
    check at the gateway. The tenant is that of --tenant or GATEWAY_TENANT_ID.
    """
    request = read_json(file)
    reply = ask(lambda gateway: gateway.customer.create_customer(request), needs_tenant=True)
    output.show_done("The customer is created.", reply)


@customer.command()
def example() -> None:
    """Print an example of a file for `gateway customer create`, with every field.

    Remove the fields that your gateway does not need, and change the others. Nothing is sent.
    """
    # Interface: CreateRequest and its objects. No data of a real person.
    write_out(files("gateway_sdk.cli").joinpath("customer.json").read_bytes())


@customer.command()
def revise(
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
    read = _revisions(revisions)
    reply = ask(lambda gateway: gateway.customer.revise_customer(customer_id, read))
    output.show_done("The customer is revised.", reply)


def _revisions(words: list[str]) -> Any:
    if len(words) == 1 and _is_file(words[0]):
        return read_json(words[0])
    for place, word in enumerate(words, 1):
        if _is_file(word) or word.startswith("="):
            problem = f"revision {place} is not KEY=VALUE"
            refuse(f"{problem}: quote it if it has spaces, and give a file alone")
    parts = [word.partition("=") for word in words]
    return [{"key": key, "value": value} for key, _, value in parts]


def _is_file(word: str) -> bool:
    """Tell whether a word is meant as a file: a path may have "=" in it, and JSON, too."""
    return "=" not in word or looks_like_json(word) or os.path.isfile(word)  # noqa: PTH113 - any text, however long


@wallet.command()
def orders(
    *,
    page: Annotated[int, option("N", "The page; most gateways begin with 1.")] = 1,
    take: Annotated[int, option("N", "The number of orders of a page.")] = 20,
    all_pages: Annotated[bool, switch("--all", "Show all pages from --page on.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = None,
) -> None:
    """Show a page of the tenant's orders, or all."""

    async def fetch(gateway: GatewaySession) -> Any:
        if not all_pages:
            return await gateway.wallet.order_history(page, take)
        pages = gateway.wallet.order_history_pages(take, first_page=page)
        seconds = GIVEN["deadline"]  # of each call; here of all together
        try:
            async with asyncio.timeout(seconds):
                return [it async for reply in pages for it in output.take_apart(reply)[0] or ()]
        except TimeoutError:
            problem = f"the deadline of {seconds:g} s passed before the last page"
            raise CommandError(problem, Status.UNCHANGED) from None

    form = output.choose_form(as_json=as_json, as_csv=as_csv)
    output.show_records(ask(fetch), form)


@wallet.command()
def history(customer_id: CustomerId, *, as_json: AsJson = False, as_csv: AsCsv = None) -> None:
    """Show the trading orders of a customer."""
    form = output.choose_form(as_json=as_json, as_csv=as_csv)
    output.show_records(ask(lambda it: it.wallet.trading_order_history(customer_id)), form)


@wallet.command()
def balance(*, as_json: AsJson = False, as_csv: AsCsv = None) -> None:
    """Show what the tenant has available for spot trading."""
    form = output.choose_form(as_json=as_json, as_csv=as_csv)
    output.show_records(ask(lambda gateway: gateway.wallet.spot_trading_available_balance()), form)


@wallet.command()
def cancel(
    wallet_id: Annotated[str, argument("WALLET", "The id of the wallet.")],
    order_id: Annotated[str, argument("ORDER", "The id of the order.")],
    *,
    yes: Annotated[bool, switch("--yes", "Do not ask; needed in scripts.", "-y")] = False,
) -> None:
    """Cancel a trading order, and print the gateway's reply as JSON.

    It asks first. It does no harm to cancel an order twice.
    """
    if not yes:
        _confirm(f"Cancel order {printable(order_id)} of wallet {printable(wallet_id)}?")
    reply = ask(lambda gateway: gateway.wallet.cancel_order(wallet_id, order_id))
    output.show_done("The order is cancelled.", reply)


def _confirm(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        problem = "cannot ask, because standard input is not a terminal"
        raise CommandError(f"{problem}\nNothing was sent: add --yes.")
    try:
        meant = Confirm.ask(Text(question), console=output.make_console(stderr=True), default=False)
    except EOFError:
        meant = False
    if not meant:
        raise CommandError("not cancelled: nothing was sent", Status.FAILED)


@aml.command()
def upload(
    file: Annotated[str, argument("FILE", 'The document; "-" is standard input.')],
    *,
    content_type: ContentType = None,
) -> None:
    """Upload a document, and print the gateway's reply as JSON.

    The request is never sent twice: if the reply is lost, the status is 5, and somebody has to
    check at the gateway.
    """
    content = content_of(file)
    with output.upload_bar("Uploading") as show:
        reply = ask(lambda it: it.aml.upload_document(content, content_type, on_progress=show))
    output.show_done("The document is uploaded.", reply)


@aml.command()
def update(
    document_id: DocumentId,
    file: Annotated[str, argument("FILE", 'The new content; "-" is standard input.')],
    *,
    content_type: ContentType = None,
) -> None:
    """Replace the content of a document, and print the gateway's reply as JSON."""
    given = document_id, content_of(file), content_type
    with output.upload_bar("Updating") as show:
        reply = ask(lambda it: it.aml.update_document(*given, on_progress=show))
    output.show_done("The document is updated.", reply)


@aml.command()
def status(
    document_id: DocumentId,
    value: Annotated[str | None, argument("STATUS", "The new status, sent as text.")] = None,
    *,
    file: Annotated[
        str | None, option("FILE", 'A file to send in place of a value; "-" is standard input.')
    ] = None,
    content_type: ContentType = None,
) -> None:
    """Change the status of a document, and print the gateway's reply as JSON.

    The interface does not say which values are allowed.
    """
    if bool(value) == (file is not None):
        raise CommandError("give the new status, or --file")
    if value and not value.isalnum() and os.path.isfile(value):  # noqa: PTH113 - any text, however long
        refuse(f"{printable(value)} is a file\nTo send its content, give --file.")
    given = document_id, content_of(file) if file is not None else value or "", content_type
    reply = ask(lambda it: it.aml.change_document_status(*given))
    output.show_done("The status is changed.", reply)


@kyc.command()
def webhook(
    file: Annotated[
        str | None,
        argument("FILE", 'The event; "-" is standard input, which is not read without it.'),
    ] = None,
    *,
    content_type: ContentType = None,
) -> None:
    """Call the KYC webhook.

    The request is never sent twice: if the reply is lost, the status is 5.
    """
    content = None if file is None else content_of(file)
    ask(lambda gateway: gateway.kyc.send_webhook(content, content_type))
    output.show_done("The gateway has acknowledged it.", None)
