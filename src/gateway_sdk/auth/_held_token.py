"""A token in memory, whose end a clock that is set back does not put off."""

from gateway_sdk.auth.token import Token, usable_until


class HeldToken:
    """A token, and how to tell the time for it.

    The time of day can be set back, and then a token would count as valid for too long. So it is
    also told from the moment at which the token was taken, by a clock that is never set.

    Attributes:
        token: The token.
        renew_at: Seconds since 1970 from which it is renewed; infinity if its end is not known.
        ends_at: Seconds since 1970 from which it is not sent; infinity if its end is not known.
    """

    __slots__ = ("_offset", "ends_at", "renew_at", "token")

    def __init__(self, token: Token, leeway: float, now: float, monotonic: float) -> None:
        """Take a token.

        Args:
            token: The token.
            leeway: Seconds before its end from which it is renewed.
            now: Seconds since 1970.
            monotonic: Seconds of a clock that is never set.
        """
        self.token = token
        self.renew_at = usable_until(token, leeway)
        self.ends_at = usable_until(token, 0.0)
        # A token of the future: the clock was set back, or is behind that of another machine. It
        # lasts for its lifetime at most.
        is_of_future = now < token.obtained_at < self.ends_at
        self._offset = (token.obtained_at if is_of_future else now) - monotonic

    def now(self, now: float, monotonic: float) -> float:
        """Return the later of both clocks, in seconds since 1970."""
        return max(now, monotonic + self._offset)
