"""Errors: their tree, and what a worker does next after each of them and after every outcome."""

import builtins
import importlib
import json
import re
from collections.abc import Iterable
from itertools import product

import pytest

from gateway_sdk import errors
from gateway_sdk.errors import GatewayError, MissingExtraError, _base, needing_extra
from gateway_sdk.outcome import PASSING, Advice, Attempt, Outcome, Repeatability

NOT_SENT, REFUSED, UNKNOWN, APPLIED = Outcome
READ, IDEMPOTENT, ONCE = Repeatability
REPEAT, LOG_IN, CHECK, FIX = Advice

TABLE: dict[type[GatewayError], Advice] = {
    errors.GatewayError: FIX,
    errors.ConfigurationError: FIX,
    errors.MissingExtraError: FIX,
    errors.InvalidArgumentError: FIX,
    errors.SessionStateError: FIX,
    errors.JournalError: FIX,
    errors.OutageError: REPEAT,
    errors.ConnectionFailedError: REPEAT,
    errors.UploadFailedError: FIX,
    errors.ReplyLostError: REPEAT,
    errors.ReplyTimeoutError: REPEAT,
    errors.DeadlineExceededError: REPEAT,
    errors.StatusError: FIX,
    errors.InvalidRequestError: FIX,
    errors.UnauthorizedError: LOG_IN,
    errors.ForbiddenError: FIX,
    errors.NotFoundError: FIX,
    errors.ConflictError: FIX,
    errors.RateLimitedError: REPEAT,
    errors.ServerError: REPEAT,
    errors.RedirectError: FIX,
    errors.UnexpectedReplyError: FIX,
    errors.AuthError: LOG_IN,
    errors.LoginRequiredError: LOG_IN,
    errors.LoginError: LOG_IN,
    errors.AuthorizationDeniedError: LOG_IN,
    errors.StateMismatchError: LOG_IN,
    errors.MalformedResponseError: LOG_IN,
    errors.LoginTimeoutError: LOG_IN,
    errors.ReceiverUnavailableError: LOG_IN,
    errors.TokenStoreError: LOG_IN,
    errors.TokenRecordError: LOG_IN,
    errors.TokenRejectedError: LOG_IN,
}
"""After each class, if nothing was done."""

ENDS_A_CALL = (
    errors.SessionStateError,
    errors.UploadFailedError,
    errors.ReplyLostError,
    errors.DeadlineExceededError,
    errors.StatusError,
    errors.UnexpectedReplyError,
)
"""May end a call that did something: their class alone proves nothing."""

BY_STATUS: dict[int, Advice] = {**dict.fromkeys(PASSING, REPEAT), 501: FIX, 505: FIX}
"""Statuses that differ from their class."""

STATUSES: dict[type[GatewayError], Iterable[int]] = {
    errors.InvalidRequestError: (400, 422),
    errors.UnauthorizedError: (401,),
    errors.TokenRejectedError: (401,),
    errors.ForbiddenError: (403,),
    errors.NotFoundError: (404,),
    errors.ConflictError: (409,),
    errors.RateLimitedError: (429,),
    errors.RedirectError: range(300, 400),
    errors.ServerError: range(500, 600),
    errors.StatusError: set(range(400, 500)) - {400, 401, 403, 404, 409, 422, 429},
    errors.UnexpectedReplyError: (200,),
}
"""The statuses that each class stands for."""

KINDS = [
    kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError) and name[0] != "_"
]

after_each_call = pytest.mark.parametrize(
    ("kind", "repeatability", "outcome"), [*product(KINDS, Repeatability, Outcome)]
)

DOUBT = {(UNKNOWN, ONCE), (APPLIED, ONCE), (APPLIED, IDEMPOTENT)}
"""Where a person has to look, whatever the last error was: CHECK goes before all others."""


def _examples(kind: type[GatewayError]) -> list[tuple[GatewayError, Advice]]:
    if kind not in STATUSES:
        return [(kind("message"), TABLE[kind])]
    return [
        (kind("message", status=status), BY_STATUS.get(status, TABLE[kind]))  # type: ignore[call-arg]
        for status in STATUSES[kind]
    ]


def _ended(error: GatewayError, outcome: Outcome, repeatability: Repeatability) -> GatewayError:
    return error.of_call("an_operation", repeatability, (Attempt(outcome, None, None, 0.0),))


@after_each_call
def test_every_error_is_decided(
    kind: type[GatewayError], repeatability: Repeatability, outcome: Outcome
) -> None:
    """A class that is not in the table, for example a new one, fails here."""
    for error, advice in _examples(kind):
        is_known = kind in STATUSES or not issubclass(kind, ENDS_A_CALL)
        assert error.advice is (advice if is_known else CHECK)  # outside of a call
        assert not error.token_is_static
        _ended(error, outcome, repeatability)

        assert error.advice is (CHECK if (outcome, repeatability) in DOUBT else advice)
        assert (error.hints == _base.OF_CHECK) == (error.advice is CHECK)
        assert error.advice is not CHECK or "no harm" not in error.hints[1]


@after_each_call
def test_what_another_library_makes_again_of_an_error_never_invites_a_second_write(
    kind: type[GatewayError], repeatability: Repeatability, outcome: Outcome
) -> None:
    """Celery and taskiq do so with JSON; Ray derives a class from ours."""
    for error, _ in _examples(kind):
        _ended(error, outcome, repeatability)
        rebuilt = kind(*json.loads(json.dumps(error.args)))
        derived = type("OfRay", (OfRay, kind), {})(error)
        assert "message" in str(rebuilt)
        for again in (rebuilt, derived):
            if issubclass(kind, ENDS_A_CALL):
                assert (again.outcome, again.advice) == (UNKNOWN, CHECK)
            else:  # none of these ends a call that did something which must not be done twice
                assert again.advice is TABLE[kind]


class OfRay(Exception):  # noqa: N818 - as ray.exceptions.RayTaskError
    def __init__(self, cause: Exception) -> None:
        self.args = (cause,)


def test_the_drawing_in_the_docstring_is_the_tree() -> None:
    """With the classes of Python that code which knows nothing of this package can catch."""
    drawn: set[str] = set()
    parents: list[type[GatewayError]] = []
    for line in str(errors.__doc__).splitlines():
        if found := re.match(r"    ((?:[│├└─ ]{4})*)(\w+Error)(?:\s+also (\w+))?", line):
            depth, kind = len(found[1]) // 4, getattr(errors, found[2])
            also = {**vars(errors), **vars(builtins)}.get(found[3], object)
            parents[depth:] = [kind]
            drawn.add(found[2])
            assert issubclass(kind, also)
            assert issubclass(kind, parents[depth - 1])

    assert drawn == {kind.__name__ for kind in KINDS}


def test_a_missing_package_names_its_extra() -> None:
    with (
        # As `pytest.importorskip` and most programs that go on without it expect.
        pytest.raises(ModuleNotFoundError, match=r"pip install 'gateway-sdk\[otel\]'") as caught,
        needing_extra("otel", "gateway_sdk.otel"),
    ):
        importlib.import_module("no_such_package")

    assert isinstance(caught.value, MissingExtraError)
    assert caught.value.extra == "otel"


def test_a_missing_module_of_ours_is_no_matter_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needing_extra("otel", "gateway_sdk.otel"):
        importlib.import_module("gateway_sdk.no_such_module")

    assert not isinstance(caught.value, MissingExtraError)
