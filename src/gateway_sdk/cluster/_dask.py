"""The program's side of Dask: a scheduler, its workers, and the chunks that they do."""

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from gateway_sdk.cluster._worker import VERSIONS, EndOfRun, Results, Sealed, check, run_chunk
from gateway_sdk.errors import ConfigurationError, ConnectionFailedError, InvalidArgumentError

_distributed: Any = import_module("distributed")  # has types in parts only
_ENDED: Final = (
    OSError, AssertionError, asyncio.CancelledError, _distributed.CancelledError,
    _distributed.KilledWorker,  # several that had the same address
)  # fmt: skip

_LOOK: Final = 0.5
"""Seconds between two looks at the workers."""

_SILENT: Final = 10.0
"""Seconds after which a scheduler or a worker that does not answer counts as away."""

_JOIN: Final = 12.0
"""Seconds within which a worker that can do the work has to be there."""

_START: Final = 60.0
"""Seconds within which a worker on this machine has to be there: it may be busy."""

_NEED: Final = "it needs gateway-sdk[cluster], and the modules of the function and the items"

_WORKERS: Final = (
    "-P", "-m", "distributed.cli.dask_worker", "--nthreads", "4", "--memory-limit", "0",
    "--no-dashboard", "--host", "127.0.0.1", "--death-timeout", f"{_START:.0f}",
)  # fmt: skip
_VARIABLES: Final = {"DASK_LOGGING__DISTRIBUTED": "critical"}
if sys.platform != "win32":  # what all import, is imported once
    _VARIABLES["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has ended
        process.terminate()
        try:
            await process.wait()
        finally:  # also after a second Ctrl-C, when its errors would be shown
            process.kill()


class Workers:
    """The workers of a scheduler, or those of one on this machine."""

    def __init__(self, work: Sealed, place: str | int, security: Any) -> None:
        if not isinstance(security, _distributed.Security | None):
            raise InvalidArgumentError("must be Dask's Security", field="security")
        self._work, self._place, self._security = work, place, security
        self._address = place if isinstance(place, str) else ""
        self._name = self._address or "on this machine"
        self._client: Any = None
        self._local = AsyncExitStack()
        self._looking: asyncio.Task[None] | None = None
        self._there: dict[str, float] = {}  # by worker: when the scheduler heard of it
        self._checked: dict[str, str] = {}  # by worker: why it cannot do the work; else ""
        self._since = 0.0  # when a worker was there that may be fit
        self._given: dict[asyncio.Task[Results], str] = {}  # chunks, and their workers
        self._has_begun = False

    async def do(self, chunk: Sealed) -> Results | None:
        """Do a chunk, also elsewhere if its worker does not answer; None if it has ended."""
        tries = dict[asyncio.Task[Results], str]()
        try:
            while self._there.keys() >= {*tries.values()}:
                fit = self._fit()
                if fit and not fit & {*tries.values()}:
                    worker = min(fit, key=[*self._given.values()].count)
                    task = asyncio.ensure_future(self._try(worker, chunk))
                    self._given[task] = tries[task] = worker
                    task.add_done_callback(self._given.pop)
                look = self._look_together()
                await asyncio.wait([*tries, look], return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in tries if task.done()]:
                    if results := self._results(task, tries[task]):
                        return results
                    if self._checked.get(tries[task]):
                        del tries[task]
                if look.done():
                    look.result()
        finally:
            for task in tries:
                task.cancel()
        return None

    async def _try(self, worker: str, chunk: Sealed) -> Results:
        self._has_begun = True
        if worker not in self._checked:  # a task that it cannot load would end it
            await self._client.run(check, VERSIONS, workers=[worker])
            self._checked[worker] = ""
        key = f"gateway-sdk-{uuid4().hex}"
        arguments = run_chunk, key, self._work, chunk
        future = self._client.submit(*arguments, key=key, workers=worker)
        try:
            results: Results = (await future.result()).open()
        finally:
            future.release()  # a worker that is at it then stops
        return results

    def _results(self, task: "asyncio.Task[Results]", worker: str) -> Results | None:
        """Return the results of a try; None if the worker has ended, or cannot do the work."""
        try:
            return task.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - of any kind
            if not self._is_connected:
                raise self._gone("went away during the work") from None
            if isinstance(error, _ENDED):
                self._there.pop(worker, None)  # until the next look
            else:
                self._checked[worker] = repr(error)
            return None

    def _fit(self) -> set[str]:
        """Return the workers that answer, and are not known to be unfit."""
        last = max(self._there.values(), default=0.0)
        return {one for one in self._able() if last - self._there[one] < _SILENT}

    def _able(self) -> set[str]:
        return {one for one in self._there if not self._checked.get(one)}

    def _look_together(self) -> "asyncio.Task[None]":
        """Return the look at the workers that all chunks wait for."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
            self._looking.add_done_callback(lambda it: it.cancelled() or it.exception())
        return self._looking

    async def _look(self) -> None:
        """Ask the scheduler who is there; raise what is wrong."""
        loop = asyncio.get_running_loop()
        try:
            if self._is_connected:
                await asyncio.sleep(_LOOK)
            else:
                await self._connect()
                self._since = loop.time()
            async with asyncio.timeout(_SILENT):
                found = await self._client.scheduler.identity()
        except (OSError, _distributed.CancelledError):
            await self._leave()
            problem = self._gone("does not answer: is it running?")
            raise problem if self._has_begun else EndOfRun(problem) from None
        except ImportError as error:
            raise EndOfRun(self._wrong(f"cannot be used: {error}; {_NEED}")) from error
        except (TypeError, ValueError, RuntimeError) as error:  # of the address, TLS, or `check`
            raise EndOfRun(self._wrong(f"cannot be used: {error}")) from error
        self._there = {one: about["last_seen"] for one, about in found["workers"].items()}
        self._checked = {one: self._checked[one] for one in self._there if one in self._checked}
        # Those that do not answer may only be busy; Dask removes them after its `worker-ttl`.
        if self._able():
            self._since = loop.time()
        elif loop.time() - self._since >= _JOIN:
            raise self._absence()

    def _absence(self) -> BaseException:
        if self._there:
            worker, problem = next(iter(self._checked.items()))
            unfit = f"has {len(self._there)} workers, and none is fit; {worker}: {problem}; {_NEED}"
            return EndOfRun(self._wrong(unfit))
        if self._has_begun:
            return self._gone("has no worker any more")
        is_ours = isinstance(self._place, int)
        start = "did it start?" if is_ours else f"start one with `dask worker {self._address}`"
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
        if not self._address:
            await self._start()
        self._client = _distributed.Client(
            self._address, asynchronous=True, timeout=_SILENT, security=self._security
        )
        await self._client
        # A scheduler loads what is submitted; one that cannot would say nothing.
        await self._client.run_on_scheduler(check, VERSIONS)
        if isinstance(self._place, int):
            with suppress(TimeoutError):
                await self._client.wait_for_workers(self._place, _START)

    async def _start(self) -> None:
        """Start a scheduler in this process, and workers beside it that read no `__main__`."""
        cluster = _distributed.LocalCluster(
            n_workers=0, asynchronous=True, dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, host="127.0.0.1",
        )  # fmt: skip
        self._address = (await self._local.enter_async_context(cluster)).scheduler_address
        process = await asyncio.create_subprocess_exec(
            sys.executable, *_WORKERS, "--nworkers", str(self._place), self._address,
            env=os.environ | _VARIABLES | {"PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )  # fmt: skip
        self._local.push_async_callback(_end, process)

    async def _leave(self) -> None:
        self._there, self._checked = {}, {}
        if self._client is not None:
            with suppress(Exception):  # of Dask, about what is gone
                async with asyncio.timeout(_SILENT / 2):
                    await self._client.close()
            self._client.status = "closed"  # else its finalizer asks a loop that may be closed
            self._client = None

    async def aclose(self) -> None:
        """Leave the workers, which then stop what is left of the run, and end those of our own."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._leave()
        await self._local.aclose()
