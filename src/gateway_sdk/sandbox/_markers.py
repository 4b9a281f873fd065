"""What the markers of the pytest plugin ask for. It does not import pytest."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from gateway_sdk.sandbox._faults import Fault, Faults

EVERY_OPERATION = "*"


class Mark(Protocol):
    """A marker as pytest keeps it."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        ...

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        ...


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the gateway of a test is.

    Attributes:
        seed: The seed of its data and of its faults.
        strict: Whether what was not expected fails the test at its end.
        allow: The operations that a strict test allows.
        keep_bodies: Whether the bodies of calls are kept.
        faults: The faults.
    """

    seed: int = 0
    strict: bool = False
    allow: Collection[str] = ()
    keep_bodies: bool = False
    faults: Faults = field(default_factory=Faults, init=False)

    def __post_init__(self) -> None:
        """Check the types: no type checker sees the arguments of a marker."""
        _check_type("seed", self.seed, int, "a whole number")
        _check_type("strict", self.strict, bool, "True or False")
        _check_type("allow", self.allow, list | tuple | set, "a list of operations")
        _check_type("keep_bodies", self.keep_bodies, bool, "True or False")
        object.__setattr__(self, "faults", Faults(seed=self.seed))


ARGUMENTS = tuple(each.name for each in fields(Options) if each.init)


def read_markers(gateway: Iterable[Mark], faults: Iterable[Mark]) -> Options:
    """Return what the markers `gateway` and `gateway_fault` of a test ask for.

    Of several `gateway`, a later one replaces single arguments of an earlier one.

    Raises:
        TypeError: An argument is missing, unknown or of a wrong type.
        ValueError: An operation or a fault is unknown, or a number is out of its range.
    """
    merged: dict[str, Any] = {}
    for mark in gateway:
        if mark.args or not mark.kwargs.keys() <= set(ARGUMENTS):
            raise TypeError(f"gateway() takes keyword arguments only: {', '.join(ARGUMENTS)}")
        merged |= mark.kwargs
    options = Options(**merged)
    for mark in faults:
        if len(mark.args) < 2:  # noqa: PLR2004 - the operation and the fault
            raise TypeError("gateway_fault() takes an operation and the name of a fault")
        _add(options.faults, *mark.args, **mark.kwargs)
    return options


def _add(
    faults: Faults,
    operation: str,
    fault: str,
    *values: Any,
    at: int | None = None,
    times: int | None = None,
    rate: float = 1.0,
    **more: Any,
) -> None:
    made = Fault.of_kind(fault, *values, **more)
    if operation == EVERY_OPERATION:
        faults.anywhere(made, at=at, times=times, rate=rate)
    else:
        faults.on(operation, made, at=at, times=times, rate=rate)


def _check_type(name: str, value: object, kind: Any, described: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {described}")
