"""What nothing of ours is needed for: late names, safe reprs, observers of a whole program."""

import logging
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from types import TracebackType
from typing import Any, Final, NoReturn, cast

# An instrumentor adds one in every program on a machine, most of which never make a session: so
# what it needs for that stands here, where nothing else is loaded, and not in `observer`.
makers: Final[dict[str, Callable[[], Any]]] = {}
"""What makes the observers of all sessions and bulk runs, by a name."""


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, the `__dir__` and the `__all__` of a package."""
    # A program that only makes calls does not pay for logins, stores and bulk runs.
    # A module with names gives those; a module without names is itself one.
    places = {name: module for module, names in modules.items() for name in names.split()}
    themselves = [module.rpartition(".")[2] for module in modules if not modules[module]]

    def load(name: str) -> Any:
        if f"{package}.{name}" in modules:
            return import_module(f"{package}.{name}")
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    public = sorted({*places, *themselves})
    return load, lambda: sorted({*vars(sys.modules[package]), *public}), public


MASK: Final = "**********"
"""What pydantic writes in place of a secret."""


class Wire:
    """Writes itself as the JSON to send: a model, whose module is loaded late."""

    @abstractmethod
    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""

    @abstractmethod
    def __wire__(self) -> bytes | None:
        """Return the JSON, made without an object; None if that is needed."""


def safe_repr(describe: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a `__repr__` that also works without some attributes."""
    # A traceback that shows local variables calls it, and an AttributeError in it would hide the
    # original error.

    @wraps(describe)
    def describe_or_say_so(half_built: Any) -> str:
        try:
            return describe(half_built)
        except AttributeError:
            return f"<{type(half_built).__name__}, not fully made>"

    return describe_or_say_so


class Log(logging.LoggerAdapter[logging.Logger]):
    """Logs for the SDK: what filters, handlers and record factories of the user raise ends here."""

    # Python lets it propagate to who logs: it would take the place of the outcome of a call.

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: Any, **more: Any) -> None:
        """Log it; if that fails, write it to stderr as `logging` does if a handler notices."""
        try:
            self.logger.log(level, msg, *args, stacklevel=2, **more)
        except Exception:  # noqa: BLE001 - the user's
            record = logging.LogRecord(self.logger.name, level, __file__, 0, msg, args, None)
            with suppress(Exception):  # stderr is closed
                logging.Handler().handleError(record)


_logger = Log("gateway_sdk")

INFO: Final = logging.INFO
is_logged: Final = _logger.logger.isEnabledFor  # without a frame of ours: each call asks


def tell(hook: Callable[..., Any], *what: object) -> Any:
    """Return what a hook returns; None if it fails, which is logged and changes nothing."""
    handled = sys.exception()
    try:
        return hook(*what)
    except Exception as error:  # noqa: BLE001 - it is logged
        _log_failure("an observer failed", error, handled)
        return None


def telling(on_progress: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that calls it; of its errors, which change nothing, the first is logged."""
    # It is called for each chunk of a document, and for each item of a run.
    line = "on_progress failed; if it fails again in this call or run, this is not logged"
    has_failed = False

    def tell_progress(*what: object) -> None:
        nonlocal has_failed
        handled = sys.exception()
        try:
            on_progress(*what)
        except Exception as error:  # noqa: BLE001 - it is logged
            if not has_failed:
                _log_failure(line, error, handled)
            has_failed = True

    return tell_progress


def _log_failure(line: str, error: Exception, handled: BaseException | None) -> None:
    own = None
    with suppress(Exception):  # the class of an error may have methods of its own
        own = _of_hook(error, handled)
    _logger.error(line, exc_info=own)


def _of_hook(
    error: Exception, handled: BaseException | None
) -> tuple[type[Exception], Exception, TracebackType | None]:
    """Take off what is not the hook's: our frames, and the error that it was called for."""
    # Some programs log the variables of all frames, and those of ours hold what is sent.
    chain: list[BaseException] = [] if error is handled else [error]
    for one in chain:
        one.with_traceback(_without_ours(one.__traceback__))
        if isinstance(one, BaseExceptionGroup):
            chain += cast("Any", one).exceptions
        for link in ("__cause__", "__context__"):
            behind = getattr(one, link)
            if behind is not None and behind is handled:
                object.__setattr__(one, link, None)  # also of a frozen dataclass
            elif behind is not None and not any(behind is other for other in chain):
                chain.append(behind)
    return type(error), error, _without_ours(error.__traceback__)


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    left: list[TracebackType] = []
    while frames is not None:
        if str(frames.tb_frame.f_globals.get("__name__")).partition(".")[0] != "gateway_sdk":
            left.append(frames)
        frames = frames.tb_next
    for one in reversed(left):
        frames = TracebackType(frames, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return frames


class NotPickled:
    """Base of what holds secrets."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} may hold a secret: it cannot be pickled")


def with_added(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the observers that were given, and those added that are of no class of theirs."""
    # A program that gives an `OpenTelemetry` has chosen its providers: two would trace twice.
    made = [make() for make in makers.values()]
    return (*given, *(it for it in made if not any(isinstance(one, type(it)) for one in given)))


# As OWASP lists what spreadsheets take for a formula (CSV injection). Numbers with a sign are none.
_FORMULA: Final = r"[=@\t\r\n\uff1d\uff0b\uff0d\uff20]|[+-](?!\d+(\.\d+)?\Z)"


def without_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and re.match(_FORMULA, cell) else cell
