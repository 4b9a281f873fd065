"""Requests to the receiver: the start address, the page, the response, and all that is refused."""

import base64
import hashlib
import json
import re
import socket

import httpx
import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth._login import server
from gateway_sdk.auth._login.handler import CallbackHandler, CallbackRequest, page
from gateway_sdk.errors import LoginError, SessionStateError
from tests.auth.visits import (
    AUTHORIZATION_URL,
    GOOD,
    RIGHT,
    WRONG,
    answer,
    post,
    read_answer,
    visit,
    waiting,
)
from tests.support.ports import free_port
from tests.support.secrecy import CANARY

pytestmark = pytest.mark.usefixtures("traceless")

ON_ALL = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


TLS_HELLO = bytes.fromhex("160301007a010000760303") + bytes(range(64))

# Requests that are refused, each with its status: no HTTP, for another place or from another page,
# or with something else than a response of this login.
REFUSED = {
    "garbage": (b"\x00\xff\xfe\x80\r\n\r\n", 400),
    "a TLS hello": (TLS_HELLO, 400),
    "HTTP/0.9": (b"GET /callback\r\n\r\n", 400),
    "a head of 300 KB": (visit({"X": "x" * 300 * 1024}), 431),
    "two other lengths": (post(GOOD, {"content-length": "7"}), 400),
    "a length of 30 digits": (post(GOOD, {"Content-Length": "9" * 30}), 400),
    "no host": (visit({"Host": None}), 400),
    "two hosts": (visit({"host": "HOST"}), 400),
    "another host": (visit({"Host": "evil.test"}), 421),
    "an answer for another host": (post(GOOD, {"Host": "a.test", "Origin": "http://a.test"}), 421),
    "absolute form": (visit(target="http://HOST/callback"), 404),
    "an icon": (visit({"Sec-Fetch-Dest": "image"}, target="/favicon.ico"), 404),
    "a path with dots": (visit(target="/x/../callback"), 404),
    "no origin": (post(GOOD, {"Origin": None}), 403),
    "a null origin": (post(GOOD, {"Origin": "null"}), 403),
    "another origin": (post(GOOD, {"Origin": "https://evil.test"}), 403),
    "an origin at another port": (post(GOOD, {"Origin": "http://127.0.0.1:1"}), 403),
    "an origin that begins as ours": (post(GOOD, {"Origin": "http://HOST.evil.test"}), 403),
    "two origins": (post(GOOD, {"origin": "http://HOST"}), 403),
    "no cookie": (post(GOOD, {"Cookie": None}), 403),
    "another cookie": (post(GOOD, {"Cookie": "login-0=x; COOKIEx; xCOOKIE"}), 403),
    "two headers with cookies": (post(GOOD, {"cookie": "a=b"}), 403),
    "from another site": (post(GOOD, {"Sec-Fetch-Site": "cross-site"}), 403),
    "into a frame": (visit({"Sec-Fetch-Dest": "iframe"}), 403),
    "by a fetch": (visit({"Sec-Fetch-Dest": "empty"}), 403),
    "text/plain": (post(GOOD, {"Content-Type": "text/plain"}), 415),
    "no JSON": (post(b"{fragment}"), 400),
    "no UTF-8": (post(b'{"fragment": "\xff", "query": ""}'), 400),
    "a list": (post(b'["state=ours", ""]'), 400),
    "nested deeply": (post(b"[" * 30_000), 400),
    "one key more": (post(b'{"fragment": "state=ours", "query": "", "more": ""}'), 400),
    "a lone surrogate": (post(b'{"fragment": "\\ud800", "query": ""}'), 400),
    "a wrong state": (post(answer(WRONG)), 400),
    "a body of 257 KB": (post(GOOD + b" " * 257 * 1024), 413),
    "a chunk of 257 KB": (
        post(
            b"40400\r\n" + b" " * 0x40400, {"Content-Length": None, "Transfer-Encoding": "chunked"}
        ),
        413,
    ),
    # Previews and other requests that do not open the start address.
    "HEAD of the start": (visit(method="HEAD", target="START"), 405),
    "POST to the start": (visit(method="POST", target="START"), 405),
    "the start as an image": (visit({"Sec-Fetch-Dest": "image"}, target="START"), 403),
    "a prerendered start": (visit({"Sec-Purpose": "prefetch;prerender"}, target="START"), 503),
    "a prefetched start": (visit({"Purpose": "prefetch"}, target="START"), 503),
    "the start at another host": (visit({"Host": "evil.test"}, target="START"), 421),
    **{
        f"the method {method}": (visit(method=method), 405)
        for method in ("PUT", "HEAD", "OPTIONS", "DELETE", "TRACE", "get")
    },
}


