"""`opentelemetry-instrument` alone: the calls of a program that knows nothing of telemetry."""

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from _gateway_sdk_otel import GatewayInstrumentor
from gateway_sdk import GatewaySession, Observer, bulk
from gateway_sdk.otel import OpenTelemetry
from gateway_sdk.sandbox import Sandbox
from tests.otel.telemetry import Collector
from tests.support.calls import CALLS


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    instrumentor = GatewayInstrumentor()
    instrumentor.instrument(tracer_provider=made.traces, meter_provider=made.meters)
    yield made
    instrumentor.uninstrument()


@pytest.mark.parametrize("given", ["nothing", "another observer", "one of its own", "a kind"])
async def test_each_call_is_traced_once(
    collector: Collector, gateway_sandbox: Sandbox, given: str
) -> None:
    own = Collector()
    kind = type("Kind", (OpenTelemetry,), {})
    others = {"another observer": [Observer()], "a kind": [kind(own.traces, own.meters)]}
    observers = {"nothing": [], **others}.get(given, [own.observer])
    has_own = given in ("one of its own", "a kind")
    async with GatewaySession(
        "http://127.0.0.1", access_token="t", tenant_id="acme", observers=observers,
        transport=httpx.MockTransport(lambda _: httpx.Response(200)),
    ) as gateway:  # fmt: skip
        await CALLS["cancel_order"](gateway)
        run = bulk.run(gateway.wallet.trading_order_history, ["c"], observers=gateway.observers)
        async for _ in run:
            pass
        async for _ in bulk.run(gateway.wallet.trading_order_history, ["c"]):
            pass

    found = [span.name for span in (own if has_own else collector).spans]
    assert found.count("cancel_order") == 1
    assert found.count("bulk.run") == (1 if has_own else 2)
    assert len(gateway.observers) == (2 if given == "another observer" else 1)
    assert isinstance(gateway.observers[-1], OpenTelemetry)


def test_what_makes_no_session_loads_nothing() -> None:
    code = (
        "import sys; from _gateway_sdk_otel import GatewayInstrumentor as I; I().instrument();"
        "print({name for name in sys.modules if name.startswith(('gateway_sdk', 'pydantic'))}"
        "- {'gateway_sdk', 'gateway_sdk._python'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


async def test_after_it_sessions_are_as_before() -> None:
    GatewayInstrumentor().instrument()
    GatewayInstrumentor().uninstrument()
    async with GatewaySession("http://127.0.0.1", access_token="t") as gateway:
        assert gateway.observers == ()
