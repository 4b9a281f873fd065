"""What several tests of engines share."""

import os
import ssl
from collections.abc import AsyncIterator

import pytest

from tests.support.certificates import Authority
from tests.support.engines import Engine
from tests.support.papers import Papers


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that certifies servers."""
    return Authority(tmp_path_factory.mktemp("authority"), "tests")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no proxy."""
    for name in os.environ:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """A client's certificate and key in all forms."""
    return Papers(tmp_path_factory.mktemp("papers"))
