"""The command `gateway bulk rates`."""
