"""The signature of `gateway status`."""

from gateway_sdk.cli.settings import AuthUrl, BaseUrl, ClientId, read_settings


def status(base_url: BaseUrl = None, auth_url: AuthUrl = None, client_id: ClientId = None) -> None:
    """Tell whether there is a usable access token, for which gateway, and until when.

    The exit status is 0 if there is one, else 1. The token itself is never shown.
    """
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.status.tell import tell  # noqa: PLC0415

    tell(read_settings(base_url, auth_url, client_id))
