"""The Gateway Service in memory: all twelve operations on real data, and faults on request."""

from gateway_sdk.sandbox.faults import Fault
from gateway_sdk.sandbox.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from gateway_sdk.sandbox.schedule import Faults

__all__ = ["SANDBOX_ACCESS_TOKEN", "Fault", "Faults", "Sandbox"]
