"""The worker of the README behind a queue whose token runs out, at a gateway that loses replies."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewayError, GatewaySession, LoginRequiredError, SessionStateError
from gateway_sdk.models import CreateRequest
from tests.support import documents
from tests.support.raw_server import OK, raw_server, read_request

TASKS = [f"task-{number}" for number in range(100)]
LOST, WRONG = TASKS[10::30], TASKS[20::30]
REFUSED = OK.replace(b"200 OK", b"422 -")


def program() -> dict[str, Any]:
    (block,) = [block for block in documents.every("python") if "def wait_for_login" in block.text]
    names: dict[str, Any] = {}
    exec(block.text.replace("asyncio.run(main())", ""), names)  # noqa: S102 - of this project
    names["PAUSE"] = 0
    return names


class Login:
    """A token that is gone after 50 calls; somebody logs in when it was asked for five times."""

    def __init__(self) -> None:
        self.calls = self.refused = 0

    async def token(self) -> str:
        self.calls += 1
        if self.calls > 50 and self.refused < 5:
            self.refused += 1
            raise LoginRequiredError("log in")
        return "t"


async def test_each_task_is_done_once_or_set_aside_for_a_reason() -> None:
    """Nothing is set aside because the token was gone; what is in doubt is not done twice."""
    seen: list[str] = []
    done: list[str] = []

    async def gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _, body = (await read_request(reader)).partition(b"\r\n\r\n")
            assert b"/customer/" in head  # waiting for a login sends no request
            task = json.loads(body)["externalCustomerId"]
            seen.append(task)
            if task in LOST:
                return
            writer.write(REFUSED if task in WRONG else OK)
            done.extend([task] * (task not in WRONG))

    worker, login = program(), Login()
    queue: asyncio.Queue[CreateRequest] = asyncio.Queue()
    for task in TASKS:
        queue.put_nowait(CreateRequest(external_customer_id=task))
    aside: list[tuple[CreateRequest, GatewayError]] = []
    async with (
        raw_server(gateway) as url,
        GatewaySession(url, access_token=login.token, tenant_id="acme") as session,
    ):
        await worker["work"](session, queue, aside)

    assert login.refused == 5
    assert sorted(seen) == sorted(TASKS)
    assert sorted(done) == sorted({*TASKS} - {*LOST} - {*WRONG})
    why = {task.external_customer_id: error.advice.name for task, error in aside}
    assert why == {**dict.fromkeys(LOST, "CHECK"), **dict.fromkeys(WRONG, "FIX")}
    assert len(aside) == len(why)


@pytest.mark.parametrize("is_logged_in", [True, False])
async def test_a_closed_session_ends_the_worker(is_logged_in: bool) -> None:
    async def token() -> str:
        if is_logged_in:
            return "t"
        closing.append(asyncio.create_task(session.aclose()))
        raise LoginRequiredError("log in")

    closing: list[asyncio.Task[None]] = []
    session = GatewaySession("http://127.0.0.1:9", access_token=token, tenant_id="acme")
    if is_logged_in:
        await session.aclose()
    queue: asyncio.Queue[CreateRequest] = asyncio.Queue()
    queue.put_nowait(CreateRequest(external_customer_id="task-1"))

    async with asyncio.timeout(10):
        with pytest.raises(SessionStateError):
            await program()["work"](session, queue, [])

    assert queue.qsize() == 1


def test_what_is_set_aside_is_printed_and_other_pages_go_on(
    gateway_env: dict[str, str], tmp_path: Path
) -> None:
    """A second run of the program has its customer already; the next page creates another."""
    texts = [it.text for it in documents.every("python") if "create_customer(" in it.text]
    (again,) = [text for text in texts if "def wait_for_login" in text]
    (models,) = [text for text in texts if "AddressesItem" in text]

    said = [documents.run_program(text, tmp_path).out for text in (again, again, models)]

    assert "crm-1815" in said[0]
    assert said[1].startswith("look at crm-1815 create_customer: the gateway answered 409")
    assert "crm-1852" in said[2]
