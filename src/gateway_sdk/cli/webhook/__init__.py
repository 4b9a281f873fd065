"""The command `gateway webhook`."""
