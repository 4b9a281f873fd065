"""The command `gateway sandbox`."""
