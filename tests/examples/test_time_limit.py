"""The program for Celery, whose time limit leaves a call in the middle of a turn of its loop."""

import asyncio
from typing import Any

import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from tests.support import documents

REQUEST = {"customerName": "Ada"}


class TimeLimit(KeyboardInterrupt):
    """What leaves an event loop at once, as an exception of a signal's handler does."""


def test_a_write_that_a_time_limit_has_left_is_not_sent_by_the_next_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (block,) = [it for it in documents.every("python") if it.document.name == "queues.md"]
    sandbox, names = Sandbox(), dict[str, Any]()
    may_answer = asyncio.Event()

    def limit() -> None:
        raise TimeLimit

    async def vault() -> str:
        asyncio.get_running_loop().call_soon(limit)
        await may_answer.wait()
        return SANDBOX_ACCESS_TOKEN

    with sandbox.serve_in_thread() as url:
        monkeypatch.setenv("GATEWAY_BASE_URL", url)
        monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", SANDBOX_ACCESS_TOKEN)
        monkeypatch.setenv("GATEWAY_TENANT_ID", "demo")
        exec(block.text.partition("\n\n\nprint")[0], names)  # noqa: S102 - of this project
        run, gateway = names["run"], names["gateway"]
        with pytest.raises(TimeLimit):
            run(gateway.with_options(access_token=vault).customer.create_customer(REQUEST))
        may_answer.set()
        run(gateway.customer.create_customer(REQUEST))
        run(gateway.aclose())
        names["runner"].close()

    assert len(sandbox.assert_received("create_customer")) == 1
