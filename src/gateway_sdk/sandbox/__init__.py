"""The Gateway Service in memory: all twelve operations on real data, logins, faults on request."""

from gateway_sdk.sandbox.authorization.client import SANDBOX_CLIENT_ID
from gateway_sdk.sandbox.authorization.pages import AUTHORIZE_PATH
from gateway_sdk.sandbox.faults import Fault
from gateway_sdk.sandbox.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from gateway_sdk.sandbox.schedule import Faults
from gateway_sdk.sandbox.visitor import Visitor

__all__ = [
    "AUTHORIZE_PATH",
    "SANDBOX_ACCESS_TOKEN",
    "SANDBOX_CLIENT_ID",
    "Fault",
    "Faults",
    "Sandbox",
    "Visitor",
]
