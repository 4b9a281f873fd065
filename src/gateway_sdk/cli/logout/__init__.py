"""The command `gateway logout`."""
