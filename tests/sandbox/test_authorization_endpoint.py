import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from gateway_sdk.sandbox import AUTHORIZE_PATH, Sandbox
from gateway_sdk.sandbox._authorization import MAX_QUERY
from tests.sandbox.logins import ALLOWED, ASKED, DENIED, NASTY, answer_of

Connect = Callable[[Sandbox], AbstractAsyncContextManager[httpx.AsyncClient]]


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


async def test_every_token_is_another(client: httpx.AsyncClient) -> None:
    """Two logins never get the same token; each has 256 bits and needs no encoding."""
    tokens = {
        answer_of(await client.post(AUTHORIZE_PATH, data=ALLOWED))["access_token"]
        for _ in range(50)
    }

    assert len(tokens) == 50
    assert all(re.fullmatch(r"[\w-]{43}", token, re.ASCII) for token in tokens)


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


async def test_deny_says_so(connect: Connect) -> None:
    """A user who refuses needs no account, and the client gets the error in the fragment."""
    async with connect(Sandbox()) as client:
        answer = answer_of(await client.post(AUTHORIZE_PATH, data=DENIED))

    assert answer == {
        "error": "access_denied",
        "error_description": "the user denied access",
        "state": "xyz",
    }


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


async def test_scope_is_granted_as_none(client: httpx.AsyncClient) -> None:
    """A client that requests a scope learns that it was granted none; others get no scope."""
    asked = await client.post(AUTHORIZE_PATH, data={**ALLOWED, "scope": "wallet customer"})
    not_asked = await client.post(AUTHORIZE_PATH, data=ALLOWED)

    assert answer_of(asked)["scope"] == ""
    assert "scope" not in answer_of(not_asked)


async def test_logins_are_not_recorded_as_calls(
    sandbox: Sandbox, client: httpx.AsyncClient
) -> None:
    """The authorization server is not one of the twelve operations, so nothing is recorded."""
    await client.get(AUTHORIZE_PATH, params=ASKED)
    await client.post(AUTHORIZE_PATH, data=ALLOWED)

    assert list(sandbox.received) == []


async def test_longest_request_fits_into_its_form(client: httpx.AsyncClient) -> None:
    """The form of the longest accepted request is accepted too, though it is longer."""
    query = "&".join(f"{name}={value}" for name, value in {**ASKED, "state": ""}.items())
    room = MAX_QUERY - len(query)

    page = await client.get(
        f"{AUTHORIZE_PATH}?{query.replace('state=', 'state=' + chr(39) * room)}"
    )
    reply = await client.post(AUTHORIZE_PATH, data={**ALLOWED, "state": "'" * room})

    assert page.status_code == 200
    assert answer_of(reply)["state"] == "'" * room
