from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID
from gateway_sdk.sandbox._authorization import FORM, MAX_FORM, MAX_QUERY
from tests.sandbox.logins import ALLOWED, ASKED, CALLBACK, HTML


def without(name: str) -> dict[str, str]:
    """Return the valid form without one of its fields."""
    return {key: value for key, value in ALLOWED.items() if key != name}


def assert_refused(reply: httpx.Response, status: int, words: str) -> None:
    """Require an error page without a redirect, a form or any text of the request."""
    assert reply.status_code == status
    assert "Location" not in reply.headers
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "form-action 'none'; frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
    assert words in reply.text.partition('id="reason"')[2]
    for hostile in ("<script", "<form", "evil"):
        assert hostile not in reply.text


async def both_ways(client: httpx.AsyncClient, query: str) -> list[httpx.Response]:
    """Ask for the login page, and post the decision to allow it."""
    form = f"{query}&account=ada&token=hour&decision=allow"
    return [
        await client.get(f"{AUTHORIZE_PATH}?{query}"),
        await client.post(AUTHORIZE_PATH, content=form, headers={"Content-Type": FORM}),
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "The client_id must be gateway-sdk-sandbox"),
        (urlencode(without("client_id")), "client_id"),
        (urlencode({**ASKED, "client_id": ""}), "client_id"),
        (urlencode({**ASKED, "client_id": HTML}), "client_id"),
        (urlencode({**ASKED, "client_id": SANDBOX_CLIENT_ID.upper()}), "client_id"),
        (urlencode(ASKED) + f"&client_id={SANDBOX_CLIENT_ID}", "client_id"),
        (urlencode(without("redirect_uri")), "redirect_uri"),
        (urlencode({**ASKED, "redirect_uri": ""}), "redirect_uri"),
        (urlencode({**ASKED, "redirect_uri": "http://evil.example/"}), "redirect_uri"),
        (urlencode({**ASKED, "redirect_uri": f"{CALLBACK}?{HTML}"}), "redirect_uri"),
        (urlencode(ASKED) + "&redirect_uri=http://evil.example/", "redirect_uri"),
        (urlencode(ASKED) + "&scope=%FF", "cannot be read"),
        (urlencode(ASKED) + "&a=b" * 40, "cannot be read"),
    ],
)
async def test_no_redirect_to_an_unknown_client(
    client: httpx.AsyncClient, query: str, words: str
) -> None:
    """If client or redirect URI are invalid, the user gets the error, for GET and POST."""
    for reply in await both_ways(client, query):
        assert_refused(reply, 400, words)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            urlencode({**ASKED, "response_type": ""}),
            {"error": "invalid_request", "state": "xyz"},
        ),
        (
            urlencode({**ASKED, "response_type": "code"}),
            {"error": "unsupported_response_type", "state": "xyz"},
        ),
        (
            urlencode({**ASKED, "response_type": HTML}),
            {"error": "unsupported_response_type", "state": "xyz"},
        ),
        (
            urlencode({**ASKED, "response_type": "Token", "state": ""}),
            {"error": "unsupported_response_type"},
        ),
        (urlencode(ASKED) + "&response_type=token", {"error": "invalid_request", "state": "xyz"}),
        (urlencode(ASKED) + "&scope=a&scope=a", {"error": "invalid_request", "state": "xyz"}),
        (urlencode(ASKED) + "&other=a&other=b", {"error": "invalid_request", "state": "xyz"}),
        (urlencode(ASKED) + "&state=abc", {"error": "invalid_request"}),
        (urlencode({**ASKED, "state": "a\nb"}), {"error": "invalid_request", "state": "a\nb"}),
        (urlencode({**ASKED, "state": "ä"}), {"error": "invalid_request", "state": "ä"}),
    ],
)
async def test_client_learns_of_its_mistakes(
    client: httpx.AsyncClient, query: str, expected: dict[str, str]
) -> None:
    """Other errors are sent in the fragment, with the code of the RFC and the state."""
    for reply in await both_ways(client, query):
        assert reply.status_code == 303
        redirect_uri, _, fragment = reply.headers["Location"].partition("#")
        answer = dict(parse_qsl(fragment))
        assert redirect_uri == CALLBACK
        # RFC 6749, appendix A.8
        assert not set(answer.pop("error_description")) & set('"\\')
        assert answer == expected


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
    """A form that the page cannot send is an error for the user, not for the client."""
    assert_refused(await client.post(AUTHORIZE_PATH, data=form), 400, words)


async def test_decision_has_to_be_a_form(client: httpx.AsyncClient) -> None:
    """A decision in JSON is refused; a form with a charset is accepted."""
    json = await client.post(AUTHORIZE_PATH, json=ALLOWED)
    form = await client.post(
        AUTHORIZE_PATH,
        content=urlencode(ALLOWED),
        headers={"Content-Type": f"{FORM.upper()}; charset=utf-8"},
    )

    assert_refused(json, 415, FORM)
    assert form.status_code == 303


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 303), ("none", 303), ("same-site", 403), ("cross-site", 403)],
)
async def test_other_sites_cannot_decide(client: httpx.AsyncClient, site: str, status: int) -> None:
    """A form that comes from another site's page is refused."""
    reply = await client.post(AUTHORIZE_PATH, data=ALLOWED, headers={"Sec-Fetch-Site": site})

    assert reply.status_code == status


async def test_requests_are_bounded(client: httpx.AsyncClient) -> None:
    """A query or a form beyond its limit is refused, and a form is not read to its end."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"a" * MAX_QUERY

    long = await client.get(AUTHORIZE_PATH, params={**ASKED, "scope": "a" * MAX_QUERY})
    endless_form = await client.post(
        AUTHORIZE_PATH, content=endless(), headers={"Content-Type": FORM}
    )

    assert_refused(long, 414, f"longer than {MAX_QUERY} bytes")
    assert_refused(endless_form, 413, f"longer than {MAX_FORM} bytes")
    assert sent <= MAX_FORM // MAX_QUERY + 2


async def test_form_that_is_not_utf8_is_refused(client: httpx.AsyncClient) -> None:
    """Bytes that are not UTF-8 are refused."""
    reply = await client.post(AUTHORIZE_PATH, content=b"\xff", headers={"Content-Type": FORM})

    assert_refused(reply, 400, "not UTF-8")


async def test_other_methods_are_not_allowed(client: httpx.AsyncClient) -> None:
    """Another method is refused with the list of allowed ones, as everywhere in the sandbox."""
    reply = await client.put(AUTHORIZE_PATH)

    assert reply.status_code == reply.json()["status"] == 405
    assert set(reply.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}