@pytest.mark.parametrize(("raw", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_request_that_is_not_of_the_page_is_refused(raw: bytes, status: int) -> None:
    """No part of the page, no cookie, no permission; the valid response still ends the wait."""
    async with waiting() as there:
        reply = await there.send(raw)
        assert reply.status == status
        assert b"CANARY" not in reply.body
        length = int(reply.headers.pop("Content-Length"))
        assert len(reply.body) == (0 if raw.startswith(b"HEAD") else length)
        kinds = {b"{": "application/json", b"<": "text/html; charset=utf-8"}
        if reply.headers.pop("Content-Security-Policy", None):  # the page that removes workers
            assert b'href=""' in reply.body
        assert reply.headers == {
            **ON_ALL,
            "Content-Type": kinds.get(reply.body[:1], "text/plain; charset=utf-8"),
            **({"Allow": "GET, POST"} if status == 405 else {}),
        }
        await there.must_still_wait()


@pytest.mark.parametrize("is_fixed", [False, True])
async def test_the_start_address_leads_to_the_login_and_sets_a_cookie(is_fixed: bool) -> None:
    """For this login and this host; what was stored at the port is removed. The end deletes it."""
    port = free_port() if is_fixed else 0
    async with waiting(f"http://127.0.0.1:{port}/callback") as there:
        reply = await there.open()
        assert reply.status == 200
        pair, *attributes = reply.headers.pop("Set-Cookie").split("; ")
        name = pair.partition("=")[0]
        assert name.startswith("login-")
        assert attributes == ["Path=/callback", "Max-Age=86400", "HttpOnly", "SameSite=Strict"]
        policy = reply.headers.pop("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert b"location.replace(target.href)" in reply.body
        assert b'?state=ours&amp;x=CALLBACK" data-callback="/callback"' in reply.body
        assert reply.headers == {
            **ON_ALL,
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(reply.body)),
            "Location": AUTHORIZATION_URL.replace("é", "%C3%A9"),
            "Clear-Site-Data": '"cache", "storage"',
        }
        deleted = (await there.hand_in()).headers["Set-Cookie"]
        assert deleted.startswith(f"{name}=; Path=/callback; Max-Age=0;")


async def test_a_request_beside_the_opening_is_no_second_one() -> None:
    """The preload of a service worker, and what WebKit asks for if there is a worker."""
    early = {"Service-Worker-Navigation-Preload": "true"}, {"Sec-Fetch-Site": "same-origin"}
    async with waiting() as there:
        for changes in early:
            assert (await there.send(visit(changes, target=there.start))).status == 503
        await there.open()
        for changes in early:
            assert (await there.send(visit(changes, target=there.start))).status == 503
        fetched = {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
        assert (await there.send(visit(fetched))).status == 204
        assert (await there.send(visit(fetched, target=there.start))).status == 403
        await there.must_still_wait()


@pytest.mark.parametrize("cookie", [None, "a=b; COOKIE"])
async def test_a_second_opening_ends_the_wait(cookie: str | None) -> None:
    """The cookie is no right to the state: a server at another port may have seen it."""
    async with waiting() as there:
        await there.open()
        reply = await there.send(visit({"Cookie": cookie}, target=there.start))
        with pytest.raises(LoginError, match="opened twice"):
            await there.task
    assert (reply.status, b"was opened twice" in reply.body) == (409, True)
    assert not {"Location", "Set-Cookie"} & reply.headers.keys()


async def test_each_browser_has_its_own_start_address() -> None:
    """A wait that no browser could end, for want of one, is an error at once."""
    receiver = LoopbackReceiver()
    with pytest.raises(SessionStateError, match="async with"):
        receiver.start_url(AUTHORIZATION_URL)
    async with receiver:
        with pytest.raises(SessionStateError, match=r"start_url\(\)"):
            await receiver.receive(read_answer)
        urls = {receiver.start_url(AUTHORIZATION_URL) for _ in range(100)}
    assert len(urls) == 100
    assert {url.rpartition("/")[0] for url in urls} == {receiver.redirect_uri[: -len("/callback")]}
    assert all(len(url.rpartition("/")[2]) == 43 for url in urls)


@pytest.mark.parametrize("second", [RIGHT, WRONG])
def test_what_comes_after_a_response_changes_nothing(second: str) -> None:
    """Another one is a 409, valid or not; a start address is a 410."""
    handler = CallbackHandler(httpx.URL("http://h/callback"))
    handler.finish, start_url = read_answer, handler.make_start_url(AUTHORIZATION_URL)
    get = CallbackRequest("GET", start_url.removeprefix("http://h"), httpx.Headers({"Host": "h"}))
    cookie = handler.reply(get).headers["Set-Cookie"].partition(";")[0]
    page = {"Host": "h", "Origin": "http://h", "Content-Type": "application/json"}
    headers = httpx.Headers({**page, "Cookie": cookie})
    posts = [CallbackRequest("POST", "/callback", headers, answer(one)) for one in (RIGHT, second)]
    assert [handler.reply(one).status_code for one in (*posts, get)] == [200, 409, 410]
    assert (handler.result.result(), handler.refused) == (RIGHT, 0)


@pytest.mark.parametrize(
    "raw",
    [
        visit(),
        visit({"Sec-Fetch-Dest": None, "Sec-Fetch-Site": None}),
        visit(target="/callback?error=access_denied&state=ours"),
    ],
)
async def test_the_page_is_shown_to_every_browser(raw: bytes) -> None:
    """As often as it asks. Its policy allows its one script and one style by their hashes."""
    async with waiting() as there:
        for _ in range(2):
            reply = await there.send(raw)
            assert (reply.status, reply.body) == (200, page().content)
            hashes = [
                base64.b64encode(hashlib.sha256(text).digest()).decode()
                for text in re.split(rb"</?(?:style|script)>", page().content)[1::2]
            ]
            assert reply.headers.pop("Content-Security-Policy").split("; ") == [
                "default-src 'none'",
                f"script-src 'sha256-{hashes[1]}'",
                f"style-src 'sha256-{hashes[0]}'",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            ]
            assert reply.headers == {
                **ON_ALL,
                "Content-Length": str(len(page().content)),
                "Content-Type": "text/html; charset=utf-8",
            }
        await there.must_still_wait()


def test_the_page_stores_nothing_and_asks_nobody_else() -> None:
    """The address bar is cleared before the response is sent."""
    assert not re.search(r"https?:|[\"'(=]\s*//|url\(|@import|\bimport\b|<link|<img", page().text)
    assert not re.search(r"innerHTML|console|[sS]torage|cookie|\son\w+=", page().text)
    assert page().text.index("history.replaceState") < page().text.index("fetch(")


@pytest.mark.parametrize(
    "raw",
    [
        post(GOOD, {"Sec-Fetch-Site": None, "Sec-Fetch-Dest": None}),  # of an older browser
        post(GOOD + b" " * (256 * 1024 - len(GOOD))),
        post(GOOD, target="/callback?state=theirs"),
        post(GOOD, {"Cookie": "other=x; COOKIE;last=y"}),
        post(GOOD, {"X": "x" * 14_000}),
    ],
    ids=range(5),
)
async def test_a_response_from_the_page_is_accepted(raw: bytes) -> None:
    """The page's request ends the wait, also with headers that browsers add."""
    async with waiting() as there:
        reply = await there.send(raw)
        assert (reply.status, json.loads(reply.body)["good"]) == (200, True)
        assert await there.task == RIGHT


async def test_the_page_learns_why_a_response_is_refused() -> None:
    async with waiting() as there:
        elsewhere = await there.send(post(GOOD, {"Cookie": "login-1=2"}))
        reply = await there.hand_in(WRONG)
        assert "Set-Cookie" not in reply.headers
        await there.must_still_wait()
    assert json.loads(elsewhere.body)["heading"] == "The login was started in another browser"
    assert json.loads(reply.body) == {
        "good": False,
        "heading": "This response belongs to another login",
        "text": "the answer has another state.",
    }


@pytest.mark.parametrize("length", [270_000, 500_000, 20_000_000])
async def test_a_reply_reaches_a_client_that_is_still_sending(length: int) -> None:
    """A body that is too long is read for a while, so that the client can read the refusal."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(b"", {"Content-Length": "100000000"}))
        if length > 2 * 256 * 1024:
            with pytest.raises(ConnectionError):
                await line.send(b"x" * length)
        else:
            await line.send(b"x" * length)
            assert (await line.reply()).status == 413
        await line.close()
        await there.must_still_wait()


@pytest.mark.parametrize(
    "raw", [b"", b"GET /callb", visit()[:-2], post(b"", {"Content-Length": "100"}) + b"{"]
)
@pytest.mark.parametrize("leaves", [True, False])
async def test_an_unfinished_request_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch, raw: bytes, leaves: bool
) -> None:
    """A connection has its own time limit, and may be closed at any point before."""
    async with waiting() as there:
        await there.open()
        with monkeypatch.context() as patched:
            if not leaves:
                patched.setattr(server, "_CONNECTION_TIMEOUT", 0.01)
            line = await there.connect()
            await line.send(raw)
            if not leaves:
                assert await line.ended() == b""
            await line.close()
        await there.must_still_wait()


@pytest.mark.parametrize("at_once", [True, False])
async def test_many_idle_connections_do_not_lock_out_the_browser(at_once: bool) -> None:
    """New connections close the oldest ones, so the browser can always connect."""
    async with waiting() as there:
        await there.send(visit())
        if at_once:
            sockets = [socket.create_connection((there.host, there.port)) for _ in range(40)]
            idle = [await there.connect(opened=opened) for opened in sockets]
        else:
            idle = [await there.connect() for _ in range(40)]
        for line in idle[:24]:
            assert await line.ended() == b""
        assert [line.is_open for line in idle] == [False] * 24 + [True] * 16
        await there.must_still_wait()


# --- what stands between a browser and the receiver: it is said at once, and again at the end -----

FORM = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Origin": "https://login.test",
    "Sec-Fetch-Dest": "document",
}
BY_SCRIPT = {"Sec-Fetch-Dest": "empty"}


# What is sent, the reply, what stands in the way, and the way out.
OBSTACLES = {
    "https, by HSTS": (TLS_HELLO, 400, r"by https: .* \(HSTS\)", "127.0.0.1 in the redirect URI"),
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


async def test_each_obstacle_is_said_once() -> None:
    """However a page mixes its requests, it fills no terminal."""
    said: list[str] = []
    async with waiting() as there:
        there.receiver._handler.tell = said.append
        for name in ("a form", "localhost", "no cookie") * 3:
            await there.send(OBSTACLES[name][0])
    assert len(said) == 3


@pytest.mark.parametrize(
    "raw",
    [
        visit({"Host": "evil.test"}),
        visit({"Host": "localhost:1", **BY_SCRIPT}),
        visit(target="/favicon.ico"),
        post(GOOD, {"Origin": "null"}),
        post(b"x", {**FORM, **BY_SCRIPT}),
    ],
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
