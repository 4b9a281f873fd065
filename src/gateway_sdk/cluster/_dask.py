"""The program's side of Dask: a scheduler, its workers, and the chunks that they do."""

import asyncio
import logging
import os
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack, suppress
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from gateway_sdk.cluster._worker import (
    VERSIONS,
    EndOfRun,
    KilledError,
    Results,
    Sealed,
    check,
    run_chunk,
    stop,
)
from gateway_sdk.errors import ConfigurationError, ConnectionFailedError
from gateway_sdk.rate_limit import RateLimit

_distributed: Any = import_module("distributed")  # has types in parts only
_LOST: Final = OSError, AssertionError, asyncio.CancelledError, _distributed.CancelledError

_LOOK: Final = 0.5
"""Seconds between two looks at the workers."""

_SILENT: Final = 10.0
"""Seconds after which a scheduler or a worker that does not answer counts as away."""

_JOIN: Final = 12.0
"""Seconds within which a worker that can do the work has to be there."""

_START: Final = 60.0
"""Seconds within which a worker on this machine has to be there: it may be busy."""

_DEATHS: Final = 4
"""How many workers of a chunk end, before the chunk is the cause."""


class Workers:
    """The workers of a scheduler, or those of one on this machine."""

    def __init__(self, run: str, work: Sealed, place: str | int, security: Any) -> None:
        self._run, self._work, self._place, self._security = run, work, place, security
        self._address = place if isinstance(place, str) else ""
        self._name = self._address or "on this machine"
        self._client: Any = None
        self._local = AsyncExitStack()
        self._looking = asyncio.Lock()
        self._looked = self._since = -_JOIN  # when it was; when a worker could do the work
        self._problem: BaseException | None = None
        self._has_worked = False
        self._there: dict[str, float] = {}  # by worker: when the scheduler heard of it
        self._checked: dict[str, str | None] = {}  # by worker: why it cannot do the work
        self._given = Counter[str]()  # by worker: chunks

    async def do(self, slot: int, rate: RateLimit | None, items: list[Any]) -> Results:
        """Do a chunk, also elsewhere if its worker does not answer."""
        arguments = slot, rate, Sealed(items)
        tries, deaths = dict[asyncio.Task[Any], str](), 0
        try:
            while deaths < _DEATHS:
                fit = await self._look()
                for task in [task for task, worker in tries.items() if worker not in self._there]:
                    self._forget(tries, task)
                    deaths += 1
                if fit and not fit & {*tries.values()}:
                    worker = min(fit, key=self._given.__getitem__)
                    task = asyncio.ensure_future(self._try(self._client, worker, *arguments))
                    tries[task] = worker
                    self._given[worker] += 1
                tick = asyncio.ensure_future(asyncio.sleep(_LOOK))
                await asyncio.wait([*tries, tick], return_when=asyncio.FIRST_COMPLETED)
                tick.cancel()
                for task in [task for task in tries if task.done()]:
                    self._forget(tries, task)
                    if results := self._result(task):
                        return results
        finally:
            for task in [*tries]:
                self._forget(tries, task)
        raise KilledError

    def _forget(self, tries: "dict[asyncio.Task[Any], str]", task: "asyncio.Task[Any]") -> None:
        task.cancel()
        self._given[tries.pop(task)] -= 1

    async def _try(self, client: Any, worker: str, *arguments: Any) -> Results | None:
        """Give a chunk to a worker; None if it cannot do the work."""
        if worker not in self._checked:  # a task that it cannot load would end it
            question = check, VERSIONS, self._work
            answers = await client.run(*question, workers=[worker], on_error="return")
            if isinstance(answer := answers.get(worker, OSError()), OSError):  # it has gone
                self._there.pop(worker, None)
                return None
            self._checked[worker] = _lack(answer)
        if self._checked[worker]:
            return None
        future = client.submit(run_chunk, self._work, *arguments, pure=False, workers=worker)
        results: Results = (await future.result()).open()
        self._has_worked = True
        return results

    def _result(self, task: "asyncio.Task[Results | None]") -> Results | None:
        try:
            return task.result()
        except _distributed.KilledWorker:  # they had the same address
            raise KilledError from None
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, _LOST) or not self._is_connected:
                raise self._gone("went away during the work") from None
            raise EndOfRun(self._wrong(f"cannot do the work: {error!r}")) from error

    async def _look(self) -> set[str]:
        """Return the workers that answer and can do the work; raise what is wrong."""
        now = asyncio.get_running_loop().time
        async with self._looking:
            if now() - self._looked >= _LOOK:
                self._problem = await self._ask()
                self._looked = now()
        if self._problem is not None:
            raise copy(self._problem)
        return self._fit()

    def _fit(self) -> set[str]:
        last = max(self._there.values(), default=0.0)
        return {one for one in self._able() if last - self._there[one] < _SILENT}

    def _able(self) -> set[str]:
        """Return those that are not known to be unfit."""
        return {one for one in self._there if not self._checked.get(one)}

    async def _ask(self) -> BaseException | None:
        """Ask the scheduler who is there; return what is wrong."""
        try:
            if not self._is_connected:
                await self._connect()
            async with asyncio.timeout(_SILENT):
                found = await self._client.scheduler.identity()
        except EndOfRun as end:
            return end
        except (OSError, _distributed.CancelledError):
            await self._leave()
            problem = self._gone("does not answer: is it running?")
            return problem if self._given else EndOfRun(problem)
        except (TypeError, ValueError, RuntimeError) as error:  # of the address, or of TLS
            return EndOfRun(self._wrong(f"cannot be used: {error}"))
        self._there = {one: about["last_seen"] for one, about in found["workers"].items()}
        self._checked = {one: self._checked[one] for one in self._there if one in self._checked}
        now = asyncio.get_running_loop().time()
        # Those that do not answer may only be busy; Dask removes them after its `worker-ttl`.
        if self._able():
            self._since = now
        return self._absence() if now - self._since >= _JOIN else None

    def _absence(self) -> BaseException:
        if self._has_worked or (self._given and not self._there):
            return self._gone("has no worker any more")
        for worker, problem in self._checked.items():
            unfit = f"has {len(self._there)} workers, and none is fit; {worker}: {problem}"
            return EndOfRun(self._wrong(unfit))
        start = f"start one with `dask worker {self._address}`"
        return EndOfRun(self._gone(f"has no worker after {_JOIN:.0f} s: {start}"))

    def _gone(self, what: str) -> ConnectionFailedError:
        return ConnectionFailedError(f"the scheduler {self._name} {what}")

    def _wrong(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"the scheduler {self._name} {problem}")

    @property
    def _is_connected(self) -> bool:
        return self._client is not None and self._client.status == "running"

    async def _connect(self) -> None:
        await self._leave()
        if isinstance(self._place, int) and not self._address:
            self._address = await self._start()
        self._client = await _distributed.Client(
            self._address, asynchronous=True, timeout=_SILENT, security=self._security
        )
        try:  # a scheduler loads what is submitted; one that cannot would say nothing
            lack = await self._client.run_on_scheduler(check, VERSIONS, None)
        except ImportError as error:
            lack = _lack(error)
        if lack:
            raise EndOfRun(self._wrong(f"cannot pass the work on: {lack}"))
        if isinstance(self._place, int):
            with suppress(TimeoutError):
                await self._client.wait_for_workers(self._place, _START)
        self._since = asyncio.get_running_loop().time()

    async def _start(self) -> str:
        """Start a scheduler in this process, and workers beside it that read no `__main__`."""
        cluster = _distributed.LocalCluster(
            n_workers=0, asynchronous=True, dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, host="127.0.0.1",
        )  # fmt: skip
        address = (await self._local.enter_async_context(cluster)).scheduler_address
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", Path(__file__).with_name("_local.py"), address, str(self._place),
            env=os.environ | {
                "PYTHONPATH": os.pathsep.join(sys.path), "DASK_LOGGING__DISTRIBUTED": "critical"
            },
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._local.push_async_callback(process.communicate, b"")  # ends its standard input
        return str(address)

    async def _leave(self) -> None:
        client, self._client = self._client, None
        self._there, self._checked = {}, {}
        if client is not None:
            with suppress(Exception):  # of Dask, about what is gone
                async with asyncio.timeout(_SILENT / 2):
                    await client.close()

    async def aclose(self) -> None:
        """End what is left of the run in the workers, and those on this machine."""
        if self._is_connected and (fit := self._fit()):
            with suppress(Exception):  # as above
                async with asyncio.timeout(_SILENT / 2):
                    await self._client.run(stop, self._run, workers=[*fit], on_error="ignore")
        await self._leave()
        await self._local.aclose()


def _lack(problem: Any) -> str | None:
    """Return what a process has said, or why it could not be asked."""
    if isinstance(problem, Exception):
        return f"{problem}: install gateway-sdk[cluster] there"
    return cast("str | None", problem)
