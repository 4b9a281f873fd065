"""What a server sent behind its reply, and nobody asked for."""

from typing import Any


def has_more(connection: Any) -> bool:
    """Tell whether more was read than a reply, which would be taken for the next request's.

    It may lie with h11, with TLS or with anyio, and no public way leads there. If the way has
    changed with one of their releases, it is yes: a new connection costs less than a wrong reply.
    """
    try:
        for part in connection._pool.connections:  # noqa: SLF001 - see above
            while not hasattr(part, "_h11_state"):
                part = part._connection  # noqa: PLW2901, SLF001
            if part._h11_state.trailing_data[0]:  # noqa: SLF001
                return True
            stream = part._network_stream._stream  # noqa: SLF001
            while hasattr(stream, "transport_stream"):
                if stream._read_bio.pending:  # noqa: SLF001
                    return True
                stream = stream.transport_stream
            if stream._protocol.read_queue:  # noqa: SLF001
                return True
    except AttributeError:
        return True
    return False
