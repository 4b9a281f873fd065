"""The start address: it leads one browser to the login, and only that browser can end it."""

from collections.abc import AsyncIterator

import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.auth._callback_handler import CallbackHandler, CallbackRequest, StartAddress
from gateway_sdk.errors import LoginError, SessionStateError
from tests.auth.bad_requests import GOOD
from tests.auth.traces import no_traces
from tests.auth.visits import AUTHORIZATION_URL, RIGHT, post, read_answer, visit, waiting
from tests.support.ports import free_port


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


async def test_it_leads_to_the_login_and_sets_a_cookie() -> None:
    """The reply names the authorization URL, and sets a cookie for this login and this host."""
    async with waiting() as there:
        reply = await there.open()

        assert (reply.status, reply.body) == (302, b"")
        assert reply.headers["Location"] == AUTHORIZATION_URL
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        pair, *attributes = reply.headers["Set-Cookie"].split("; ")
        assert pair.startswith("login-")
        assert attributes == ["Path=/callback", "Max-Age=86400", "HttpOnly", "SameSite=Strict"]
        await there.must_still_wait()


async def test_it_clears_what_was_stored_at_the_port() -> None:
    """Service workers and cached pages are removed, at a chance port and at a fixed one."""
    for port in (0, free_port()):
        async with waiting(f"http://127.0.0.1:{port}/callback") as there:
            assert (await there.open()).headers["Clear-Site-Data"] == '"cache", "storage"'


@pytest.mark.parametrize("cookie", [None, "a=b; COOKIE"])
async def test_a_second_opening_ends_the_wait(cookie: str | None) -> None:
    """The cookie is no right to the state: a server at another port may have seen it."""
    async with waiting() as there:
        await there.open()
        reply = await there.send(visit({"Cookie": cookie}, target=there.start))
        with pytest.raises(LoginError, match="opened twice"):
            await there.task

    assert reply.status == 409
    assert not {"Location", "Set-Cookie"} & reply.headers.keys()


@pytest.mark.parametrize(
    ("answer", "cookie"),
    [("/", "/"), ("/login/callback", "/login/callback"), ("/a/b;c", "/a"), ("/a;b", "/")],
)
def test_the_cookie_goes_to_the_path_of_the_answer(answer: str, cookie: str) -> None:
    """Other paths do not get it; a semicolon, which a cookie's path cannot have, shortens it."""
    opened = StartAddress(AUTHORIZATION_URL, answer).open()
    assert opened is not None
    assert opened["Set-Cookie"].split("; ")[1] == f"Path={cookie}"


@pytest.mark.parametrize(
    ("changes", "method", "status"),
    [
        ({}, "HEAD", 405),
        ({}, "POST", 405),
        ({"Sec-Fetch-Dest": "image"}, "GET", 403),
        ({"Sec-Purpose": "prefetch;prerender"}, "GET", 503),
        ({"Purpose": "prefetch"}, "GET", 503),
        ({"Host": "evil.test"}, "GET", 421),
    ],
)
async def test_previews_do_not_open_it(
    changes: dict[str, str | None], method: str, status: int
) -> None:
    """A preview, an image and a prefetch are refused, and the browser can still open it."""
    async with waiting() as there:
        reply = await there.send(visit(changes, method=method, target=there.start))

        assert reply.status == status
        assert not {"Location", "Set-Cookie"} & reply.headers.keys()
        await there.must_still_wait()


async def test_without_the_cookie_the_right_state_is_refused() -> None:
    """A program that knows the state, but did not open the start address, cannot end the wait."""
    async with waiting() as there:
        for changes in ({"Cookie": None}, {"Cookie": "login-1=2"}):
            reply = await there.send(post(GOOD, changes))
            assert reply.status == 403
            assert b"started in another browser" in reply.body
        await there.must_still_wait()


async def test_the_cookie_is_deleted_at_the_end() -> None:
    """The reply to the valid response deletes the cookie; other replies do not."""
    async with waiting() as there:
        opened = await there.open()
        name = opened.headers["Set-Cookie"].partition("=")[0]
        assert "Set-Cookie" not in (await there.hand_in("state=theirs")).headers
        deleted = (await there.hand_in()).headers["Set-Cookie"]
        assert deleted.startswith(f"{name}=; Path=/callback; Max-Age=0;")


async def test_each_browser_has_its_own_start_address() -> None:
    """Two start addresses of a login can be opened by two browsers; either can finish it."""
    async with LoopbackReceiver() as receiver:
        urls = {receiver.start_url(AUTHORIZATION_URL) for _ in range(100)}
        assert len(urls) == 100
        assert all(url.startswith(receiver.redirect_uri[: -len("callback")]) for url in urls)
        assert all(len(url.rpartition("/")[2]) == 43 for url in urls)


def test_a_start_after_the_end_changes_nothing() -> None:
    """After the result, a second browser is refused, and the result stays."""
    start = StartAddress(AUTHORIZATION_URL, "/callback")
    handler = CallbackHandler("h", "/callback", [start], read_answer)
    get = CallbackRequest("GET", start.path, (("host", "h"),))
    opened = handler.reply_to_head(get)
    assert opened is not None
    cookie = opened.headers["Set-Cookie"].partition(";")[0]
    posted = CallbackRequest("POST", "/callback", (("cookie", cookie),), GOOD)
    assert handler.reply_to_body(posted).status == 200

    late = handler.reply_to_head(get)

    assert late is not None
    assert late.status == 410
    assert handler.result() == RIGHT


def test_the_authorization_url_is_sent_in_ascii() -> None:
    """A header holds ASCII only: other characters are encoded as browsers do."""
    leading = StartAddress("https://login.test/é?x=ü", "/").open()
    assert leading is not None
    assert leading["Location"] == "https://login.test/%C3%A9?x=%C3%BC"


async def test_a_wait_that_no_browser_could_end_is_an_error() -> None:
    """Without a start address, or outside of `async with`, waiting is an error at once."""
    receiver = LoopbackReceiver()
    with pytest.raises(SessionStateError, match="async with"):
        receiver.start_url(AUTHORIZATION_URL)
    async with receiver:
        with pytest.raises(SessionStateError, match=r"start_url\(\)"):
            await receiver.receive(read_answer)


async def test_the_head_is_checked_before_the_body_is_read() -> None:
    """A request that is refused because of its head gets its reply before its body is read."""
    for changes, status in (
        ({"Origin": "https://evil.test"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Cookie": None}, 403),
        ({"Content-Length": "262145"}, 413),
        ({"Content-Length": None, "Transfer-Encoding": "chunked"}, 411),
    ):
        async with waiting() as there:
            reply = await there.send(post(b"", {"Content-Length": "500", **changes}))
            assert reply.status == status
            await there.must_still_wait()
