"""What stands between a browser and the receiver: it is said at once, and again at the end."""

import re
import ssl

import pytest

from tests.auth.visits import GOOD, post, visit, waiting
from tests.support.secrecy import CANARY

pytestmark = pytest.mark.usefixtures("traceless")

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://login.test"}


def tls_hello() -> bytes:
    to_server, from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(from_server, to_server, server_hostname="x.test")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return to_server.read()


# What is sent, the reply, what stands in the way, and the way out.
OBSTACLES = {
    "https, by HSTS": (tls_hello(), 400, r"by https: .* \(HSTS\)", "127.0.0.1 in the redirect URI"),
    "a form": (
        post(f"access_token={CANARY}&state=ours".encode(), FORM),
        *(403, "a form was sent, as by response_mode=form_post", "leave response_mode out"),
    ),
    "localhost": (
        visit({"Host": "localhost:1"}),
        *(421, "came to localhost in place of 127.0.0.1", "a redirect URI that says localhost"),
    ),
    "a response of 300 kB": (post(b"x" * 300 * 1024), 413, "more than 256 kB", "a private window"),
    "cookies of 300 kB": (
        visit({"Cookie": "x" * 300 * 1024}),
        *(431, "more than 256 kB", "delete the cookies"),
    ),
    "no cookie": (
        post(GOOD, {"Cookie": None}),
        *(403, "without the login's cookie", "did not open the login's address"),
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
async def test_what_is_in_the_way_is_said(name: str) -> None:
    """Once while it waits, and again at its end; the login goes on."""
    raw, status, told, way_out = OBSTACLES[name]
    said: list[str] = []
    async with waiting() as there:
        handler = there.receiver._handler
        handler.tell = said.append
        for _ in range(2):
            reply = await there.send(raw)
            assert reply.status == status
        await there.must_still_wait()
    assert len(said) == 1
    assert CANARY not in said[0]
    assert handler.reason == said[0]
    assert re.search(told, said[0])
    assert re.search(way_out, said[0])


@pytest.mark.parametrize(
    "raw",
    [visit({"Host": "evil.test"}), visit(target="/favicon.ico"), post(GOOD, {"Origin": "null"})],
)
async def test_what_any_page_can_send_is_not_said(raw: bytes) -> None:
    async with waiting() as there:
        there.receiver._handler.tell = pytest.fail
        assert (await there.send(raw)).status >= 400
        assert there.receiver._handler.reason == ""


async def test_the_cookies_of_all_other_programs_do_not_end_a_login() -> None:
    """18 programs of this machine with 1 kB each, and a browser's largest jar."""
    async with waiting() as there:
        jar = "; ".join(f"other-{number}={'x' * 1000}" for number in range(200))
        there._cookie = ""
        reply = await there.send(visit({"Cookie": jar}, target=there.start))
        there._cookie = f"{jar}; {reply.headers['Set-Cookie'].partition(';')[0]}"
        await there.must_still_wait()
