"""Plans at the sandbox, with real files, real sockets and a real store of tokens."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk import Token
from gateway_sdk.auth import TokenKey, TokenStore, open_store
from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet import FolderStore, Job
from gateway_sdk.fleet._folder_files import LocalFiles
from gateway_sdk.fleet._store import State
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_ACCESS_TOKEN, SANDBOX_CLIENT_ID, Sandbox
from tests.fleet.gateways import CountingGateway, rates_job, run_all, series, session

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
    gateway_sandbox: Sandbox, tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent before, no item fails, and nothing is started again after the login."""
    store = FolderStore(str(tmp_path / "store"))
    mark, marked = store.mark_chunk, asyncio.Event()

    async def note(*arguments: Any) -> None:
        await mark(*arguments)
        marked.set()

    monkeypatch.setattr(store, "mark_chunk", note)
    job = Job("rates", operation="exchange_rate_series", store=store)
    async with job.worker() as worker:
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
    gateway_sandbox: Sandbox, gateway_env: dict[str, str], tmp_path: Path
) -> None:
    """Chunks that wait for a place are woken by others, whichever ends first."""
    store = FolderStore(str(tmp_path / "store"))
    job = Job("rates", operation="exchange_rate_series", store=store)
    plan = await job.plan(QUERIES * 20, chunk=15)
    async with job.gateway() as gateway:
        await asyncio.gather(*(plan.run(chunk, gateway) for chunk in range(8)))

    assert (await plan.status()).done == 120
    assert len(gateway_sandbox.received) == 120


class DeadError(PlanStoreError):
    """The process has ended."""


class MortalFiles(LocalFiles):
    """The files of a worker that dies at a step, before or after the step has had its effect."""

    def __init__(self, root: str, steps: int) -> None:
        super().__init__(root)
        self._left = steps

    def _step(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise DeadError("dead")

    def write(self, path: str, data: bytes, *, lasts: bool = True) -> None:
        self._step()
        super().write(path, data, lasts=lasts)
        self._step()

    def create(self, path: str, data: bytes) -> None:
        self._step()
        super().create(path, data)
        self._step()

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)
        self._step()


@given(deaths=st.lists(st.integers(1, 60), max_size=5), fails=st.sets(st.integers(0, 6)))
@settings(max_examples=settings().max_examples // 2)
def test_a_folder_survives_workers_that_die_at_any_step(
    deaths: list[int], fails: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Planning, running and forgetting failures: a later process ends what others began."""
    folder = str(tmp_path_factory.mktemp("store"))
    gateway = CountingGateway()

    async def fail_first(path: str, body: Any) -> None:
        if int(body["base"][1:]) in fails and not gateway.done[str(body)]:
            gateway.done[str(body)] += 1
            raise ValueError

    async def live(steps: int | None) -> None:
        store = FolderStore(folder)
        if steps is not None:
            store._files = MortalFiles(folder, steps)
        job = rates_job(store, concurrency=2, max_starts=1000)
        plan = await job.plan(map(series, range(7)), chunk=3)
        async with session(gateway) as made:
            await run_all(plan, made)
            await plan.retry_failed()
            await run_all(plan, made)
        if steps is None:
            found = [one async for part in store.results(plan.record) for one in part]
            assert [record.index for record in found] == list(range(7))
            assert {record.state for record in found} == {State.DONE}
            assert (await plan.status()).done == 7

    gateway.answer = fail_first
    for steps in [*deaths, None]:
        try:
            asyncio.run(live(steps))
        except DeadError:
            assert steps is not None
