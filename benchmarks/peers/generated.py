"""A client that openapi-python-client generates for the operation, when it is installed."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.request import BODY, TOKEN, Call

DOCUMENT: Final = Path(__file__).parent.parent / "openapi.json"
PACKAGE: Final = "generated_client"


def generate(folder: Path) -> None:
    """Generate the client into a folder, where Python then looks for it."""
    if find_spec("openapi_python_client") is None:
        return
    settings = folder / "settings.json"
    settings.write_text('{"post_hooks": []}')  # else it looks for a formatter
    command = ["-m", "openapi_python_client", "generate", "--meta", "none"]
    arguments = ["--path", DOCUMENT, "--output-path", folder / PACKAGE, "--config", settings]
    # What is run is named in pyproject.toml.
    subprocess.run(  # noqa: S603
        [sys.executable, *command, *map(str, arguments)], check=True, capture_output=True
    )


@asynccontextmanager
async def open_generated(url: str, connections: int) -> AsyncIterator[Call]:
    """Call with the generated client, over an httpx.AsyncClient, which is what it uses."""
    httpx = import_module("httpx")
    client_module = import_module(f"{PACKAGE}.client")
    series = import_module(f"{PACKAGE}.api.currency.exchange_rate_series")
    request = import_module(f"{PACKAGE}.models.exchange_rate_series_request")
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with client_module.AuthenticatedClient(
        base_url=url, token=TOKEN, raise_on_unexpected_status=True, httpx_args={"limits": limits}
    ) as client:

        async def call() -> Any:
            body = request.ExchangeRateSeriesRequest.from_dict(BODY)
            return await series.asyncio(client=client, body=body)

        yield call
