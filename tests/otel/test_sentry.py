"""Sentry is told of calls, and not of what they carry."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport
from sentry_sdk.utils import current_stacktrace

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


def init(*integrations: GatewayIntegration, attach_stacktrace: bool = False) -> None:
    sentry_sdk.init(
        "https://key@localhost/1", transport=Keeping, traces_sample_rate=1.0,
        default_integrations=False, auto_enabling_integrations=False, integrations=integrations,
        attach_stacktrace=attach_stacktrace,
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
    sentry_sdk.get_isolation_scope().clear()  # breadcrumbs
    sent.clear()


async def cancel(*statuses: int, source: Any = "t") -> None:
    replies = iter(statuses)
    async with GatewaySession(
        "https://gateway.test", access_token=source, tenant_id="acme", sleep=AsyncMock(),
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


async def test_a_call_that_its_caller_gives_up_is_no_failure() -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        timeout.reschedule(0)
        return await asyncio.Future()

    async with GatewaySession(
        "https://gateway.test", access_token="t", transport=httpx.MockTransport(hang)
    ) as gateway:
        with sentry_sdk.start_transaction(name="nightly"), pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as timeout:
                await gateway.country_data.list_countries()

    (transaction,) = sent
    assert [span["status"] for span in transaction["spans"]] == ["cancelled"]


def modules_of(part: dict[str, Any]) -> dict[str, bool]:
    """Tell of each package with frames whether their variables are shown."""
    frames = part["values"][0]["stacktrace"]["frames"]
    modules: dict[str, bool] = {}
    for frame in frames:
        module = frame["module"].partition(".")[0]
        modules[module] = modules.get(module, False) or "vars" in frame
        frame.pop("vars", None)
    return modules


async def test_no_frame_of_the_sdk_shows_its_variables() -> None:
    await cancel(404)

    assert modules_of(sent[0]["exception"]) == {"tests": True, "gateway_sdk": False}
    assert CANARY not in repr(sent)


@pytest.mark.parametrize("attached", [True, False])
async def test_no_frame_of_the_sdk_shows_them_below_a_message(attached: bool) -> None:
    """Sentry attaches the stack, or the program does, as with `stack_info` of a log."""
    init(GatewayIntegration(), attach_stacktrace=attached)

    async def tell_and_get() -> str:
        own: Any = {"threads": {"values": [{"stacktrace": current_stacktrace()}]}}
        sentry_sdk.capture_event({"message": "slow", **({} if attached else own)})
        return "t"

    await cancel(200, source=tell_and_get)

    modules = modules_of(sent[0]["threads"])
    assert (modules["tests"], modules["gateway_sdk"]) == (True, False)


async def test_without_the_integration_nothing_is_told() -> None:
    init()
    await cancel(200)

    (transaction,) = sent
    assert transaction["spans"] == []
