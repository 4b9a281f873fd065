"""The command `gateway login`."""
