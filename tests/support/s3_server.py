"""A server that speaks S3, on 127.0.0.1."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem  # type: ignore[import-untyped]


@dataclass
class S3Server:
    """A server that can be stopped and started again with its data.

    Attributes:
        port: Its port; 0 before it was started.
        bucket: A bucket of its own.
    """

    port: int = 0
    server: Any = None
    bucket: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a file system that uses it."""
        return {
            "key": "test",
            "secret": "test",
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "config_kwargs": {"retries": {"max_attempts": 1}},
        }

    def start(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()
        _, self.port = self.server.get_host_and_port()

    def stop(self) -> None:
        self.server.stop()


@contextmanager
def running() -> Iterator[S3Server]:
    server = S3Server()
    server.start()
    try:
        S3FileSystem(**server.options).mkdir(server.bucket)
        yield server
    finally:
        server.stop()
