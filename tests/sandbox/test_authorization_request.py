from urllib.parse import urlencode

import pytest
from hypothesis import given, strategies as st
from starlette.types import Message

from gateway_sdk.sandbox import AUTHORIZE_PATH, Sandbox
from gateway_sdk.sandbox._authorization import FORM
from tests.sandbox.conftest import run_app
from tests.sandbox.logins import ASKED, CALLBACK, HTML


async def reply_to(parameters: bytes, method: str) -> Message:
    """Send parameters as a query and as a form, and return the start of the reply."""
    scope = {
        "type": "http",
        "method": method,
        "path": AUTHORIZE_PATH,
        "query_string": parameters,
        "headers": [(b"content-type", FORM.encode())],
    }
    body = {"type": "http.request", "body": parameters, "more_body": False}
    return (await run_app(Sandbox(), scope, body))[0]


@given(st.binary(max_size=200))
async def test_no_query_is_a_failure(query: bytes) -> None:
    """For any bytes of a query or a form, the reply is a defined one."""
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
    """For any combination of parameters, only an allowed redirect URI gets a response."""
    reply = await reply_to(urlencode(pairs).encode(), "GET")

    locations = [value for name, value in reply["headers"] if name == b"location"]
    assert {place.partition(b"#")[0].decode() for place in locations} <= {CALLBACK}


async def test_browser_that_disconnects_in_a_form_is_no_failure(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """A form that breaks off decides nothing and is not a failure of the sandbox."""
    headers = [(b"content-type", FORM.encode())]
    scope = {"type": "http", "method": "POST", "path": AUTHORIZE_PATH, "headers": headers}

    sent = await run_app(sandbox, scope, {"type": "http.disconnect"})

    assert sent[0]["status"] == 400
    assert caplog.messages == []
