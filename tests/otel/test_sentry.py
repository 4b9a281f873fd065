"""Sentry is told of calls, and not of what they carry."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from gateway_sdk import GatewaySession, NotFoundError
from gateway_sdk._python import makers
from gateway_sdk.sentry import GatewayIntegration
from tests.support.secrecy import CANARY

sent: list[dict[str, Any]] = []


class Keeping(Transport):
    """Keeps what would be sent."""

    def capture_envelope(self, envelope: Envelope) -> None:
        sent.extend(
            dict(item.get_event() or item.get_transaction_event() or {}) for item in envelope
        )


def init(*integrations: GatewayIntegration) -> None:
    sentry_sdk.init(
        "https://key@localhost/1", transport=Keeping, traces_sample_rate=1.0,
        default_integrations=False, auto_enabling_integrations=False, integrations=integrations,
    )  # fmt: skip


installed: dict[str, Callable[[], Any]] = {}
"""What Sentry installs once in a process: these tests may run in several turns."""


@pytest.fixture(autouse=True)
def _sentry() -> Iterator[None]:
    init(GatewayIntegration())
    makers.update(installed)
    yield
    installed["sentry"] = makers.pop("sentry")
    sentry_sdk.get_global_scope().set_client(None)
    sent.clear()


async def cancel(*statuses: int) -> None:
    replies = iter(statuses)
    async with GatewaySession(
        "https://gateway.test", access_token="t", tenant_id="acme", sleep=AsyncMock(),
        transport=httpx.MockTransport(lambda _: httpx.Response(next(replies), json={"x": CANARY})),
    ) as gateway:  # fmt: skip
        with sentry_sdk.start_transaction(name="nightly"):
            try:
                await gateway.wallet.cancel_order(CANARY, f"order-{CANARY}")
            except NotFoundError as error:
                sentry_sdk.capture_exception(error)


async def test_a_call_is_a_span_and_its_attempts_are_breadcrumbs() -> None:
    await cancel(429, 404)

    event, transaction = sent
    crumbs = [crumb["data"] for crumb in event["breadcrumbs"]["values"]]
    assert crumbs == [
        {"status": 429, "outcome": "REFUSED", "error": "RateLimitedError"},
        {"status": 404, "outcome": "REFUSED", "error": "NotFoundError"},
    ]
    (span,) = transaction["spans"]
    assert (span["op"], span["description"]) == ("http.client", "cancel_order")
    assert span["data"]["gateway.outcome"] == "REFUSED"
    assert span["status"] == "internal_error"


async def test_a_call_that_succeeds_is_no_error() -> None:
    await cancel(200)

    (transaction,) = sent
    (span,) = transaction["spans"]
    assert (span["status"], span["data"]["gateway.outcome"]) == ("ok", "APPLIED")


async def test_no_frame_of_the_sdk_shows_its_variables() -> None:
    await cancel(404)

    frames = sent[0]["exception"]["values"][0]["stacktrace"]["frames"]
    modules = {frame["module"].partition(".")[0]: "vars" in frame for frame in frames}
    assert modules == {"tests": True, "gateway_sdk": False}
    for frame in frames:
        frame.pop("vars", None)
    assert CANARY not in repr(sent)


async def test_without_the_integration_nothing_is_told() -> None:
    init()
    await cancel(200)

    (transaction,) = sent
    assert transaction["spans"] == []
