"""`advice`: what a worker does next after every error of the tree, and after every outcome."""

import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import GatewaySession, RetryPolicy, errors
from gateway_sdk.errors import GatewayError
from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability
from tests.support.calls import CALLS
from tests.support.raw_server import OK, Server, raw_server

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
    errors.TokenRejectedError: LOG_IN,
}
"""After each class, if nothing was done."""

BY_STATUS: dict[int, Advice] = {408: REPEAT, 501: FIX, 505: FIX}
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeatability", Repeatability)
@pytest.mark.parametrize("outcome", Outcome)
def test_every_error_is_decided(
    kind: type[GatewayError], repeatability: Repeatability, outcome: Outcome
) -> None:
    """A class that is not in the table, for example a new one, fails here."""
    for error, advice in _examples(kind):
        assert error.advice is advice  # outside of a call
        _ended(error, outcome, repeatability)

        assert error.advice is (CHECK if (outcome, repeatability) in DOUBT else advice)


@given(
    st.sampled_from(KINDS),
    st.sampled_from(Outcome),
    st.sampled_from(Repeatability),
    st.sampled_from(Advice),
)
def test_it_survives_pickling(
    kind: type[GatewayError], outcome: Outcome, repeatability: Repeatability, advice: Advice
) -> None:
    for error, _ in _examples(kind):
        error.advice = advice
        _ended(error, outcome, repeatability)

        twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

        assert twin.advice is error.advice
        assert error.advice in {advice, CHECK}


async def test_a_closed_session_did_nothing() -> None:
    async with GatewaySession("https://gateway.test", access_token="t", tenant_id="a") as gateway:
        pass
    with pytest.raises(errors.SessionStateError) as caught:
        await CALLS["create_customer"](gateway)

    assert (caught.value.outcome, caught.value.advice) == (NOT_SENT, REPEAT)


NO_JSON = OK.replace(b"{}", b"{,")
REPLIES: dict[str, tuple[bytes, str, RetryPolicy, Advice]] = {
    "an applied write, its reply no JSON": (NO_JSON, "cancel_order", RetryPolicy(), CHECK),
    "a read, its reply no JSON": (NO_JSON, "order_history", RetryPolicy(), FIX),
    "500 of an idempotent write": (
        OK.replace(b"200", b"500"),
        "cancel_order",
        RetryPolicy(attempts=1),
        REPEAT,
    ),
    "500 of one that is not to be repeated": (
        OK.replace(b"200", b"500"),
        "cancel_order",
        RetryPolicy(repeat_idempotent=False),
        CHECK,
    ),
    "401 for a token that never changes": (
        OK.replace(b"200", b"401"),
        "create_customer",
        RetryPolicy(),
        LOG_IN,
    ),
    "404": (OK.replace(b"200", b"404"), "create_customer", RetryPolicy(), FIX),
}


@pytest.mark.parametrize(("reply", "name", "policy", "advice"), REPLIES.values(), ids=REPLIES)
async def test_after_a_reply(reply: bytes, name: str, policy: RetryPolicy, advice: Advice) -> None:
    async with (
        raw_server(Server(reply).handle) as url,
        GatewaySession(url, access_token="t", tenant_id="acme", retry=policy) as gateway,
    ):
        with pytest.raises(GatewayError) as caught:
            await CALLS[name](gateway)

    assert caught.value.advice is advice
