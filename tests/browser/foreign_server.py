"""An authorization server that is not ours: oauthlib makes its responses."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from oauthlib.oauth2 import (  # type: ignore[import-untyped]
    AccessDeniedError,
    MobileApplicationServer,
    RequestValidator,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gateway_sdk.sandbox import AUTHORIZE_PATH
from gateway_sdk.sandbox._server import serve

CLIENT_ID = "a client + its name"
TOKEN = "-._~+/with+all/that+a+token/may+hold=="

_PAGE = """<!doctype html><title>Foreign</title><link rel="icon" href="data:,">
<form method="post"><input name="account" value="ada">
<button id="allow" name="decision" value="allow">Sign in</button>
<button id="deny" name="decision" value="deny">Cancel</button></form>"""


class ForeignServer:
    """Knows one client and one person.

    Attributes:
        url: Where people log in.
        token: What it hands out.
        asks: Whether it shows its page, or knows the person already and answers at once.
        reshape: Makes another address of the one that oauthlib sends the browser to.
    """

    url: str

    def __init__(self, life: int = 3600) -> None:
        self.reset()
        self._oauth = MobileApplicationServer(
            _Validator(), token_generator=lambda _: self.token, token_expires_in=life
        )

    def reset(self) -> None:
        """Restore the initial state."""
        self.token = TOKEN
        self.asks = True
        self.reshape: Callable[[str], str] = str

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[Self]:
        """Serve on a free port in the running loop."""
        methods = ["GET", "POST"]
        app = Starlette(routes=[Route(AUTHORIZE_PATH, self._answer, methods=methods)])
        async with serve(app, "127.0.0.1", 0) as base_url:
            self.url = f"{base_url}{AUTHORIZE_PATH}"
            yield self

    async def _answer(self, request: Request) -> Response:
        if request.method == "GET" and self.asks:
            return HTMLResponse(_PAGE)
        denied = b"decision=deny" in await request.body()
        status, location = self.answer(str(request.url), denied=denied)
        return Response(status_code=status, headers={"Location": location})

    def answer(self, url: str, *, denied: bool = False) -> tuple[int, str]:
        """Return the status and the Location of the response to an authorization request."""
        headers, _, status = self._oauth.create_authorization_response(
            url, scopes=[], credentials={"denied": denied}
        )
        return status, self.reshape(headers["Location"])


class _Validator(RequestValidator):  # type: ignore[misc]
    """The callbacks that oauthlib requires of every server."""

    def validate_client_id(self, client_id: str, request: Any) -> bool:
        return client_id == CLIENT_ID

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any) -> bool:
        return redirect_uri.startswith("http://")

    def validate_response_type(self, client_id: str, response_type: str, *_: Any) -> bool:
        return response_type == "token"

    def get_default_scopes(self, client_id: str, request: Any) -> list[str]:
        return ["read", "write"]

    def validate_scopes(self, client_id: str, scopes: list[str], client: Any, request: Any) -> bool:
        if request.denied:
            raise AccessDeniedError(request=request)
        return True

    def save_bearer_token(self, token: dict[str, Any], request: Any) -> None:
        """Store nothing: no gateway accepts this token."""
