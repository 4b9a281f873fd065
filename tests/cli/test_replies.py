import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.ended import Ended

Call = Callable[..., Ended]


@contextmanager
def answering(media_type: str, body: bytes) -> Generator[str]:
    """Answer everybody alike, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_numbers_of_a_reply_are_exact(call_gateway: Call) -> None:
    """What comes over the wire comes out digit by digit, though no float could hold it."""
    reply = b'{"rates": {"2026-10-30": {"USD": 1.12345678901234567890}}}'
    with answering("application/json", reply) as address:
        ended = call_gateway(
            *("rates", "EUR", "USD", "--json"), GATEWAY_BASE_URL=address, GATEWAY_ACCESS_TOKEN="t"
        )

    assert ended.status == 0
    assert '"USD": 1.12345678901234567890\n' in ended.out


@pytest.mark.parametrize(
    ("arguments", "status", "advice"),
    [
        (["countries"], 4, "Is GATEWAY_BASE_URL a gateway's address, and not a web page's?"),
        (
            ["webhook"],
            5,
            "Look before you repeat it: it may have been done already.",
        ),
        (
            ["customer", "revise", "customer-0001", "a=b"],
            5,
            "Look before you repeat it: it may have been done already.",
        ),
    ],
)
def test_page_in_place_of_a_reply_is_told(
    call_gateway: Call, arguments: list[str], status: int, advice: str
) -> None:
    """What a portal answers is no reply, and is not shown; a write may have been done."""
    with answering("text/html", b"<h1>canary: log in first</h1>") as address:
        ended = call_gateway(*arguments, GATEWAY_BASE_URL=address, GATEWAY_ACCESS_TOKEN="t")

    assert (ended.status, ended.out) == (status, "")
    assert "canary" not in ended.err
    assert ended.err.splitlines()[1:] == [advice]
