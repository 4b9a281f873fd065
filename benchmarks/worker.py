"""One measure of one peer, in a process that has loaded nothing else.

    python -m benchmarks.worker MEASURE PEER ADDRESS SETTINGS

SETTINGS are JSON; what was measured is printed as JSON.
"""

import asyncio
import json
import os
import selectors
import sys
from importlib import import_module


def make_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop whose timers are exact; that of epoll rounds up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main(measure: str, peer: str, url: str, settings: str) -> None:
    """Measure, and print what was measured."""
    module = import_module(f"benchmarks.measures.{measure}")
    given = json.loads(settings)
    sys.path.insert(0, given["folder"])
    factory = make_loop if measure == "latency" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(module.measure(peer, url, given))))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # the threads of pyreqwest may abort the end of Python
