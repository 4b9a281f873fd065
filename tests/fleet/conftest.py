from collections.abc import Iterator

import pytest

from tests.support.nats_server import NatsServer
from tests.support.rabbitmq_server import shared_rabbitmq


@pytest.fixture(autouse=True)
def _collectable(collectable: None) -> None:
    """Undo what a worker of the test did to the collector."""


@pytest.fixture(scope="session")
def rabbitmq_url(request: pytest.FixtureRequest) -> str:
    """Provide the address of one server for the whole run; each test uses a queue of its own."""
    return shared_rabbitmq(request)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Provide one server for all tests of a process; each uses a stream of its own."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    return nats_server.url
