"""Servers that speak HTTP/2 only: each shows it in a way of its own, and it is said at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from gateway_sdk import Advice, GatewayError, GatewaySession
from tests.real.programs import find, running
from tests.real.servers import ROOT
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.ports import free_port

NODE: Final = """
const {{ readFileSync }} = require("fs"), http2 = require("http2");
const papers = {{ cert: readFileSync({certificate}), key: readFileSync({key}) }};
http2.create{kind}(papers, (_, reply) => reply.end("{{}}")).listen({port}, "127.0.0.1");
"""


def node(folder: Path, port: int, papers: tuple[Path, Path] | None) -> list[str]:
    script = folder / "server.js"
    certificate, key = (json.dumps(str(path)) for path in papers or (__file__, __file__))
    kind = "Server" if papers is None else "SecureServer"
    script.write_text(NODE.format(kind=kind, port=port, certificate=certificate, key=key))
    return [find("node"), str(script)]


def granian(_: Path, port: int, papers: tuple[Path, Path] | None) -> list[str]:
    tls: list[str] = []
    if papers is not None:
        tls = ["--ssl-certificate", str(papers[0]), "--ssl-keyfile", str(papers[1])]
    return [
        *(find("granian"), "--host", "127.0.0.1", "--port", str(port), "--interface", "asginl"),
        *("--http", "2", *tls, "tests.real.application:asgi"),
    ]


def openssl(_: Path, port: int, papers: tuple[Path, Path] | None) -> list[str]:
    assert papers is not None
    files = ("-cert", str(papers[0]), "-key", str(papers[1]))
    return [find("openssl"), "s_server", "-accept", str(port), *files, "-alpn", "h2", "-quiet"]


STACKS: Final[dict[str, Callable[[Path, int, tuple[Path, Path] | None], list[str]]]] = {
    "node": node,
    "granian": granian,
    "openssl": openssl,
}


@pytest.mark.parametrize(
    ("stack", "speaks_tls"),
    [("node", True), ("node", False), ("granian", True), ("granian", False), ("openssl", True)],
)
async def test_it_is_said_at_once(stack: str, speaks_tls: bool, folder: Path) -> None:
    authority = Authority(folder, "tests")
    papers = authority.certify("127.0.0.1") if speaks_tls else None
    port = free_port()
    command = STACKS[stack](folder, port, papers)
    environment = {"PYTHONPATH": str(ROOT), "LEDGER": str(folder / "ledger"), "HELD": "-"}
    with running(command, port, folder, **environment):
        async with GatewaySession(
            f"{'https' if speaks_tls else 'http'}://127.0.0.1:{port}",
            access_token="t",
            verify=authority.path,
        ) as session:
            with pytest.raises(GatewayError, match="HTTP/2 only") as caught:
                await CALLS["order_history"](session)

    assert caught.value.advice is Advice.FIX
    assert len(caught.value.attempts) == 1
