"""The settings of logins: for which gateway, where, as which client, in which store."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import typer

from gateway_sdk._config import ENVIRONMENT, with_environment
from gateway_sdk.auth import KeyringStore, PrivateFileStore, TokenStore
from gateway_sdk.auth._environment import token_store
from gateway_sdk.cli.facts import Fact
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.errors import ConfigurationError

# There is none for the store: the address of a Redis may hold a password, and everybody on a
# machine can read the arguments of its processes.
BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="The gateway's address, in place of GATEWAY_BASE_URL.")
]
AuthUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="Where people log in, in place of GATEWAY_AUTH_URL.")
]
ClientId: TypeAlias = Annotated[
    str | None, typer.Option(help="As which client, in place of GATEWAY_CLIENT_ID.")
]

_NEEDED: Final = ("base_url", "auth_url", "client_id")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoginSettings:
    """The settings of a login, from options and the environment.

    Attributes:
        base_url: The gateway that the token is for.
        auth_url: Where people log in.
        client_id: As which client.
        token_store: Which store, as GATEWAY_TOKEN_STORE says it; it may hold a password.
        has_access_token: Whether GATEWAY_ACCESS_TOKEN is set, which sessions take first.
        exports: What the environment lacks, as a shell takes it.
    """

    base_url: str
    auth_url: str
    client_id: str
    token_store: str | None
    has_access_token: bool
    exports: tuple[str, ...]

    def store(self) -> TokenStore:
        """Return the store, the one that sessions read.

        Raises:
            ConfigurationError: a setting is wrong; the message names it.
            ModuleNotFoundError: the extra for this store is not installed.
        """
        settings = {name: getattr(self, name) for name in (*_NEEDED, "token_store")}
        try:
            return token_store(settings)
        except ConfigurationError as error:
            if isinstance(error.__context__, ModuleNotFoundError):
                raise error.__context__ from None
            raise

    def facts(self) -> Iterator[Fact]:
        """Tell all of them."""
        yield "Gateway", self.base_url
        yield "Login at", self.auth_url
        yield "Client", self.client_id
        yield "Kept in", self.place()

    def place(self) -> str:
        """Say where the token is kept, without credentials."""
        store = self.store()
        if isinstance(store, PrivateFileStore):
            return str(store.path)
        if isinstance(store, KeyringStore):
            return "the keyring of this system"
        parts = urlsplit(self.token_store or "")
        return f"Redis at {parts.netloc.rpartition('@')[2] or parts.path or 'localhost'}"


def read_settings(
    base_url: str | None, auth_url: str | None, client_id: str | None
) -> LoginSettings:
    """Take what options give, and from the environment what they do not.

    Raises:
        CommandError: some are missing; the message names them all.
    """
    options = dict(zip(_NEEDED, (base_url, auth_url, client_id), strict=True))
    surroundings = with_environment({})
    found = surroundings | {name: text for name, text in options.items() if text}
    if missing := [name for name in _NEEDED if name not in found]:
        raise CommandError(_what_to_set(missing), MISUSED)
    lacking = [name for name in _NEEDED if found[name] != surroundings.get(name)]
    return LoginSettings(
        base_url=found["base_url"],
        auth_url=found["auth_url"],
        client_id=found["client_id"],
        token_store=found.get("token_store"),
        has_access_token="access_token" in found,
        exports=tuple(f"{ENVIRONMENT[name]}={shlex.quote(found[name])}" for name in lacking),
    )


def _what_to_set(missing: list[str]) -> str:
    variables = [ENVIRONMENT[name] for name in missing]
    options = [f"--{name.replace('_', '-')}" for name in missing]
    is_not, it = ("is not", "it") if len(missing) == 1 else ("are not", "them")
    return (
        f"{_enumerate(variables)} {is_not} set\n"
        f"Set {it} in the environment, or give {_enumerate(options)}."
    )


def _enumerate(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
