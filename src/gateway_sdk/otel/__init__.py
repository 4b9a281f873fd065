"""Traces and metrics of calls and bulk runs, for OpenTelemetry; needs the extra [otel].

from gateway_sdk.otel import OpenTelemetry

gateway = GatewaySession.from_env(observers=[OpenTelemetry()])
"""

from gateway_sdk.errors import ConfigurationError

try:
    from gateway_sdk.otel._observer import OpenTelemetry
    from gateway_sdk.otel._propagation import extract, inject
except ModuleNotFoundError:
    raise ConfigurationError(
        "gateway_sdk.otel needs the extra [otel]: pip install '.[otel]' in a clone of gateway_sdk"
    ) from None

__all__ = ["OpenTelemetry", "extract", "inject"]
