"""Receiving a login's answer on this machine: a page, and the only request that it makes."""

from gateway_sdk.auth.loopback.receiver import LoopbackReceiver

__all__ = ["LoopbackReceiver"]
