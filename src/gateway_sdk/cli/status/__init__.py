"""The command `gateway status`."""
