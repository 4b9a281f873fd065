"""Deadlines that pass when a test says so, however slow the machine is."""

import asyncio

from gateway_sdk import GatewaySession


def pass_deadlines(gateway: GatewaySession) -> None:
    """Let the deadline of every call under way be over."""
    for scope in gateway._caller.shared.calls.scopes:
        asyncio.get_running_loop().call_soon(scope.end)
