"""What Python itself lacks: late names, safe reprs, steps in a context."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextvars import Context
from functools import wraps
from importlib import import_module
from types import AsyncGeneratorType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, the `__dir__` and the `__all__` of a package."""
    # A program that only makes calls does not pay for logins, stores and bulk runs.
    # A module with names gives those; a module without names is itself one.
    places = {name: module for module, names in modules.items() for name in names.split()}
    themselves = {module.rpartition(".")[2]: module for module in modules if not modules[module]}

    def load(name: str) -> Any:
        if name in themselves:
            return import_module(themselves[name])
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    public = sorted({*places, *themselves})
    return load, lambda: sorted({*vars(sys.modules[package]), *public}), public


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


class NotPickled:
    """Base of what holds secrets."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} may hold a secret: it cannot be pickled")


def slot_setters(kind: type) -> tuple[Callable[[Any, Any], None], ...]:
    """Return what sets each slot of a class, in their order, also if its instances are frozen."""
    # The `__init__` that dataclass writes for a frozen class looks each of them up by its name.
    slots: tuple[str, ...] = vars(kind)["__slots__"]
    return tuple(vars(kind)[name].__set__ for name in slots)


class InContext(AsyncIterator[bytes]):
    """A generator whose every step runs in one context, in the task that asks for it."""

    # A task runs in one context, and another task would be cancelled and traced differently; so
    # the steps between two waits enter the context and leave it again.

    __slots__ = ("_context", "_generator")

    def __init__(self, generator: AsyncGeneratorType[bytes, None], context: Context) -> None:
        self._generator = generator
        self._context = context

    @property
    def ag_running(self) -> bool:
        """Whether a step is under way, as generators name it."""
        return self._generator.ag_running

    async def __anext__(self) -> bytes:
        return await _Steps(self._generator.__anext__(), self._context)

    async def aclose(self) -> None:
        await _Steps(self._generator.aclose(), self._context)


class _Steps(Awaitable[T]):
    """An awaitable whose steps run in a context."""

    __slots__ = ("_awaitable", "_context")

    def __init__(self, awaitable: Awaitable[T], context: Context) -> None:
        self._awaitable = awaitable
        self._context = context

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        step: Callable[[Any], Any] = steps.send
        given: list[Any] = [None]
        while True:
            try:
                # Keep no reference: the traceback of an error refers to this frame (a cycle).
                waits_for = self._context.run(step, given.pop())
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                given.append((yield waits_for))
                step = steps.send
            except BaseException as error:  # noqa: BLE001 - a cancellation; it is raised in there
                given.append(error)
                step = steps.throw
