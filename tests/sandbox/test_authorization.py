"""The authorization server: its login page, the user's decision, and where a response may go."""

import re
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from hypothesis import given, strategies as st
from starlette.types import Message

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox
from gateway_sdk.sandbox._authorization import LOOPBACK, TOKEN_KINDS
from tests.sandbox.conftest import Connect, run_app

CALLBACK = "http://127.0.0.1:53412/callback"
ASKED = {
    "response_type": "token",
    "client_id": SANDBOX_CLIENT_ID,
    "redirect_uri": CALLBACK,
    "state": "xyz",
}
ALLOWED = {**ASKED, "account": "ada@example.com", "token": "hour", "decision": "allow"}
DENIED = {**ASKED, "account": "", "decision": "deny"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
NASTY = """<script>"'&amp; +%20;=#"""
HTML = "<script>alert(1)</script>"


def answer_of(reply: httpx.Response, redirect_uri: str = CALLBACK) -> dict[str, str]:
    """Require a redirect to this URI, and return the parameters in its fragment."""
    assert reply.status_code == 303
    found, _, fragment = reply.headers["Location"].partition("#")
    assert found == redirect_uri
    pairs = parse_qsl(fragment, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


async def webhook(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/kyc/1.0.0/webhook", headers={"Authorization": f"Bearer {token}"})


async def test_allow_gives_a_token(connect: Connect) -> None:
    """The fragment has a token with type, lifetime and state, and the gateway accepts it."""
    async with connect(Sandbox()) as client:
        reply = await client.post(AUTHORIZE_PATH, data=ALLOWED)
        answer = answer_of(reply)
        accepted = await webhook(client, answer.pop("access_token"))

    assert answer == {"token_type": "Bearer", "expires_in": "3600", "state": "xyz"}
    assert accepted.status_code == 202


@pytest.mark.parametrize(
    ("kind", "stated", "at_once", "after_a_minute", "after_a_day"),
    [
        ("hour", "3600", "", "", "expired"),
        ("minute", "60", "", "expired", "expired"),
        ("unstated", None, "", "", ""),
        ("expired", "3600", "expired", "expired", "expired"),
        ("revoked", "3600", "was revoked", "was revoked", "was revoked"),
    ],
)
async def test_token_is_of_the_kind_chosen(
    kind: str, stated: str | None, at_once: str, after_a_minute: str, after_a_day: str
) -> None:
    """The response states the lifetime of the kind, and the gateway applies its real one."""
    now = 0.0
    sandbox = Sandbox(clock=lambda: now)
    found: list[str] = []
    async with httpx.AsyncClient(transport=sandbox.transport(), base_url="http://s") as client:
        answer = answer_of(await client.post(AUTHORIZE_PATH, data={**ALLOWED, "token": kind}))
        for now in (0.0, 60.0, 86400.0):  # noqa: B007 - the clock reads it
            challenge = (await webhook(client, answer["access_token"])).headers.get(
                "WWW-Authenticate", ""
            )
            found += re.findall('The access token (.*)"$', challenge) or [""]

    assert answer.get("expires_in") == stated
    assert found == [at_once, after_a_minute, after_a_day]


@pytest.mark.parametrize("form", [ALLOWED, DENIED])
@pytest.mark.parametrize(
    ("given", "state"), [({}, None), ({"state": ""}, None), ({"state": NASTY}, NASTY)]
)
async def test_state_comes_back_exactly(
    client: httpx.AsyncClient, form: dict[str, str], given: dict[str, str], state: str | None
) -> None:
    """Whatever its characters; a missing one stays missing, and an empty one (RFC 6749, 3.1)."""
    others = {name: form[name] for name in form if name != "state"}
    answer = answer_of(await client.post(AUTHORIZE_PATH, data=others | given))

    assert answer.get("state") == state
    if form is DENIED:
        assert answer["error"] == "access_denied"
        assert answer["error_description"] == "the user denied access"


async def test_scope_is_granted_as_none(client: httpx.AsyncClient) -> None:
    asked = await client.post(AUTHORIZE_PATH, data={**ALLOWED, "scope": "wallet customer"})
    not_asked = await client.post(AUTHORIZE_PATH, data=ALLOWED)

    assert answer_of(asked)["scope"] == ""
    assert "scope" not in answer_of(not_asked)


def asked(more: str = "", **changes: str) -> str:
    """Return a client's request with changes, and with more at its end."""
    return urlencode({**ASKED, **changes}) + more


def without(name: str, fields: dict[str, str] = ALLOWED) -> dict[str, str]:
    return {key: value for key, value in fields.items() if key != name}


def assert_refused(reply: httpx.Response, status: int, words: str) -> None:
    """Require an error page without a redirect, a form or any text of the request."""
    assert reply.status_code == status
    assert "Location" not in reply.headers
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert words in reply.text.partition('id="reason"')[2]
    for hostile in ("<script", "<form", "evil"):
        assert hostile not in reply.text


async def both_ways(client: httpx.AsyncClient, query: str) -> list[httpx.Response]:
    """Ask for the login page, and post the decision to allow it."""
    form = f"{query}&account=ada&token=hour&decision=allow"
    return [
        await client.get(f"{AUTHORIZE_PATH}?{query}"),
        await client.post(AUTHORIZE_PATH, content=form, headers=FORM),
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "The client_id must be gateway-sdk-sandbox"),
        (urlencode(without("client_id", ASKED)), "client_id"),
        (asked(client_id=""), "client_id"),
        (asked(client_id=HTML), "client_id"),
        (asked(client_id=SANDBOX_CLIENT_ID.upper()), "client_id"),
        (asked(f"&client_id={SANDBOX_CLIENT_ID}"), "more than once"),
        (urlencode(without("redirect_uri", ASKED)), "redirect_uri"),
        (asked(redirect_uri=""), "redirect_uri"),
        (asked(redirect_uri="http://evil.example/"), "redirect_uri"),
        (asked(redirect_uri=f"{CALLBACK}?{HTML}"), "redirect_uri"),
        (asked("&redirect_uri=http://evil.example/"), "more than once"),
        *((asked(f"&{name}=a&{name}=b"), "more than once") for name in ("state", "other")),
        (asked("&extra=%FF"), "not UTF-8"),
    ],
)
async def test_no_redirect_to_an_unknown_client(
    client: httpx.AsyncClient, query: str, words: str
) -> None:
    for reply in await both_ways(client, query):
        assert_refused(reply, 400, words)


UNSUPPORTED = "unsupported_response_type"


@pytest.mark.parametrize(
    ("query", "error", "state"),
    [
        (asked(response_type=""), "invalid_request", "xyz"),
        (asked(response_type="code"), UNSUPPORTED, "xyz"),
        (asked(response_type=HTML), UNSUPPORTED, "xyz"),
        (asked(response_type="Token", state=""), UNSUPPORTED, None),
    ],
)
async def test_client_learns_of_its_mistakes(
    client: httpx.AsyncClient, query: str, error: str, state: str | None
) -> None:
    """Other errors are sent in the fragment, with the code of the RFC and the state."""
    for reply in await both_ways(client, query):
        answer = answer_of(reply)
        # RFC 6749, appendix A.8
        assert not set(answer.pop("error_description")) & set('"\\')
        assert answer == {"error": error} | ({} if state is None else {"state": state})


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (without("decision"), "allow or deny"),
        ({**ALLOWED, "decision": HTML}, "allow or deny"),
        (without("account"), "account"),
        ({**ALLOWED, "account": " \t"}, "account"),
        (without("token"), "hour, minute, unstated, expired, revoked"),
        ({**ALLOWED, "token": HTML}, "hour, minute"),
    ],
)
async def test_form_without_a_decision_gives_no_token(
    client: httpx.AsyncClient, form: dict[str, str], words: str
) -> None:
    assert_refused(await client.post(AUTHORIZE_PATH, data=form), 400, words)


