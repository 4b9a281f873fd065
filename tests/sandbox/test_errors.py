import re

import httpx
import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, ReceivedCall, Sandbox
from gateway_sdk.sandbox._operations import OPERATIONS, OperationRoute

CREATE = "/customer/1.0.0/create"
JSON = {"Content-Type": "application/json"}
UNKNOWN = 'Bearer error="invalid_token", error_description="The access token is unknown"'


def assert_payload(reply: httpx.Response, status: int, reason: str, path: str, method: str) -> None:
    payload = reply.json()
    assert reply.status_code == status
    assert reply.headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", payload.pop("timestamp"))
    assert payload.pop("message")
    assert payload == {"reason": reason, "path": path, "method": method, "status": status}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("authorization", "challenge"),
    [
        (None, "Bearer"),
        ("Basic YTpi", "Bearer"),
        ("Bearer", UNKNOWN),
        ("Bearer another", UNKNOWN),
        (f"Bearer {SANDBOX_ACCESS_TOKEN}x", UNKNOWN),
    ],
)
async def test_every_operation_requires_the_token(
    sandbox: Sandbox, operation: OperationRoute, authorization: str | None, challenge: str
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(
        transport=sandbox.transport(), base_url="http://sandbox"
    ) as client:
        reply = await client.request(operation.method, operation.path, headers=headers)

    assert reply.headers["WWW-Authenticate"] == challenge
    path = httpx.URL(operation.path).path
    assert_payload(reply, 401, "Unauthorized", path, operation.method)


BAD, MEDIA = (400, "Bad Request"), (415, "Unsupported Media Type")
REFUSED: list[tuple[str, str, bytes, dict[str, str], tuple[int, str]]] = [
    # A path that the interface does not have, also if only a slash differs.
    *(
        ("POST", path, b"", JSON, (404, "Not Found"))
        for path in ("/", f"{CREATE}/", "/customer/2.0.0/create")
    ),
    ("GET", CREATE, b"", {}, (405, "Method Not Allowed")),
    # A JSON body of another media type, or of none.
    ("POST", CREATE, b"{}", {}, MEDIA),
    ("POST", CREATE, b"{}", {"Content-Type": "text/plain"}, MEDIA),
    # Text that is not JSON, or that could not be sent back.
    *(
        ("POST", CREATE, body, JSON, BAD)
        for body in (
            b"",
            b"{",
            b"\xef\xbb\xbf{}",
            b'{"person": NaN}',
            b'{"person": {"documents": [{"verificationResponse": NaN}]}}',
            b'{"sharePercentage": 1e999}',
            b'{"sharePercentage": ' + b"1" * 5000 + b"}",
            b'{"customerName": "\\ud800"}',
            b"[" * 100_000,
            b'{"customerName": "\xff"}',
            '{"customerName": "Ada"}'.encode("utf-16"),
        )
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "error"), REFUSED, ids=lambda value: repr(value)[:40]
)
async def test_request_of_another_form_is_refused(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
    error: tuple[int, str],
) -> None:
    reply = await client.request(method, path, content=body, headers=headers)

    assert_payload(reply, *error, path, method)
    assert reply.headers.get("Allow") == ("POST" if error[0] == 405 else None)


async def test_media_type_and_scheme_have_any_case(client: httpx.AsyncClient) -> None:
    """And parameters (RFC 9110, 11.1)."""
    headers = {
        "Content-Type": "Application/JSON; charset=utf-8",
        "Authorization": f"bEARER {SANDBOX_ACCESS_TOKEN}",
    }

    reply = await client.post(CREATE, content=b"{}", headers=headers)

    assert reply.status_code == 200


async def test_head_is_no_operation(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    reply = await client.head("/wallet/1.0.0/spot-trading/available-balance")

    assert (reply.status_code, reply.headers["Allow"]) == (405, "GET")
    assert [request.method for request in sandbox.unknown_requests] == ["HEAD"]
    assert not sandbox.received


async def test_failure_of_the_sandbox_is_an_error_payload(
    sandbox: Sandbox, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_tenants", {})

    reply = await client.post("/kyc/1.0.0/webhook")

    assert_payload(reply, 500, "Internal Server Error", "/kyc/1.0.0/webhook", "POST")
    assert "acme" not in reply.text


async def test_received_calls_are_noted(sandbox: Sandbox, client: httpx.AsyncClient) -> None:
    await client.post(CREATE, json={})
    await client.get("/wallet/1.0.0/customer-9999/trading-order-history")
    await client.get("/nowhere")

    assert list(sandbox.received) == [
        ReceivedCall("create_customer", "POST", CREATE, status=200, applied=True),
        ReceivedCall(
            "trading_order_history",
            "GET",
            "/wallet/1.0.0/{customerId}/trading-order-history",
            status=404,
        ),
    ]


@pytest.mark.parametrize(
    ("token", "changes", "complaint"),
    [
        ("first", "wait=1e12", None),
        ("first", "revoke_all", "was revoked"),
        ("token", "", "is unknown"),
        ("token", "issue", None),
        ("token", "revoke", "was revoked"),  # also one that was never issued
        ("token", "issue revoke", "was revoked"),
        ("token", "issue revoke issue", None),
        ("token", "issue revoke_all", "was revoked"),
        ("token", "revoke_all issue", None),
        ("token", "issue=60 wait=59.9", None),
        ("token", "issue=60 wait=60", "expired"),
        ("token", "issue=0", "expired"),
        ("token", "issue=-1", "expired"),
        ("token", "issue=60 wait=60 revoke", "was revoked"),
    ],
)
async def test_a_token_is_good_from_its_issue_to_its_end(
    token: str, changes: str, complaint: str | None
) -> None:
    """The refusal has the challenge of RFC 6750, section 3, and says what is wrong."""
    now = 1_000_000.0
    sandbox = Sandbox("first", clock=lambda: now)
    for change in changes.split():
        match change.split("="):
            case ["wait", seconds]:
                now += float(seconds)
            case ["issue", *lifetime]:
                sandbox.issue("token", *map(float, lifetime))
            case ["revoke"]:
                sandbox.revoke("token")
            case _:
                sandbox.revoke_all()

    async with httpx.AsyncClient(transport=sandbox.transport(), base_url="http://s") as client:
        reply = await client.post(
            "/kyc/1.0.0/webhook", headers={"Authorization": f"Bearer {token}"}
        )

    if complaint is None:
        assert reply.status_code == 202
    else:
        assert reply.status_code == 401
        assert reply.json()["message"] == f"the access token {complaint}"
        assert reply.headers["WWW-Authenticate"] == (
            f'Bearer error="invalid_token", error_description="The access token {complaint}"'
        )
