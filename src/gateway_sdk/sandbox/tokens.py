"""Which access tokens the gateway knows, and until when."""

import math
from collections.abc import Callable
from typing import Literal

Complaint = Literal["is unknown", "expired", "was revoked"]


class TokenRegistry:
    """All access tokens; *clock* gives seconds, and only their differences matter."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expiries: dict[str, float] = {}
        self._revoked: set[str] = set()

    def issue(self, token: str, lifetime: float | None = None) -> None:
        """Accept a token from now on, for so many seconds; None is without end."""
        self._expiries[token] = math.inf if lifetime is None else self._clock() + lifetime
        self._revoked.discard(token)

    def revoke(self, token: str) -> None:
        """Refuse a token from now on, whether or not it was issued."""
        self._revoked.add(token)

    def revoke_all(self) -> None:
        """Refuse every token that was issued until now."""
        self._revoked |= self._expiries.keys()

    def check(self, token: str) -> Complaint | None:
        """Tell what is wrong with a token, if anything is."""
        if token in self._revoked:
            return "was revoked"
        if token not in self._expiries:
            return "is unknown"
        return "expired" if self._expiries[token] <= self._clock() else None
