"""What helps after an error: one table, in Python and at the command line.

Each of the two texts has the names of its surface only. That for Python follows the message, and
is empty where the message says it.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

Hints: TypeAlias = tuple[str, str]

# By the reason of a failed connection.
AUTHORITY: Final = (
    "verify= or SSL_CERT_FILE names an authority to trust",
    "Set SSL_CERT_FILE to a file with the authority that signed it, or SSL_CERT_DIR to a folder.",
)
CLIENT: Final = "cert= gives one", "The command line has none: a program can show one."
HOST: Final = "is base_url right?", "Is the host of GATEWAY_BASE_URL right?"
SCHEME: Final = "is https right?", "Is https:// of GATEWAY_BASE_URL right?"
SLOTS: Final = "max_connections= is their number", "Make fewer calls at a time."
PROXY: Final = (
    "proxy= or HTTPS_PROXY, HTTP_PROXY, ALL_PROXY names it, and NO_PROXY what goes past it",
    "Is HTTPS_PROXY, HTTP_PROXY or ALL_PROXY right? NO_PROXY names hosts that need no proxy.",
)


def _at_the_command_line(texts: Mapping[str, str]) -> Mapping[str, Hints]:
    return {name: ("", text) for name, text in texts.items()}


OF_SETTING: Final = _at_the_command_line({
    "GATEWAY_BASE_URL": "Set it to the gateway's address, or give --base-url. With --sandbox most"
    " commands need none.",
    "GATEWAY_ACCESS_TOKEN": "Set it, or run `gateway login`.",
    "GATEWAY_TENANT_ID": "Set it to the tenant of the customer, or give --tenant.",
    "GATEWAY_AUTH_URL": "Set it to the address of the login page, or give --auth-url.",
    "GATEWAY_CLIENT_ID": "Set it to the client id of the login, or give --client-id.",
    "SSL_CERT_FILE": "It names a file of CA certificates in PEM.",
    "SSL_CERT_DIR": "It names folders of CA certificates in PEM, as `openssl rehash` makes them.",
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "It is written http://user:password@host:port."
    ),
    **dict.fromkeys(("redirect_uri", "scope", "timeout"), "--help shows what the command takes."),
})  # fmt: skip

OF_KIND: Final = _at_the_command_line({
    "GatewayError": "Running it again does no harm; --debug shows where it happened.",
    "MissingExtraError": "",
    "JournalError": "",
    "OutageError": "The same command continues.",
    "ConfigurationError": "`gateway status` shows the settings in force, with their sources.",
    "InvalidArgumentError": "--help shows what the command takes.",
    "ConnectionFailedError": "Is it running, and is GATEWAY_BASE_URL right? `gateway sandbox`"
    " starts one here.",
    "TokenRejectedError": "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
    "UnauthorizedError": "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
    "ForbiddenError": "The access token does not allow this: use another one.",
    "NotFoundError": "Check the spelling, GATEWAY_BASE_URL and GATEWAY_TENANT_ID.",
    "ConflictError": "What is there already does not allow this: look at it first.",
    "InvalidRequestError": "The gateway did not understand it: change what you give.",
    "RateLimitedError": "Wait, or ask for less at once.",
    "RedirectError": "Is GATEWAY_BASE_URL right? Redirects are not followed.",
    "UnexpectedReplyError": "Is GATEWAY_BASE_URL the address of a gateway?",
    "AuthError": "Is GATEWAY_ACCESS_TOKEN set?",
    "LoginRequiredError": "Get a token with `gateway login`.",
    "LoginError": "Log in again.",
    "AuthorizationDeniedError": "Log in again, or ask who runs the authorization server.",
    "LoginTimeoutError": "Log in again, with a longer --timeout if you need one, or with --paste if"
    " your browser is on another machine.",
    "ReceiverUnavailableError": "Port 0 in --redirect-uri takes a free port.",
    "TokenStoreError": "Is GATEWAY_TOKEN_STORE right, and can it be used from here?",
})  # fmt: skip
"""By the class of an error, for it and for those below it."""
