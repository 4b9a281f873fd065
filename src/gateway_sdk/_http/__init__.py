"""The wire format, sans-I/O: how a request is built and how a reply is read."""
