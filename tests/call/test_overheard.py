"""What others may overhear of calls, and what is left when they have ended."""

import asyncio
import gc
import logging
from typing import Any

import pytest

from gateway_sdk import GatewaySession, ReplyLostError, UnexpectedReplyError
from tests.support.raw_server import OK, raw_server, read_request

CANARIES = {
    "token": "canary" + "-token",
    "tenant": "canary" + "-tenant",
    "header": "canary" + "-header",
    "body": "canary" + "-body",
    "path": "canary" + "-path",
}


async def _talk(base_url: str) -> None:
    """Make a good call, a refused one and a lost one, with canaries in all places."""
    async with GatewaySession(
        base_url,
        access_token=CANARIES["token"],
        tenant_id=CANARIES["tenant"],
        token_header=CANARIES["header"],
        retry=None,
    ) as gateway:
        await gateway.wallet.cancel_order(CANARIES["path"], "o")
        with pytest.raises(UnexpectedReplyError):
            await gateway.aml.upload_document(CANARIES["body"])
        with pytest.raises(ReplyLostError):
            await gateway.customer.create_customer({"customerName": CANARIES["body"]})


@pytest.mark.asyncio_loop  # uvloop logs nothing
async def test_logs_at_debug_hold_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With every logger at DEBUG and asyncio in debug mode, no log holds a secret or a body."""
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    replies = [OK, OK.replace(b"{}", b"{" + b"c"), b""]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while replies:
            await read_request(reader)
            reply = replies.pop(0)
            if not reply:
                return
            writer.write(reply)
            await writer.drain()

    async with raw_server(handler) as base_url:
        await _talk(base_url)

    logged = "\n".join(
        f"{record.getMessage()} {record.args!r} {record.exc_text}" for record in caplog.records
    )
    speakers = {record.name.split(".")[0] for record in caplog.records}
    assert "asyncio" in speakers
    assert [name for name, canary in CANARIES.items() if canary in logged] == []


async def test_nothing_is_left_open(recwarn: pytest.WarningsRecorder) -> None:
    """After good, refused and cancelled calls no socket, task or coroutine is left behind."""
    held = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while b"webhook" not in await read_request(reader):
            writer.write(OK)
            await writer.drain()
        held.set()
        await reader.read()

    before = asyncio.all_tasks()
    async with raw_server(handler) as base_url:
        async with GatewaySession(base_url, access_token="token-1", retry=None) as gateway:
            await gateway.wallet.order_history(1, 1)
            call = asyncio.create_task(gateway.kyc.send_webhook())
            await held.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert asyncio.all_tasks() - before <= set(_handlers())

    del call
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def _handlers() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if "connected" in repr(task.get_coro())]
