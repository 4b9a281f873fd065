"""What a client asks for: checked in an order that never sends an answer to a stranger."""

import re
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

from gateway_sdk.sandbox.authorization.answer import AuthorizationError, ReturnAddress
from gateway_sdk.sandbox.authorization.client import SANDBOX_CLIENT_ID, RedirectUris

# In one query or form.
MAX_PARAMETERS = 32

# RFC 6749, appendix A.5. A browser would not send other characters back as they were: in a form it
# rewrites line ends.
_STATE = re.compile(r"[\x20-\x7e]*")

Parameters = dict[str, list[str]]


class AuthorizationRequest(NamedTuple):
    """A request that may be put before the person; *scope* is None if none was asked for."""

    address: ReturnAddress
    scope: str | None

    def parameters(self) -> dict[str, str]:
        """Give the request as parameters again, to be repeated with the person's decision."""
        parameters = {
            "response_type": "token",
            "client_id": SANDBOX_CLIENT_ID,
            "redirect_uri": self.address.redirect_uri,
            "state": self.address.state,
            "scope": self.scope,
        }
        return {name: value for name, value in parameters.items() if value is not None}


def parse_parameters(text: str) -> Parameters:
    """Parse a query or a form; a parameter without a value counts as omitted (RFC 6749, 3.1).

    Raises:
        HTTPException: 400 for more than MAX_PARAMETERS, or what is not UTF-8.
    """
    try:
        return parse_qs(text, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise HTTPException(400, "The parameters of the request cannot be read.") from None


def read_request(parameters: Parameters, redirect_uris: RedirectUris) -> AuthorizationRequest:
    """Check a request.

    Raises:
        HTTPException: 400 if there is no telling who asks or where an answer may go.
        AuthorizationError: For everything else that is wrong; the client learns of it.
    """
    # RFC 6749, section 4.2.2.1
    if single(parameters, "client_id") != SANDBOX_CLIENT_ID:
        raise HTTPException(400, f"The one client_id known here is {SANDBOX_CLIENT_ID}.")
    redirect_uri = single(parameters, "redirect_uri")
    if redirect_uri is None or redirect_uri not in redirect_uris:
        raise HTTPException(
            400,
            "The redirect_uri has to be an http address of this machine, such as"
            " http://127.0.0.1:8000/callback, or one that was registered with the sandbox.",
        )
    address = ReturnAddress(redirect_uri, single(parameters, "state"))
    _check_rest(parameters, address)
    return AuthorizationRequest(address, single(parameters, "scope"))


def single(parameters: Parameters, name: str) -> str | None:
    """Give the value of a parameter that is there exactly once, else None."""
    values = parameters.get(name, [])
    return values[0] if len(values) == 1 else None


def _check_rest(parameters: Parameters, address: ReturnAddress) -> None:
    invalid = "invalid_request"
    if any(len(values) > 1 for values in parameters.values()):
        raise AuthorizationError(address, invalid, "a parameter is there more than once")
    if not _STATE.fullmatch(address.state or ""):
        raise AuthorizationError(address, invalid, "the state is not printable ASCII")
    response_type = single(parameters, "response_type")
    if response_type is None:
        raise AuthorizationError(address, invalid, "response_type is missing")
    if response_type != "token":
        raise AuthorizationError(
            address, "unsupported_response_type", "the response_type has to be token"
        )
