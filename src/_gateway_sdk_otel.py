"""The instrumentor of `opentelemetry-instrument`: traces every session and bulk run of a program.

OpenTelemetry loads this module in every program on a machine that has the SDK installed. So it is
not part of the package, and loads the rest when the first session is made.
"""

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from gateway_sdk._python import makers

if TYPE_CHECKING:
    from gateway_sdk.otel import OpenTelemetry


class GatewayInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Adds an `OpenTelemetry` to the sessions and runs that have none, made from then on."""

    def instrumentation_dependencies(self) -> Collection[str]:
        return ()

    def _instrument(self, **given: Any) -> None:
        @cache
        def make() -> "OpenTelemetry":
            from gateway_sdk.otel import OpenTelemetry  # noqa: PLC0415

            return OpenTelemetry(given.get("tracer_provider"), given.get("meter_provider"))

        makers["opentelemetry"] = make

    def _uninstrument(self, **given: Any) -> None:
        del given, makers["opentelemetry"]
