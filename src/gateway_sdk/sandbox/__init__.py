"""The Gateway Service in memory: all operations, logins, and faults on request."""

try:
    from gateway_sdk.sandbox._authorization import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Visitor
    from gateway_sdk.sandbox._faults import Fault, Faults
    from gateway_sdk.sandbox._received import ReceivedCall
    from gateway_sdk.sandbox._sandbox import (
        SANDBOX_ACCESS_TOKEN,
        Sandbox,
        SandboxServer,
        SandboxTenant,
    )
except ModuleNotFoundError as error:
    needed = "the sandbox needs its extra: pip install 'gateway-sdk[sandbox]'"
    raise ModuleNotFoundError(needed, name=error.name) from error

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
