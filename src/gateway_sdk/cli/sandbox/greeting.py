"""What the sandbox says of itself as soon as it is there."""

from collections.abc import Iterator
from typing import NamedTuple

from gateway_sdk.cli.facts import Fact
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_ACCESS_TOKEN, SANDBOX_CLIENT_ID
from gateway_sdk.sandbox._reference_data import country_list, reference_rates


def greeting(base_url: str) -> Iterator[Fact]:
    """Tell where it is, what it asks for and what it knows."""
    countries, rates = country_list(), reference_rates()
    yield "Sandbox", base_url
    yield "Token", SANDBOX_ACCESS_TOKEN
    yield "Countries", str(len(countries.records))
    # Interface: Resources, Country record
    yield (
        "",
        f"{len(countries.incomplete)} are left out, whose sources lack one of the seven fields",
    )
    yield "Rates", f"{len(rates.currencies)} currencies, by the European Central Bank"
    yield "", f"{rates.first_day} to {rates.last_day}"


class Settings(NamedTuple):
    """What to set for `GatewaySession.from_env()`, as NAME=value.

    Attributes:
        always: Whichever way the token comes.
        token: For the token that is ready.
        login: For one that `gateway login` gets.
    """

    always: tuple[str, ...]
    token: tuple[str, ...]
    login: tuple[str, ...]


def environment(base_url: str) -> Settings:
    """Give the settings with which sessions and logins get there from this machine."""
    for everywhere, here in (("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")):  # noqa: S104 - no bind
        base_url = base_url.replace(f"//{everywhere}:", f"//{here}:")
    return Settings(
        (f"GATEWAY_BASE_URL={base_url}", "GATEWAY_TENANT_ID=demo"),
        (f"GATEWAY_ACCESS_TOKEN={SANDBOX_ACCESS_TOKEN}",),
        (
            f"GATEWAY_AUTH_URL={base_url}{AUTHORIZE_PATH}",
            f"GATEWAY_CLIENT_ID={SANDBOX_CLIENT_ID}",
        ),
    )
