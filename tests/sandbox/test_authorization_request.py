import logging
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given, strategies as st
from starlette.exceptions import HTTPException
from starlette.types import Message

from gateway_sdk.sandbox import AUTHORIZE_PATH, Sandbox
from gateway_sdk.sandbox._authorization import (
    FORM,
    AuthorizationError,
    RedirectUris,
    parse_parameters,
    read_request,
)
from tests.sandbox.logins import ALLOWED, ASKED, CALLBACK, HTML, answer_of


async def status_of(parameters: bytes, method: str) -> int:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": parameters, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": AUTHORIZE_PATH,
        "query_string": parameters,
        "headers": [(b"content-type", FORM.encode())],
    }
    await Sandbox().app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


def destination(pairs: list[tuple[str, str]]) -> str | None:
    """Return the redirect URI of the response; None if the user gets the error."""
    try:
        return read_request(parse_parameters(urlencode(pairs)), RedirectUris()).target.redirect_uri
    except AuthorizationError as error:
        return error.location.partition("#")[0]
    except HTTPException:
        return None


@given(st.binary(max_size=200))
async def test_no_query_is_a_failure(query: bytes) -> None:
    """For any bytes of a query or a form, the reply is a defined one."""
    statuses = [await status_of(query, method) for method in ("GET", "POST")]

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
def test_responses_go_to_allowed_uris_only(pairs: list[tuple[str, str]]) -> None:
    """For any combination of parameters, only an allowed redirect URI gets a response."""
    assert destination(pairs) in {None, CALLBACK}


async def test_browser_that_disconnects_in_a_form_is_no_failure(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """A form that breaks off decides nothing and is not a failure of the sandbox."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", FORM.encode())]
    scope = {"type": "http", "method": "POST", "path": AUTHORIZE_PATH, "headers": headers}
    await sandbox.app(scope, receive, send)

    assert sent[0]["status"] == 400
    assert caplog.messages == []


async def test_token_is_in_no_log(
    sandbox: Sandbox, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """With every logger at DEBUG, neither the login nor a call logs the token."""
    caplog.set_level(logging.DEBUG)

    reply = await client.post(AUTHORIZE_PATH, data=ALLOWED)
    token = answer_of(reply)["access_token"]
    await client.post("/kyc/1.0.0/webhook", headers={"Authorization": f"Bearer {token}"})
    sandbox.revoke(token)
    await client.post("/kyc/1.0.0/webhook", headers={"Authorization": f"Bearer {token}"})

    assert token not in caplog.text
