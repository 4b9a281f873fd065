"""How long, and for what, an idle connection is trusted. One object for each route, without I/O.

Nothing but a reply proves that an idle connection works. If it does not, the request on it is lost:
one that must not be sent twice then has the outcome UNKNOWN, though nobody has seen it. So:

1. Trust comes first: a connection may rest for `MOST_REST`, and lives for about `AGE`.
2. The server shows how long a rest may be: the shortest one that it ended without announcing it
   is learned, and connections are used well below it. It is forgotten when a rest that began
   later has lasted for twice as long.
3. A connection needs a sign of life of the last seconds: the last reply, or an acknowledgement
   that the system has heard.
4. After a request was lost on a connection that had rested, rule 3 is stricter for a while for what
   must not be sent twice: only a reply of the last second counts. Behind a proxy always, whose
   acknowledgements prove one hop.
5. A peer whose system has answered nothing for `SILENCE`, though it was asked, is gone.
"""

import math
import random
from collections.abc import Callable
from typing import Final

MOST_REST: Final = 50.0
"""Seconds that an idle connection is kept: load balancers usually close it after 60."""

AGE: Final = 120.0
"""Seconds for which a connection is used, more or less: the next one follows the name, which may
have other addresses."""

PROBE: Final = 3
"""Seconds without a sign of life after which the system asks the peer's for one."""

SIGN_OF_LIFE: Final = 5.0
"""Seconds for which a sign of life counts."""

SILENCE: Final = 24
"""Seconds of silence after which the peer is gone, and a call on the connection ends, however long
its time-out is: the system has asked seven times, or repeated what was sent. Not less: a virtual
machine that moves, or a client that changes the Wi-Fi, may be away for 12 s, and goes on then. TCP
doubles its pauses, so it may hear of that after 24 s only."""

PROVED: Final = 1.0
"""Seconds for which a reply is a proof on a route that had trouble: common servers end an idle
connection after 2 s (gunicorn), 5 s (uvicorn, Node, Apache) or later."""

TROUBLED: Final = 600.0
"""Seconds for which a loss counts as trouble."""

ON_THE_WAY: Final = 1.0
"""Seconds that a request may take to the server, which may end the connection meanwhile."""
_AT_ONCE: Final = 0.25
"""Seconds after a reply in which a busy server that ends every connection has done it."""


class Trust:
    def __init__(self, *, has_proxy: bool = False) -> None:
        # Until when only a reply of the last second counts, by the clock of the caller.
        self._troubled_until = math.inf if has_proxy else -math.inf
        self._ended_at = -math.inf
        self._learn(math.inf)

    def doubt(self) -> None:
        """Trust no rest until one has lasted: some proxies end each connection after a reply."""
        self._learn(_AT_ONCE)

    def _learn(self, ends_after: float) -> None:
        self._ends_after, self.has_learned = ends_after, ends_after < math.inf
        margin = min(ON_THE_WAY, ends_after / 2)
        self.most = min(MOST_REST, ends_after - margin) if ends_after > _AT_ONCE else 0.0

    @staticmethod
    def life() -> float:
        """Return for how long a new connection is used: not all of them end together."""
        return AGE * random.uniform(0.8, 1.2)  # noqa: S311

    def allows(
        self, at: float, rest: float, unheard: Callable[[float], float], *, once: bool
    ) -> bool:
        """Tell whether a connection may carry a request after a rest of `PROVED` or longer."""
        if once and at < self._troubled_until:
            return False
        return rest < SIGN_OF_LIFE or unheard(at) < SIGN_OF_LIFE

    def note_end(self, at: float, rest: float) -> None:
        """Note that the server ended a connection at rest, or that it was gone when used."""
        self._ended_at = at
        self._learn(min(self._ends_after, max(rest, _AT_ONCE)))

    def note_rest(self, at: float, rest: float) -> None:
        """Note that a connection is open after such a rest: an end before it was no rule."""
        if rest >= 2 * self._ends_after and at - rest >= self._ended_at:
            self._learn(math.inf)

    def note_loss(self, at: float) -> None:
        """Note that a request was lost on a connection that had rested."""
        self._troubled_until = max(self._troubled_until, at + TROUBLED)
