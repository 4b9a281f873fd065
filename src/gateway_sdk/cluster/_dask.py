"""The program's side of Dask: a scheduler, its workers, and the chunks that they do."""

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from copy import copy
from importlib import import_module
from typing import Any, Final

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
_CancelledError: Final = _distributed.CancelledError

_LOOK: Final = 1.0
"""Seconds between two looks at the workers."""

_SILENT: Final = 10.0
"""Seconds after which a worker that does not answer counts as away."""

_JOIN: Final = 12.0
"""Seconds within which a scheduler has to answer, and a worker has to be there."""

_START: Final = 60.0
"""Seconds within which workers on this machine have to be there: it may be busy."""

_UNFIT: Final = 3.0
"""Seconds within which a fit worker has to be there, if all others have answered."""

_DEATHS: Final = 3
"""How often all workers that may do a chunk are gone, before the chunk is the cause."""


class Workers:
    """The workers of a scheduler, or those of one on this machine."""

    def __init__(self, run: str, work: Sealed, place: str | int, security: Any) -> None:
        self._run, self._work, self._place, self._security = run, work, place, security
        self._address = place if isinstance(place, str) else ""
        self._name = self._address or "on this machine"
        self._client: Any = None
        self._local = AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._problem: BaseException | None = None
        self._was_fit = False
        self._since = 0.0  # when there was a fit worker, or the first look
        self._answered: dict[str, float] = {}  # by worker: when it was there
        self._unfit: dict[str, str] = {}  # by worker: why
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._place_of: dict[str, str] = {}  # by task: its worker
        self._finished: dict[str, float] = {}  # by task whose result is awaited: since when

    async def do(self, slot: int, rate: RateLimit | None, items: list[Any]) -> Results:
        """Do a chunk, and again elsewhere if its worker does not answer."""
        chunk, tries = Sealed(items), dict[asyncio.Task[Any], tuple[Any, list[str]]]()
        try:
            while True:
                client = await self._ready()
                if not any(self._is_alive(*one) for one in tries.values()):
                    if len(tries) >= _DEATHS and not self._silent:
                        raise KilledError
                    only = self._fit  # no other worker sees the items
                    arguments = self._work, slot, rate, chunk
                    future = client.submit(run_chunk, *arguments, pure=False, workers=only)
                    tries[asyncio.ensure_future(future.result())] = future, only
                looked = asyncio.ensure_future(self._look_again())
                await asyncio.wait([*tries, looked], return_when=asyncio.FIRST_COMPLETED)
                looked.cancel()
                for task in tries:
                    if task.done():
                        return self._result(task)
        finally:
            for task, (future, _) in tries.items():
                task.cancel()
                self._finished.pop(future.key, None)

    def _result(self, task: "asyncio.Task[Any]") -> Results:
        try:
            results: Results = task.result().open()
        except _distributed.KilledWorker:
            raise KilledError from None
        except (OSError, _CancelledError, asyncio.CancelledError, AssertionError):
            raise self._gone("went away during the work") from None
        except Exception as error:
            raise EndOfRun(self._wrong(f"cannot do the work: {error!r}")) from error
        return results

    @property
    def _silent(self) -> set[str]:
        now = asyncio.get_running_loop().time()
        return {worker for worker, then in self._answered.items() if then < now - _SILENT}

    @property
    def _fit(self) -> list[str]:
        return [*(self._answered.keys() - self._unfit.keys() - self._silent)]

    def _is_alive(self, future: Any, only: list[str]) -> bool:
        """Whether a task is done by a worker that answers, or will be done."""
        if future.status == "finished":  # its result is under way, if its worker answers
            now = asyncio.get_running_loop().time()
            return self._finished.setdefault(future.key, now) >= now - _SILENT
        if not self._answered.keys() & set(only):
            return False
        return self._place_of.get(future.key) not in self._silent

    async def _look_again(self) -> None:
        async with self._changed:
            await self._changed.wait()

    async def _ready(self) -> Any:
        """Return the client when there is a worker; raise what is wrong."""
        if self._watching is None:
            self._since = asyncio.get_running_loop().time()
            self._watching = asyncio.create_task(self._watch())
        while True:
            if self._problem is not None:
                raise copy(self._problem)
            if self._client is not None and self._fit:
                return self._client
            await self._look_again()

    async def _watch(self) -> None:
        while True:
            try:
                self._problem = await self._look()
            except EndOfRun as end:
                self._problem = end
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(_LOOK)

    async def _look(self) -> BaseException | None:
        """Ask who is there; return what is wrong."""
        try:
            client = await self._connected()
            async with asyncio.timeout(_SILENT):
                tasks = await client.processing()
        except (OSError, _CancelledError) as error:
            await self._leave()
            problem = self._gone(f"does not answer ({type(error).__name__}): is it running?")
            return problem if self._was_fit else EndOfRun(problem)
        self._place_of = {key: worker for worker, keys in tasks.items() for key in keys}
        for worker in self._answered.keys() - tasks.keys():
            del self._answered[worker]
            self._unfit.pop(worker, None)
        for worker in tasks.keys() - self._asking.keys():
            self._asking[worker] = asyncio.create_task(self._ask(client, worker))
        return self._absence()

    async def _ask(self, client: Any, worker: str) -> None:
        """Note that a worker is there, and what it lacks."""
        try:
            work = None if worker in self._answered else self._work
            found = await client.run(check, VERSIONS, work, workers=[worker], on_error="return")
            answer = found.get(worker, OSError())
            if isinstance(answer, OSError):  # it has gone meanwhile
                return
            self._answered[worker] = asyncio.get_running_loop().time()
            if isinstance(answer, Exception):  # it cannot load what it is to call
                answer = f"{answer}: install gateway-sdk[cluster] there"
            if answer is not None:
                self._unfit[worker] = str(answer)
            if self._fit:
                self._was_fit, self._since = True, asyncio.get_running_loop().time()
                self._problem = None
        except (OSError, _CancelledError):
            pass  # the scheduler has gone
        finally:
            del self._asking[worker]
        async with self._changed:
            self._changed.notify_all()

    def _absence(self) -> BaseException | None:
        """Return the error if no worker is fit, and none has been for a while."""
        now = asyncio.get_running_loop().time()
        # Those that do not answer may only be busy; Dask removes them after its `worker-ttl`.
        if self._fit or (self._was_fit and self._answered):
            self._since = now
        limit = _START if isinstance(self._place, int) and not self._was_fit else _JOIN
        if self._unfit and not self._asking.keys() - self._answered.keys():
            limit = _UNFIT
        if now - self._since < limit:
            return None
        if self._unfit:
            worker, why = next(iter(self._unfit.items()))
            problem = f"has {len(self._unfit)} workers, and none is fit; {worker}: {why}"
            return EndOfRun(self._wrong(problem))
        if self._was_fit:
            return self._gone("has no worker any more")
        start = f"start one with `dask worker {self._address}`"
        return EndOfRun(self._gone(f"has no worker after {limit:.0f} s: {start}"))

    def _gone(self, what: str) -> ConnectionFailedError:
        return ConnectionFailedError(f"the scheduler {self._name} {what}")

    def _wrong(self, problem: str) -> ConfigurationError:
        return ConfigurationError(f"the scheduler {self._name} {problem}")

    async def _connected(self) -> Any:
        if self._client is not None and self._client.status == "running":
            return self._client
        await self._leave()
        if isinstance(self._place, int) and not self._address:
            self._address = await self._start(self._place)
        try:
            client = await _distributed.Client(
                self._address, asynchronous=True, timeout=_SILENT, security=self._security
            )
        except (TypeError, ValueError, RuntimeError) as error:  # of the address, or of TLS
            raise EndOfRun(self._wrong(f"cannot be used: {error}")) from error
        self._client = client
        if not self._was_fit:
            await self._check_scheduler(client)
        return self._client

    async def _check_scheduler(self, client: Any) -> None:
        """A scheduler loads what is submitted; one that cannot would say nothing."""
        try:
            async with asyncio.timeout(_SILENT):
                problem = await client.run_on_scheduler(check, VERSIONS, None)
        except ImportError as error:
            problem = f"{error}: install gateway-sdk[cluster] there"
        if problem:
            raise EndOfRun(self._wrong(f"cannot pass the work on: {problem}"))

    async def _start(self, workers: int) -> str:
        """Start a scheduler in this process, and workers beside it that read no `__main__`."""
        cluster = _distributed.LocalCluster(
            n_workers=0, asynchronous=True, dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, host="127.0.0.1",
            scheduler_kwargs={"allowed_failures": 1},
        )  # fmt: skip
        address = (await self._local.enter_async_context(cluster)).scheduler_address
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway_sdk.cluster._local", address, str(workers),
            env=os.environ | {
                "PYTHONPATH": os.pathsep.join(sys.path), "DASK_LOGGING__DISTRIBUTED": "critical"
            },
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._local.push_async_callback(process.communicate, b"")  # ends its standard input
        return str(address)

    async def _leave(self) -> None:
        client, self._client = self._client, None
        self._answered, self._unfit, self._place_of = {}, {}, {}
        if client is not None:
            with suppress(Exception):  # of Dask, about what is gone
                async with asyncio.timeout(_SILENT / 2):
                    await client.close()

    async def aclose(self) -> None:
        """End what is left of the run in the workers, and those on this machine."""
        if self._watching is not None:
            tasks = [self._watching, *self._asking.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None and (fit := self._fit):
            with suppress(Exception):  # as above
                async with asyncio.timeout(_SILENT / 2):
                    await self._client.run(stop, self._run, workers=fit, on_error="ignore")
        await self._leave()
        await self._local.aclose()
