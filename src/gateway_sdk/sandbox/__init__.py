"""The Gateway Service in memory: all operations, logins, and faults on request."""

from gateway_sdk.errors import needing_extra

with needing_extra("sandbox", "the sandbox"):
    from gateway_sdk.sandbox._authorization import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Visitor
    from gateway_sdk.sandbox._faults import Fault, Faults
    from gateway_sdk.sandbox._received import ReceivedCall
    from gateway_sdk.sandbox._sandbox import (
        SANDBOX_ACCESS_TOKEN,
        Sandbox,
        SandboxServer,
        SandboxTenant,
    )

__all__ = [
    "AUTHORIZE_PATH",
    "SANDBOX_ACCESS_TOKEN",
    "SANDBOX_CLIENT_ID",
    "Fault",
    "Faults",
    "ReceivedCall",
    "Sandbox",
    "SandboxServer",
    "SandboxTenant",
    "Visitor",
]
