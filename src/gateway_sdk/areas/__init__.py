"""The six areas of the gateway: coroutine methods on top of `Caller.send`."""
