"""The settings of a session, put together, and those of the environment."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway_sdk._call.options import OPTIONS, CallSettings
from gateway_sdk._call.shared_state import SHARED, SharedSettings
from gateway_sdk._transport.settings import TRANSPORT, TransportSettings
from gateway_sdk._url import origin_of_text, parse_url
from gateway_sdk.auth.source import AccessTokenGiven
from gateway_sdk.errors import ConfigurationError

if TYPE_CHECKING:
    from gateway_sdk.auth import TokenStore


class SessionSettings(CallSettings, TransportSettings, SharedSettings, total=False):
    """The settings of a session that have a default."""


class EnvironmentSettings(SessionSettings, total=False):
    """All settings of a session, and of the login whose token it uses."""

    base_url: str
    access_token: AccessTokenGiven
    auth_url: str
    client_id: str
    token_store: str | None


DECLARED: Final = {**OPTIONS, **TRANSPORT, **SHARED}

ENVIRONMENT: Final = {
    "base_url": "GATEWAY_BASE_URL",
    "access_token": "GATEWAY_ACCESS_TOKEN",
    "tenant_id": "GATEWAY_TENANT_ID",
    "token_header": "GATEWAY_TOKEN_HEADER",
    "auth_url": "GATEWAY_AUTH_URL",
    "client_id": "GATEWAY_CLIENT_ID",
    "token_store": "GATEWAY_TOKEN_STORE",
}
_OF_LOGIN: Final = ("auth_url", "client_id", "token_store")


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add settings of the environment that were not given; an empty variable counts as missing."""
    own, other = os.environ.get(ENVIRONMENT["base_url"]), origin_of_text(given.get("base_url"))
    goes_elsewhere = own and other and other != origin_of_text(own)
    found = {name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()}
    settings = {name: value for name, value in found.items() if value} | dict(given)
    for name in ("access_token", "token_header", "tenant_id"):
        if goes_elsewhere and name in settings and name not in given:
            raise ConfigurationError(
                "is for another gateway, that of GATEWAY_BASE_URL",
                setting=ENVIRONMENT[name],
                hint=f": give {name}= too",
            )
    return settings


def with_access_token(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a session; without an access token, the store's is read."""
    _require(settings, "base_url")
    session = {name: value for name, value in settings.items() if name not in _OF_LOGIN}
    if "access_token" in settings:
        return session
    if not {"auth_url", "client_id"} & settings.keys():
        raise ConfigurationError(
            "is not set",
            setting="GATEWAY_ACCESS_TOKEN",
            hint=", and no access_token= was given; or set GATEWAY_AUTH_URL and "
            "GATEWAY_CLIENT_ID, and run `gateway login`",
        )
    # Only such a session needs the stores and the login.
    from gateway_sdk.auth import SharedTokenSource  # noqa: PLC0415

    return {**session, "access_token": SharedTokenSource(token_store(settings))}


def token_store(settings: Mapping[str, Any]) -> "TokenStore":
    """Return the store that logins write and sessions read; the same in every process."""
    from gateway_sdk.auth import TokenKey, open_store  # noqa: PLC0415

    _require(settings, "base_url", *_OF_LOGIN[:2])
    parse_url("auth_url", settings["auth_url"])  # under the name that it has here
    key = TokenKey.of(settings["auth_url"], settings["client_id"], settings["base_url"])
    return open_store(settings.get("token_store"), key)


def _require(settings: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if settings.get(name) is None:
            hint = f", and no {name}= was given"
            raise ConfigurationError("is not set", setting=ENVIRONMENT[name], hint=hint)
