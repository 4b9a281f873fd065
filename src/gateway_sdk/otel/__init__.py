"""Traces and metrics of calls and bulk runs, for OpenTelemetry; needs the extra [otel].

from gateway_sdk.otel import OpenTelemetry

gateway = GatewaySession.from_env(observers=[OpenTelemetry()])
"""

from gateway_sdk.errors import needing_extra

with needing_extra("otel", "gateway_sdk.otel"):
    from gateway_sdk.otel._observer import OpenTelemetry, extract, inject

__all__ = ["OpenTelemetry", "extract", "inject"]
