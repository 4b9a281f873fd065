"""The way back to the client."""

from typing import NamedTuple
from urllib.parse import quote, urlencode


class ReturnAddress(NamedTuple):
    """Where an answer goes, and the state that it has to bring back, None if there was none."""

    redirect_uri: str
    state: str | None

    def location(self, answer: dict[str, str]) -> str:
        """Give the URI that carries *answer* and the state in its fragment."""
        # RFC 6749, section 4.2.2
        if self.state is not None:
            answer = {**answer, "state": self.state}
        # "%20" is a space to every decoder, "+" is one only to those that know of forms.
        return f"{self.redirect_uri}#{urlencode(answer, quote_via=quote)}"


class AuthorizationError(Exception):
    """An error that the client is told, in the words of RFC 6749, section 4.2.2.1."""

    def __init__(self, address: ReturnAddress, code: str, description: str) -> None:
        super().__init__(code)
        self.location = address.location({"error": code, "error_description": description})
