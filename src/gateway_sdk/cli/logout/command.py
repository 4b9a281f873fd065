"""The signature of `gateway logout`."""

from gateway_sdk.cli.settings import AuthUrl, BaseUrl, ClientId, read_settings


def logout(base_url: BaseUrl = None, auth_url: AuthUrl = None, client_id: ClientId = None) -> None:
    """Delete the access token that `gateway login` left.

    The authorization server is not told, for the implicit flow has no way to do so: there the
    token stays valid until it expires.
    """
    # Imported here, because only those who log out need it.
    from gateway_sdk.cli.logout.log_out import log_out  # noqa: PLC0415

    log_out(read_settings(base_url, auth_url, client_id))