async def test_only_a_post_decides(client: httpx.AsyncClient) -> None:
    """A query that has the fields of a decision shows the page; other methods are refused."""
    for method, form in (("GET", ALLOWED), ("HEAD", ALLOWED), ("GET", DENIED)):
        reply = await client.request(method, AUTHORIZE_PATH, params=form)
        assert (reply.status_code, "Location" in reply.headers) == (200, False)
    reply = await client.put(AUTHORIZE_PATH)

    assert reply.status_code == reply.json()["status"] == 405
    assert set(reply.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}


async def reply_to(parameters: bytes, method: str) -> Message:
    """Send parameters as a query and as a form, and return the start of the reply."""
    scope = {
        "type": "http",
        "method": method,
        "path": AUTHORIZE_PATH,
        "query_string": parameters,
        "headers": [],
    }
    body = {"type": "http.request", "body": parameters, "more_body": False}
    return (await run_app(Sandbox(), scope, body))[0]


@given(st.binary(max_size=200))
async def test_no_query_is_a_failure(query: bytes) -> None:
    statuses = [(await reply_to(query, method))["status"] for method in ("GET", "POST")]

    assert statuses == [400, 400]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*ASKED, "scope", "other"]),
            st.sampled_from([*ASKED.values(), "", "code", "http://evil.example/", HTML, "\n"]),
        ),
        max_size=8,
    )
)
async def test_responses_go_to_allowed_uris_only(pairs: list[tuple[str, str]]) -> None:
    reply = await reply_to(urlencode(pairs).encode(), "GET")

    locations = [value for name, value in reply["headers"] if name == b"location"]
    assert {place.partition(b"#")[0].decode() for place in locations} <= {CALLBACK}


