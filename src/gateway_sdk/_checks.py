"""Checks of what users give, which return the value to use; and how signatures show settings."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from types import FunctionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import httpx

from gateway_sdk._waiting import hiding_frames
from gateway_sdk.errors import ConfigurationError

Declared: TypeAlias = dict[str, tuple[Any, Callable[[str, Any], Any]]]
"""Settings by name: the default, and the check."""

_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds: ten years. Larger numbers overflow in event loops and sockets."""


def declared(settings: type) -> Declared:
    """Return the settings that a TypedDict annotates with their type, default and check."""
    # Those of its bases are among them; `get_type_hints` would take a hundred times longer.
    return {name: hint.__metadata__ for name, hint in settings.__annotations__.items()}


class Default:
    """A default that a signature shows; given as an argument, it counts as not given."""

    _value: object = ...  # it is elsewhere: that of the session, or of the environment

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "..." if self._value is ... else repr(self._value)


INHERITED: Final[Any] = Default(...)
_F = TypeVar("_F", bound=Callable[..., Any])


def shown(*, inherited: Collection[str] = ()) -> Callable[[_F], _F]:
    """Show the keys of `**settings: Unpack[...]` in a signature: to mocks, help and editors."""

    def decorate(function: _F) -> _F:
        # A twin has it: from the function, `functools.wraps` would copy it, with its `self`, to
        # what wraps a bound method.
        twin = _twin(function)
        signature = LateSignature.__new__(LateSignature)
        signature.make = partial(_with_settings, twin, inherited)
        vars(twin)["__signature__"] = signature
        vars(function)["__wrapped__"] = twin
        return function

    return decorate


def _twin(function: Any) -> FunctionType:
    code, closure = function.__code__, function.__closure__
    twin = FunctionType(code, function.__globals__, None, function.__defaults__, closure)
    twin.__kwdefaults__, twin.__annotations__ = function.__kwdefaults__, function.__annotations__
    return twin


class LateSignature(inspect.Signature):
    """A signature that is made when somebody looks: the import does not pay for it."""

    make: Callable[[], inspect.Signature] = inspect.Signature

    def __getattr__(self, name: str) -> Any:
        if name in vars(inspect.Signature):  # a slot, and it is empty so far
            made = self.make()
            super().__init__([*made.parameters.values()], return_annotation=made.return_annotation)
        return self.__getattribute__(name)


def _with_settings(function: FunctionType, inherited: Collection[str]) -> inspect.Signature:
    vars(function).pop("__signature__", None)
    signature = inspect.signature(function)
    *given, rest = signature.parameters.values()
    hints = get_type_hints(function)
    parameters = [it.replace(annotation=hints.get(it.name, it.annotation)) for it in given]
    settings = get_args(hints[rest.name])[0]
    for name, hint in (get_origin(settings) or settings).__annotations__.items():
        kind, default = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
        default = None if default is None else Default(default)
        default = INHERITED if name in inherited else default
        one = inspect.Parameter(name, rest.KEYWORD_ONLY, default=default, annotation=kind)
        parameters.append(one)
        function.__annotations__[name] = kind  # where pydantic looks for what the signature has
    returned = signature.return_annotation
    returned = hints["return"] if isinstance(returned, str) else returned
    made = signature.replace(parameters=parameters, return_annotation=returned)
    vars(function)["__signature__"] = made
    return made


def checked(declared: Declared, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: check(name, given.get(name, default)) for name, (default, check) in declared.items()
    }


def check_names(where: str, settings: Any, known: Collection[str]) -> dict[str, Any]:
    """Return what is given; refuse an argument that does not exist, and suggest the one meant."""
    for name in settings:
        if name not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - after a mistake only

            # A part of a name goes before a similar name: `connections` for `max_connections`.
            close = sorted(other for other in known if name in other)
            # The last word tells more than a faint likeness: `retry` for `max_retries`.
            tries = ((name, 0.7), (name.rpartition("_")[2], 0.65), (name, 0.6))
            near = (get_close_matches(text, sorted(known), 1, least) for text, least in tries)
            close = close or next(filter(None, near), [])
            hint = f": did you mean {' or '.join(close)}?" if close else ""
            raise ConfigurationError(f"{where} has no argument {name!r}{hint}")
    return {name: value for name, value in settings.items() if not isinstance(value, Default)}


def check_timeout(name: str, timeout: object) -> httpx.Timeout:
    if not isinstance(timeout, httpx.Timeout):
        return httpx.Timeout(check_seconds(name, timeout))
    for phase, seconds in timeout.as_dict().items():
        check_seconds(f"{name}.{phase}", seconds)
    return timeout


def _number(
    name: str, value: Any, fits: Callable[[float], bool], wanted: str, hint: str = ""
) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
        raise ConfigurationError(f"must be a number {wanted}", setting=name, hint=hint)
    return float(value)


def check_seconds(name: str, seconds: object) -> float | None:
    """Return a positive, finite number of seconds, or None for no limit."""
    if seconds is None:
        return None
    wanted = "of seconds, more than 0 and finite"
    return _number(name, seconds, lambda it: 0 < it <= _LONGEST, wanted, "; None is no limit")


def check_wait(name: str, seconds: object) -> float:
    wanted = "of seconds, at least 0 and finite"
    return _number(name, seconds, lambda it: 0 <= it <= _LONGEST, wanted)


def check_amount(name: str, amount: object) -> float:
    return _number(name, amount, lambda it: 0 <= it <= sys.float_info.max, "of at least 0")


def check_switch(name: str, value: object) -> bool:
    """Return True or False; refuse other types: the text "false" counts as true in Python."""
    if not isinstance(value, bool):
        raise ConfigurationError("must be True or False", setting=name)
    return value


def is_async(function: object) -> bool:
    """Tell whether the result of a function must be awaited, or is an asynchronous iterator."""
    called = (function, function.__call__) if callable(function) else ()
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called
    )


def accepts(function: object, *arguments: object) -> bool:
    """Tell whether a function can be called with these arguments; True if that is not known."""
    # `wraps` copies `__wrapped__` and `__signature__`, and wrapt's proxies show what they wrap, to
    # which they may add arguments.
    if function.__class__ is not type(function) or hasattr(function, "__signature__"):
        return True
    try:
        is_ours = getattr(function, "__globals__", None) is hiding_frames.__globals__
        signature = inspect.signature(cast("Any", function), follow_wrapped=is_ours)
    except Exception:  # noqa: BLE001 - of C, or of types that only type checkers know (3.14)
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def promised(name: str, function: Callable[..., Any], *arguments: object) -> Awaitable[Any]:
    """Call a function whose result is awaited; ConfigurationError if it is a plain one."""
    promise: Any = function(*arguments)
    if not inspect.isawaitable(promise):
        raise ConfigurationError("is a plain function: make it async", setting=name)
    return promise


def check_client_id(client_id: object) -> None:
    # RFC 6749, appendix A.1: printable ASCII. A space or a line end around it comes from a file.
    if not (
        isinstance(client_id, str)
        and client_id.isascii()
        and client_id.isprintable()
        and client_id.strip() == client_id != ""
    ):
        problem = "must be a string of printable ASCII characters, with no space around them"
        raise ConfigurationError(problem, setting="client_id")


def check_count(name: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError("must be a whole number of at least 1", setting=name)
    return count
