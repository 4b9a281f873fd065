import re

import httpx
import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, ReceivedCall, Sandbox
from gateway_sdk.sandbox._interface import OPERATIONS, OperationRoute

CREATE = "/customer/1.0.0/create"
JSON = {"Content-Type": "application/json"}
UNKNOWN = 'Bearer error="invalid_token", error_description="The access token is unknown"'


def assert_payload(reply: httpx.Response, status: int, reason: str, path: str, method: str) -> None:
    """Require an ErrorPayload with all its fields and no others."""
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
    """Without a valid bearer token each operation refuses, with the challenge of RFC 6750."""
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(
        transport=sandbox.transport(), base_url="http://sandbox"
    ) as client:
        reply = await client.request(operation.method, operation.path, headers=headers)

    assert reply.headers["WWW-Authenticate"] == challenge
    path = httpx.URL(operation.path).path
    assert_payload(reply, 401, "Unauthorized", path, operation.method)


async def test_scheme_is_case_insensitive(client: httpx.AsyncClient) -> None:
    """The scheme may have any case (RFC 9110, 11.1)."""
    client.headers["Authorization"] = f"bEARER {SANDBOX_ACCESS_TOKEN}"

    reply = await client.post("/kyc/1.0.0/webhook")

    assert reply.status_code == 202


@pytest.mark.parametrize("path", ["/", "/customer/1.0.0/create/", "/customer/2.0.0/create"])
async def test_unknown_path_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    """A path that the interface does not have gets 404, also if only a slash differs."""
    reply = await client.post(path)

    assert_payload(reply, 404, "Not Found", path, "POST")


async def test_other_method_is_not_allowed(client: httpx.AsyncClient) -> None:
    """A known path with another method gets 405 with the allowed method."""
    reply = await client.get(CREATE)

    assert_payload(reply, 405, "Method Not Allowed", CREATE, "GET")
    assert reply.headers["Allow"] == "POST"


async def test_head_is_no_operation(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    """HEAD gets 405, also where the interface has GET, and no operation is received."""
    reply = await client.head("/wallet/1.0.0/spot-trading/available-balance")

    assert (reply.status_code, reply.headers["Allow"]) == (405, "GET")
    assert [request.method for request in sandbox.unknown_requests] == ["HEAD"]
    assert not sandbox.received


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"person": NaN}',
        b'{"sharePercentage": 1e999}',
        b'{"sharePercentage": ' + b"1" * 5000 + b"}",
        b'{"customerName": "\\ud800"}',
        b"[" * 100_000,
        b'{"customerName": "\xff"}',
        '{"customerName": "Ada"}'.encode("utf-16"),
    ],
    ids=lambda body: repr(body[:40]),
)
async def test_body_that_is_not_json_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    """Text that is not JSON, or that could not be sent back, gets 400 and is not a failure."""
    reply = await client.post(CREATE, content=body, headers=JSON)

    assert_payload(reply, 400, "Bad Request", CREATE, "POST")


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
async def test_json_must_be_declared(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """A JSON body of another Content-Type, or of none, is refused."""
    reply = await client.post(CREATE, content=b"{}", headers=headers)

    assert_payload(reply, 415, "Unsupported Media Type", CREATE, "POST")


async def test_json_may_declare_its_charset(client: httpx.AsyncClient) -> None:
    """A parameter after the media type is ignored."""
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}

    reply = await client.post(CREATE, content=b"{}", headers=headers)

    assert reply.status_code == 200


async def test_json_has_a_size_limit(client: httpx.AsyncClient) -> None:
    """A JSON body of 1 MiB is read, and one byte more is too large."""
    body = b'{"customerName": "' + b"a" * (1024 * 1024 - 20) + b'"}'

    largest = await client.post(CREATE, content=body, headers=JSON)
    too_large = await client.post(CREATE, content=body + b" ", headers=JSON)

    assert largest.status_code == 200
    assert too_large.status_code == too_large.json()["status"] == 413


async def test_failure_of_the_sandbox_is_an_error_payload(
    sandbox: Sandbox, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception gets 500, and its message is not sent."""
    monkeypatch.setattr(sandbox._state, "tenants", {})

    reply = await client.post("/kyc/1.0.0/webhook")

    assert_payload(reply, 500, "Internal Server Error", "/kyc/1.0.0/webhook", "POST")
    assert "acme" not in reply.text


async def test_received_calls_are_noted(sandbox: Sandbox, client: httpx.AsyncClient) -> None:
    """Each call of an operation is recorded with its status, and no id of its path."""
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


async def test_sandboxes_share_no_data(client: httpx.AsyncClient) -> None:
    """Two sandboxes do not share data."""
    await client.post(CREATE, json={})

    assert list(Sandbox().received) == []
