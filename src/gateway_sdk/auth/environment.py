"""The settings with which people log in and workers find what they left: the same for both."""

from collections.abc import Mapping
from typing import Any

from gateway_sdk._config import require
from gateway_sdk.auth.shared import SharedTokenSource
from gateway_sdk.auth.stores import TokenKey, TokenStore, open_store
from gateway_sdk.errors import ConfigurationError

_LOGIN = ("auth_url", "client_id", "token_store")


def with_access_token(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a session; without an access token, one that looks for a login's.

    Raises:
        ConfigurationError: there is neither an access token nor what a login takes.
    """
    require(settings, "base_url")
    session = {name: value for name, value in settings.items() if name not in _LOGIN}
    if "access_token" in settings:
        return session
    if not {"auth_url", "client_id"} & settings.keys():
        raise ConfigurationError(
            "GATEWAY_ACCESS_TOKEN is not set, and no access_token= was given; or set "
            "GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID, and run `gateway login`"
        )
    return {**session, "access_token": SharedTokenSource(token_store(settings))}


def token_store(settings: Mapping[str, Any]) -> TokenStore:
    """Return the store that people log in to and sessions read, in every process alike.

    Raises:
        ConfigurationError: a setting is missing or wrong; the message names it.
    """
    require(settings, "base_url", "auth_url", "client_id")
    key = TokenKey.of(settings["auth_url"], settings["client_id"], settings["base_url"])
    return open_store(settings.get("token_store"), key)
