"""The signature of `gateway login`."""

from typing import Annotated

import typer

from gateway_sdk.cli.settings import AuthUrl, BaseUrl, ClientId, read_settings


def login(
    *,
    base_url: BaseUrl = None,
    auth_url: AuthUrl = None,
    client_id: ClientId = None,
    browser: Annotated[
        str | None,
        typer.Option(
            help='The command that opens the address, such as "chromium --incognito %s": a private'
            " window keeps the token out of its history. This machine's own browser, if left out."
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only show the address, and open nothing.")
    ] = False,
    paste: Annotated[
        bool,
        typer.Option(
            "--paste",
            help="For a machine without a browser, as over ssh: show the address, and take the one"
            " that the browser ends up at, pasted, which is not shown, or from a pipe.",
        ),
    ] = False,
    redirect_uri: Annotated[
        str,
        typer.Option(
            help="Where the answer comes to, as it is registered for the client. Port 0 takes any"
            " that is free."
        ),
    ] = "http://127.0.0.1:0/callback",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to finish the login.")] = 300,
) -> None:
    """Log in with a browser, and keep the access token for programs.

    Sessions that are made by `GatewaySession.from_env()` with the same settings use it from then
    on. GATEWAY_TOKEN_STORE says where it is kept: "file", in a private file of this user, if it is
    not set; "file:" and a folder; "keyring"; or the address of a Redis.
    """
    # Imported here, because only those who log in need it.
    from gateway_sdk.cli.login.log_in import log_in  # noqa: PLC0415

    log_in(
        read_settings(base_url, auth_url, client_id),
        browser=browser,
        no_browser=no_browser,
        paste=paste,
        redirect_uri=redirect_uri,
        timeout=timeout,
    )
