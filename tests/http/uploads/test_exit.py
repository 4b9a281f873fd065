"""A program that ends while a file is being read for an upload."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.http.uploads.servers import taking

FROM_A_PIPE = """
import asyncio, signal, sys
from gateway_sdk import GatewaySession

def told(sent, total):
    if sent == 2**18:  # all that will ever come
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, signal.raise_signal, signal.SIGINT)

async def main(url, pipe):
    async with GatewaySession(url, access_token="token") as gateway:
        await gateway.aml.upload_document(open(int(pipe), "rb"), on_progress=told)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.posix
async def test_a_program_can_be_interrupted_while_its_pipe_is_silent() -> None:
    """Somebody who writes no more into a pipe does not keep the program that reads it alive."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", FROM_A_PIPE]
    async with taking() as (url, _):
        program = await asyncio.create_subprocess_exec(
            *command, url, str(reading), pass_fds=[reading], stderr=subprocess.DEVNULL
        )
        try:
            await asyncio.to_thread(os.write, writing, bytes(2**18 + 1))
            assert await asyncio.wait_for(program.wait(), 30) == -signal.SIGINT
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    os.close(reading)
    os.close(writing)
