"""What the workers import, and a worker in one process: `python -m benchmarks.fleet.worker`.

`taskiq worker benchmarks.fleet.worker:broker` is the usual way. It has a second process, which
starts a worker again that was killed; here the one who kills does this.
"""

import asyncio
import signal
import time

from taskiq.receiver import Receiver

from benchmarks.fleet.jobs import make_broker, make_job
from gateway_sdk import fleet

job = make_job()
broker = make_broker()
fleet.on_taskiq(broker, job)


async def main() -> None:
    """Work until SIGTERM; wait for a queue that is away."""
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    broker.is_worker_process = True
    while not end.is_set():
        try:
            await Receiver(broker, max_async_tasks=2, run_startup=True).listen(end)
        except Exception as error:  # noqa: BLE001 - each client has its own errors
            print("waiting:", type(error).__name__, flush=True)
            await asyncio.sleep(0.5)
    await broker.shutdown()


if __name__ == "__main__":
    began = time.process_time()
    asyncio.run(main())
    print("cpu", time.process_time() - began, flush=True)
