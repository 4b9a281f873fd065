"""The histograms of calls and attempts."""

from typing import Final

from opentelemetry.metrics import Histogram, MeterProvider, get_meter

from gateway_sdk._version import __version__
from gateway_sdk.observer import CallInfo
from gateway_sdk.otel._spans import SCHEMA
from gateway_sdk.outcome import Attempt, Outcome

_REQUEST: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Seconds; the boundaries of the semantic conventions for HTTP (`http.client.request.duration`)."""

_CALL: Final = (*_REQUEST, 30, 60, 300, 600)
"""Seconds; a call has retries, and a deadline of minutes."""


class Metrics:
    def __init__(self, provider: MeterProvider | None) -> None:
        self._meter = get_meter("gateway_sdk", __version__, provider, SCHEMA)
        self._requests = self._histogram(
            "http.client.request.duration", "Duration of HTTP client requests.", _REQUEST
        )
        self._calls = self._histogram(
            "gateway.client.call.duration",
            "Duration of calls, with their retries and waits.",
            _CALL,
        )
        self._slots = self._histogram(
            "gateway.client.slot.wait",
            "Time that requests waited for one of max_connections; only of those that waited.",
            _REQUEST,
        )

    def _histogram(self, name: str, description: str, boundaries: tuple[float, ...]) -> Histogram:
        return self._meter.create_histogram(
            name,
            unit="s",
            description=description,
            explicit_bucket_boundaries_advisory=boundaries,
        )

    @property
    def are_taken(self) -> bool:
        """Whether a provider takes the metrics; without one they need not be made."""
        # Private in opentelemetry: None in what the API makes until a provider is set.
        return getattr(self._calls, "_real_instrument", self._calls) is not None

    def attempt(self, call: CallInfo, attempt: Attempt, error: str | None) -> None:
        attributes: dict[str, str | int] = {
            "gateway.operation": call.operation.name,
            "http.request.method": call.operation.method,
            "server.address": call.host,
            "server.port": call.port,
        }
        if attempt.slot_wait:
            server: dict[str, str | int] = {"server.address": call.host, "server.port": call.port}
            self._slots.record(attempt.slot_wait, server)
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        if error is not None:
            attributes["error.type"] = error
        seconds = attempt.elapsed - attempt.slot_wait - attempt.rate_wait
        self._requests.record(seconds if seconds > 0 else 0.0, attributes)

    def call(self, call: CallInfo, outcome: Outcome, error: str | None, elapsed: float) -> None:
        attributes = {"gateway.operation": call.operation.name, "gateway.outcome": outcome.name}
        if error is not None:
            attributes["error.type"] = error
        self._calls.record(elapsed, attributes)
