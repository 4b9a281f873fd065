"""The command `gateway rates`."""