async def test_browser_that_disconnects_in_a_form_is_no_failure(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    scope = {"type": "http", "method": "POST", "path": AUTHORIZE_PATH, "headers": []}

    sent = await run_app(sandbox, scope, {"type": "http.disconnect"})

    assert sent[0]["status"] == 400
    assert caplog.messages == []


async def test_page_has_the_fields_that_others_rely_on(client: httpx.AsyncClient) -> None:
    reply = await client.get(AUTHORIZE_PATH, params=ASKED)
    page = reply.text

    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert f"<strong>{SANDBOX_CLIENT_ID}</strong>" in page
    assert '<dd id="gateway">sandbox</dd>' in page
    assert '<dd id="destination">127.0.0.1:53412</dd>' in page
    assert '<form id="login" method="post" action="/authorize">' in page
    assert '<input id="account" name="account" value="ada@example.com"' in page
    assert re.findall(r'name="token" id="token-(\w+)" value="\1"', page) == list(TOKEN_KINDS)
    assert re.findall(r'id="token-(\w+)" value="\w+" checked', page) == ["hour"]
    assert re.findall(r'<button id="(\w+)" name="decision" value="\1"', page) == ["allow", "deny"]
    for name, value in {**ASKED, "scope": ""}.items():
        assert f'<input type="hidden" name="{name}" value="{value}">' in page


@pytest.mark.parametrize(
    ("redirect_uri", "destination"),
    [
        ("http://localhost/cb", "localhost"),
        ("http://[::1]:8080/cb", "[::1]:8080"),
        ("https://app.example/cb", "app.example"),
        ("com.example.app:/cb", "com.example.app:"),
    ],
)
async def test_page_names_where_the_token_goes(redirect_uri: str, destination: str) -> None:
    registered = ["https://app.example/cb", "com.example.app:/cb"]
    transport = Sandbox(redirect_uris=registered).transport()
    async with httpx.AsyncClient(transport=transport, base_url="http://s") as client:
        page = await client.get(AUTHORIZE_PATH, params={**ASKED, "redirect_uri": redirect_uri})
        denied = await client.post(AUTHORIZE_PATH, data={**DENIED, "redirect_uri": redirect_uri})

    assert f'<dd id="destination">{destination}</dd>' in page.text
    assert answer_of(denied, redirect_uri)["error"] == "access_denied"


async def test_page_escapes_what_it_was_given(client: httpx.AsyncClient) -> None:
    given = {**ASKED, "state": NASTY, "scope": NASTY, "redirect_uri": f"{CALLBACK}?a='&b=c"}

    page = await client.get(AUTHORIZE_PATH, params=given, headers={"Host": NASTY})

    assert "<script" not in page.text
    assert page.text.count(escape(NASTY)) == 3
    assert escape(given["redirect_uri"]) in page.text


async def test_nothing_is_loaded_stored_or_passed_on(client: httpx.AsyncClient) -> None:
    """No page has a script or loads anything, which the policy says too."""
    replies = [
        await client.get(AUTHORIZE_PATH, params=ASKED),
        await client.get(AUTHORIZE_PATH),
        await client.post(AUTHORIZE_PATH, data=ALLOWED),
        await client.post(AUTHORIZE_PATH, data=DENIED),
    ]

    for reply in replies:
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"<script|<link|<img| src=| href=| style=|url\(|@import", reply.text)


