"""The error tree, drawn in the docstring and held here."""

import inspect
import re

import pytest

from gateway_sdk import errors
from gateway_sdk.errors import GatewayError

KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, Exception) and not kind.__name__.startswith("_")
]


def test_the_drawing_shows_every_error_under_its_parent() -> None:
    drawn: dict[str, str | None] = {}
    parents: list[str] = []
    for line in str(errors.__doc__).splitlines():
        found = re.match(r"    ((?:[│├└─ ]{4})*)(\w+Error)", line)
        if found:
            depth = len(found[1]) // 4
            drawn[found[2]] = parents[depth - 1] if depth else None
            parents[depth:] = [found[2]]

    assert set(drawn) == {kind.__name__ for kind in KINDS}
    for kind in KINDS:
        parent = drawn[kind.__name__]
        assert parent is None or parent in {base.__name__ for base in kind.__mro__}


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ConfigurationError, ValueError),
        (errors.InvalidArgumentError, ValueError),
        (errors.MissingExtraError, ImportError),
        (errors.SessionStateError, RuntimeError),
        (errors.DeadlineExceededError, TimeoutError),
        (errors.LoginTimeoutError, TimeoutError),
    ],
)
def test_errors_that_have_a_builtin_meaning_are_that_too(
    kind: type[GatewayError], builtin: type[Exception]
) -> None:
    assert issubclass(kind, builtin)
