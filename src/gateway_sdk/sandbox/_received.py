"""What the sandbox received, and what a test asserts of it. No message shows personal data."""

import json as json_format
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

MAX_RECEIVED = 10_000

T = TypeVar("T")


@dataclass
class ReceivedCall:
    """A call that the sandbox received; its repr holds no personal data.

    Attributes:
        operation: The name of the operation, such as "create_customer".
        method: The HTTP method.
        path: The interface's template, such as "/wallet/1.0.0/orders", without the caller's values.
        status: The status that was sent; None if no reply was sent (yet).
        applied: The operation succeeded, even if the client never received the reply.
        tenant: The value of the header tenantId; None if there was none.
        parameters: The values of the placeholders in the path, by name.
        raw_headers: All headers of the request, in their order.
        pieces: The body, as far as the sandbox read it; None unless it keeps bodies.
    """

    operation: str
    method: str
    path: str
    status: int | None = None
    applied: bool = False
    tenant: str | None = field(default=None, repr=False, compare=False)
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    raw_headers: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False, compare=False)
    pieces: list[bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def headers(self) -> httpx.Headers:
        """All headers of the request; their names match in upper and lower case."""
        return httpx.Headers(list(self.raw_headers))

    @property
    def body(self) -> bytes:
        """The body, as far as the sandbox read it: a call that was refused early may have none.

        Raises:
            ValueError: bodies are not kept.
        """
        if self.pieces is None:
            raise ValueError(
                "bodies are not kept: use Sandbox(keep_bodies=True), and in pytest "
                "@pytest.mark.gateway(keep_bodies=True)"
            )
        return b"".join(self.pieces)

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ValueError: bodies are not kept, or this one is not JSON.
        """
        return json_format.loads(self.body)


@dataclass
class UnknownRequest:
    method: str
    path: str = field(repr=False)


class Log(list[T]):
    # A list, because a test may look through it while another thread serves the gateway.
    def __iter__(self) -> Iterator[T]:
        return iter(self[:])  # who looks through it may make calls

    def append(self, each: T, /) -> None:
        super().append(each)
        del self[: -MAX_RECEIVED - 1]  # one more, to see that some were lost


def matching(
    calls: Sequence[ReceivedCall], operation: str, times: int | None, **wanted: object
) -> list[ReceivedCall]:
    """Return the calls that have all of *wanted*; None there asks for nothing."""
    __tracebackhide__ = True  # pytest would show the arguments, which are personal data
    if len(calls) > MAX_RECEIVED:
        raise ValueError(f"only the last {MAX_RECEIVED} calls are known: clear() them earlier")
    asked = {name: value for name, value in wanted.items() if value is not None}
    of_it = [call for call in calls if call.operation == operation]
    found = [call for call in of_it if all(_has(call, *item) for item in asked.items())]
    if len(found) == times or (found and times is None):
        return found
    expected = "1 or more" if times is None else times
    lines = [f"expected calls of {operation}: {expected}, received: {len(found)}"]
    for name, value in asked.items():
        having = sum(_has(call, name, value) for call in of_it)
        lines.append(f"  {name} is as expected in {having} of {len(of_it)} calls")
    raise AssertionError("\n".join([*lines, summary(calls)]))


def summary(calls: Sequence[ReceivedCall]) -> str:
    if not calls:
        return "nothing was received"
    counts = Counter((call.operation, call.applied, call.status) for call in list(calls))
    lines = (
        f"  {operation}: {number}, {'applied' if applied else 'not applied'},"
        f" {f'status {status}' if status else 'no reply'}"
        for (operation, applied, status), number in counts.items()
    )
    return "\n".join(["received in all:", *lines])


def _has(call: ReceivedCall, name: str, value: Any) -> bool:
    if name == "headers":
        return all(call.headers.get(header) == text for header, text in dict(value).items())
    if name == "parameters":
        return dict(value).items() <= call.parameters.items()
    if name == "json":
        body = call.body
        with suppress(ValueError):  # no JSON, or an integer of too many digits
            return bool(json_format.loads(body) == value)
        return False
    return bool(getattr(call, name) == value)
