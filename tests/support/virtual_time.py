"""An event loop in which hours pass in no time, and exactly."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from gateway_sdk._call.shared_state import SharedState, _load_models

_load_models()
SharedState.has_models = True  # a session would load them in a thread

T = TypeVar("T")
P = ParamSpec("P")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Goes to the time of the next timer as soon as nothing else is left to do.

    For code without sockets and threads: what the system does in the meantime is not waited for.
    """

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now

    def jump(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # sorted
        if not timers:
            raise RuntimeError("nothing will ever happen: everybody waits for somebody else")
        self.now = timers[0].when()  # and not a sum, which would be rounded
        # What is due now is run now; what is due a trifle later is not.
        self._clock_resolution = math.ulp(self.now)


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; if nothing is and the loop would wait, go on in time."""
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self._loop.jump()
        return ready


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)


def now() -> float:
    return asyncio.get_running_loop().time()


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def running(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return running
