"""The command `gateway countries`."""
