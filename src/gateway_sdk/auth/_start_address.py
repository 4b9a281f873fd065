"""The start address of a login: it binds the login to the browser that opens it. Pure: no I/O.

The authorization URL holds the state, and who knows the state could end the login with a token of
their own. Other users of a machine can read the arguments of a browser's command. So the browser
gets this address instead, which can be opened once: its reply sets a cookie and leads on to the
authorization URL, and the response is accepted only with the cookie.
"""

import hmac
import secrets
from typing import Final

import httpx

_MAX_AGE: Final = 24 * 60 * 60
"""Seconds that a browser keeps the cookie of a login that was never finished."""


class StartAddress:
    """A one-time address that leads on to an authorization URL.

    Attributes:
        path: Its path; it cannot be guessed.
    """

    def __init__(self, authorization_url: str, *, on_fixed_port: bool = False) -> None:
        self.path = f"/{secrets.token_urlsafe(32)}"
        self._leads_to = str(httpx.URL(authorization_url))  # ASCII, as a header must be
        # Cookies ignore ports: other logins and other programs at this host have theirs too.
        self._name = f"login-{secrets.token_hex(8)}"
        self._value = secrets.token_urlsafe(32)
        self._is_opened = False
        # A page that was at a fixed port before may have left a service worker, which would take
        # the response. One that lets this address through is removed; one that does not gets
        # nothing: requests of scripts are refused. It deletes what else that origin has stored.
        self._more = {"Clear-Site-Data": '"storage"'} if on_fixed_port else {}

    def open(self, cookies: str) -> dict[str, str] | None:
        """Return the headers that lead a browser on; None if another browser was led on before.

        Args:
            cookies: The request's header Cookie.
        """
        if self._is_opened and not self.is_bound_to(cookies):
            return None
        self._is_opened = True
        set_cookie = self._set_cookie(self._value, _MAX_AGE)
        return {"Location": self._leads_to, "Set-Cookie": set_cookie, **self._more}

    def is_bound_to(self, cookies: str) -> bool:
        """Return whether these are the cookies of the browser that opened the address."""
        expected = f"{self._name}={self._value}".encode()
        given = [cookie.strip().encode() for cookie in cookies.split(";")]
        return any(hmac.compare_digest(cookie, expected) for cookie in given)

    def delete_cookie(self) -> dict[str, str]:
        """Return the header that deletes the cookie."""
        return {"Set-Cookie": self._set_cookie("", 0)}

    def _set_cookie(self, value: str, seconds: int) -> str:
        # Strict: no request that another site causes carries it. The page's own request does.
        return f"{self._name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
