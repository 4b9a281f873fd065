"""Run an asynchronous generator step by step in a context of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextvars import Context
from types import AsyncGeneratorType
from typing import Any, TypeVar

T = TypeVar("T")


class InContext(AsyncIterator[bytes]):
    """A generator whose every step runs in one context, in the task that asks for it.

    A task runs in one context, and another task would be cancelled and traced differently; so the
    steps between two waits enter the context and leave it again.
    """

    __slots__ = ("_context", "_generator")

    def __init__(self, generator: AsyncGeneratorType[bytes, None], context: Context) -> None:
        self._generator = generator
        self._context = context

    @property
    def ag_running(self) -> bool:
        """Whether a step is under way, as generators name it."""
        return self._generator.ag_running

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        return await _Steps(self._generator.__anext__(), self._context)

    async def aclose(self) -> None:
        """Close the generator."""
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
