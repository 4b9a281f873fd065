"""The clients that are measured beside each other, each opened by a function of one shape."""

from importlib.util import find_spec
from typing import Final, NamedTuple

from benchmarks.peers.generated import open_generated
from benchmarks.peers.http_clients import open_aiohttp, open_httpx, open_pyreqwest
from benchmarks.peers.request import Open
from benchmarks.peers.sdks import open_engine, open_gateway, open_openai
from benchmarks.peers.sockets import open_sockets


class Peer(NamedTuple):
    """A client.

    Attributes:
        open: Opens it.
        needs: Modules that must be installed.
    """

    open: Open
    needs: tuple[str, ...] = ()


OURS: Final = "gateway_sdk"
ALONE: Final = "engine alone"
PEERS: Final = {
    "raw sockets": Peer(open_sockets),
    "pyreqwest": Peer(open_pyreqwest, ("pyreqwest",)),
    "aiohttp": Peer(open_aiohttp, ("aiohttp",)),
    "httpx": Peer(open_httpx("httpx")),
    "httpx2": Peer(open_httpx("httpx2"), ("httpx2",)),
    "generated client": Peer(open_generated, ("openapi_python_client",)),
    "AsyncOpenAI": Peer(open_openai("DefaultAsyncHttpxClient"), ("openai",)),
    "AsyncOpenAI on aiohttp": Peer(open_openai("DefaultAioHttpClient"), ("openai", "aiohttp")),
    ALONE: Peer(open_engine),
    OURS: Peer(open_gateway),
}


def lacking(name: str) -> str | None:
    """Say what a peer lacks here, or None."""
    missing = [module for module in PEERS[name].needs if find_spec(module) is None]
    return f"{' and '.join(missing)} not installed" if missing else None
