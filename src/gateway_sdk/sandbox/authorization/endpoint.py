"""The authorization endpoint: show the page, take the decision, send the browser back."""

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gateway_sdk.sandbox.authorization.answer import AuthorizationError
from gateway_sdk.sandbox.authorization.client import RedirectUris
from gateway_sdk.sandbox.authorization.grant import TOKEN_KINDS
from gateway_sdk.sandbox.authorization.pages import (
    AUTHORIZE_PATH,
    HEADERS,
    login_page,
    refusal_page,
)
from gateway_sdk.sandbox.authorization.request import (
    AuthorizationRequest,
    Parameters,
    parse_parameters,
    read_request,
    single,
)
from gateway_sdk.sandbox.bodies import read_text
from gateway_sdk.sandbox.tokens import TokenRegistry

# Of bytes. The form repeats the query, and a browser may write one character of it as three.
MAX_QUERY = 8192
MAX_FORM = 4 * MAX_QUERY
FORM = "application/x-www-form-urlencoded"


class AuthorizationEndpoint:
    """Asks a person on GET, and acts on the decision on POST.

    The page's form has the request's parameters as hidden fields and these, whose names and ids
    stay: the text "account" (#account), which is asked for and forgotten, as nothing in the
    interface reads it back; the radio buttons "token", a key of TOKEN_KINDS (#token-hour,
    #token-minute, #token-unstated, #token-expired, #token-revoked); and the buttons "decision",
    allow or deny (#allow, #deny). On a refusal, #reason says why.
    """

    def __init__(self, tokens: TokenRegistry, redirect_uris: RedirectUris) -> None:
        self._tokens = tokens
        self._redirect_uris = redirect_uris

    def route(self) -> Route:
        """Give the route that leads here."""
        return Route(AUTHORIZE_PATH, self._answer, methods=["GET", "POST"])

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._decide(request) if request.method == "POST" else self._ask(request)
        except HTTPException as refusal:
            return refusal_page(refusal.status_code, refusal.detail)
        except AuthorizationError as error:
            return _redirect(error.location)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is left to read it

    def _ask(self, request: Request) -> Response:
        query: bytes = request.scope["query_string"]
        if len(query) > MAX_QUERY:
            raise HTTPException(414, f"The address is longer than {MAX_QUERY} bytes.")
        parameters = parse_parameters(query.decode("latin-1"))
        asked = read_request(parameters, self._redirect_uris)
        return login_page(asked, request.headers.get("Host", ""))

    async def _decide(self, request: Request) -> Response:
        _refuse_foreign_forms(request)
        parameters = parse_parameters(await read_text(request, MAX_FORM))
        asked = read_request(parameters, self._redirect_uris)
        match single(parameters, "decision"):
            case "allow":
                return _redirect(asked.address.location(self._grant(parameters, asked)))
            case "deny":
                raise AuthorizationError(asked.address, "access_denied", "the person said no")
            case _:
                raise HTTPException(400, "The decision has to be allow or deny.")

    def _grant(self, parameters: Parameters, asked: AuthorizationRequest) -> dict[str, str]:
        if not (single(parameters, "account") or "").strip():
            raise HTTPException(400, "The account is missing.")
        kind = TOKEN_KINDS.get(single(parameters, "token") or "")
        if kind is None:
            raise HTTPException(400, f"The token has to be one of {', '.join(TOKEN_KINDS)}.")
        told = kind.hand_out(self._tokens)
        # Interface: Authentication 2, the set of scopes is empty. Whoever asked for one is told
        # (RFC 6749, section 3.3).
        return told if asked.scope is None else {**told, "scope": ""}


def _refuse_foreign_forms(request: Request) -> None:
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415, f"The decision has to come as {FORM}.")
    # RFC 6749, section 10.12. The header Origin would not tell: our no-referrer makes it "null".
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        raise HTTPException(403, "The decision has to come from the page of the sandbox.")


def _redirect(location: str) -> Response:
    # 303, so that no browser posts the form on to the client (RFC 9700, section 4.12). Starlette's
    # RedirectResponse would quote the redirect URI once more.
    return Response(status_code=303, headers={**HEADERS, "Location": location})