HERE = {"127.0.0.1", "::1", "localhost"}


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1",
        "http://127.0.0.1/",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/a/b/c?d=e&f=%20",
        "http://127.0.0.1?d=e",
        "http://[::1]:8080/callback",
        "http://localhost:8080/callback;v=1",
    ],
)
def test_this_machine_is_allowed(uri: str) -> None:
    """Responses may go to this machine, with any port and path (RFC 8252, 7.3)."""
    assert LOOPBACK.fullmatch(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://127.0.0.1/callback",
        "http://evil.example/callback",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1:1@evil.example/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1\\@evil.example/",
        "http://127.0.0.1:8080/a#b",
        "http://127.0.0.1:8080/a\r\nSet-Cookie: a=b",
        'http://127.0.0.1:8080/"><script>alert(1)</script>',
        "http://127.0.0.1:8080/\u00e4",
        "http://127.0.0.1:\u0661/",
        "http://127.0.0.1:/",
        "javascript://127.0.0.1/%0aalert(1)",
    ],
)
def test_other_uris_are_not_allowed(uri: str) -> None:
    assert not LOOPBACK.fullmatch(uri)


@given(
    st.from_regex(re.compile(r"http://[^\n]{0,3}(127\.0\.0\.1|localhost)[^\n]*"), fullmatch=True)
)
def test_what_is_allowed_is_this_machine(uri: str) -> None:
    """In every allowed URI, a parser finds one of the three hosts and no userinfo."""
    if LOOPBACK.fullmatch(uri):
        assert urlsplit(uri).hostname in HERE
        assert "@" not in urlsplit(uri).netloc


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("https://app.example/callback", 200),
        ("com.example.app:/callback", 200),
        ("https://app.example/callback/", 400),
        ("https://app.example/callback?a=b", 400),
        ("HTTPS://app.example/callback", 400),
    ],
)
async def test_registered_uri_is_allowed_exactly(uri: str, status: int) -> None:
    registered = ["https://app.example/callback", "com.example.app:/callback"]
    transport = Sandbox(redirect_uris=registered).transport()
    async with httpx.AsyncClient(transport=transport, base_url="http://s") as client:
        reply = await client.get(AUTHORIZE_PATH, params={**ASKED, "redirect_uri": uri})

    assert reply.status_code == status


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "app.example/callback",
        "https://app.example/callback#",
        "https://app.example/a\nb",
        "http://[::1/callback",
    ],
)
def test_invalid_redirect_uri_is_not_registered(uri: str) -> None:
    with pytest.raises(ValueError, match=r"not a redirect URI|Invalid IPv6 URL"):
        Sandbox(redirect_uris=[uri])
