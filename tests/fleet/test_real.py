"""Plans at the sandbox, with a real database, real sockets and a real store of tokens."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import Token
from gateway_sdk.auth import TokenKey, TokenStore, open_store
from gateway_sdk.fleet import Job, PostgresStore
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_ACCESS_TOKEN, SANDBOX_CLIENT_ID, Sandbox
from tests.support.postgres_server import NEEDS_POSTGRES

pytestmark = NEEDS_POSTGRES

QUERIES = [
    {"base": "EUR", "symbols": symbol, "start_date": "2026-01-01", "end_date": "2026-01-31"}
    for symbol in ("USD", "GBP", "JPY", "CHF", "SEK", "NOK")
]


@pytest.fixture
def tokens(gateway_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStore:
    """Give workers no token, but the store that a user's login writes to."""
    place = f"file:{tmp_path / 'tokens'}"
    for name, value in {
        "GATEWAY_BASE_URL": gateway_url,
        "GATEWAY_AUTH_URL": gateway_url + AUTHORIZE_PATH,
        "GATEWAY_CLIENT_ID": SANDBOX_CLIENT_ID,
        "GATEWAY_TOKEN_STORE": place,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GATEWAY_ACCESS_TOKEN", raising=False)
    key = TokenKey.of(gateway_url + AUTHORIZE_PATH, SANDBOX_CLIENT_ID, gateway_url)
    return open_store(place, key)


async def test_workers_wait_for_a_login_in_the_store_that_they_share(
    gateway_sandbox: Sandbox, tokens: TokenStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent before, no item fails, and nothing is started again after the login."""
    store = PostgresStore(dsn)
    mark, marked = store.mark_chunk, asyncio.Event()

    async def note(*arguments: Any) -> None:
        await mark(*arguments)
        marked.set()

    monkeypatch.setattr(store, "mark_chunk", note)
    job = Job("rates", operation="exchange_rate_series", store=store)
    async with job, job.worker() as worker:
        plan = await job.plan(QUERIES, chunk=3)
        running = asyncio.create_task(worker.run_missing(plan))
        await marked.wait()
        status = await plan.status()
        assert status.waiting == "waiting for a login: run `gateway login`"
        assert not gateway_sandbox.received

        await tokens.save(Token(SANDBOX_ACCESS_TOKEN, expires_at=time.time() + 3600))
        await running
        status = await plan.status()

    assert (status.done, status.waiting) == (len(QUERIES), "")
    assert len(gateway_sandbox.received) == len(QUERIES)


async def test_an_adaptive_process_ends_all_its_chunks(
    gateway_sandbox: Sandbox, gateway_env: dict[str, str], dsn: str
) -> None:
    """Chunks that wait for a place are woken by others, whichever ends first."""
    store = PostgresStore(dsn)
    job = Job("rates", operation="exchange_rate_series", store=store)
    async with job, job.gateway() as gateway:
        plan = await job.plan(QUERIES * 20, chunk=15)
        await asyncio.gather(*(plan.run(chunk, gateway) for chunk in range(8)))
        assert (await plan.status()).done == 120

    assert len(gateway_sandbox.received) == 120
