"""The exact request of each operation, as it reaches the transport."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from datetime import date
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from gateway_sdk import (
    GatewaySession,
    GatewayTransport,
    InvalidArgumentError,
    Multipart,
    operations,
)
from gateway_sdk._version import __version__
from gateway_sdk.models import Country, CreateRequest, PersonData, Revision
from gateway_sdk.operations import OPERATIONS, Content
from tests import interface_table
from tests.interface_table import FILLED, FILLED_JSON, Row
from tests.support.calls import CALLS, IDS
from tests.support.raw_server import OK, raw_server, read_request
from tests.support.recorder import Recorder

JSON = "application/json"
COMMON = {
    "host": "gateway.test",
    "accept": "application/json, */*;q=0.1",
    "accept-encoding": "gzip",
    "user-agent": f"gateway-sdk/{__version__}",
    "authorization": "Bearer token-1",
}
ON_THE_WIRE = (
    "Host",
    "Accept",
    "Accept-Encoding",
    "User-Agent",
    "tenantId",
    "token",
    "Authorization",
    "Content-Type",
    "Content-Length",
)
"""Names as they are written, in their order."""
TENANT = {"tenantid": "acme"}
BOTH = {"tenantid": "acme", "token": "header-token"}


class Sent(NamedTuple):
    """A call and the one request that it has to make; *headers* without the common ones."""

    call: Callable[[GatewaySession], Awaitable[Any]]
    method: str
    raw_path: str
    headers: Mapping[str, str]
    body: bytes


EXACT: dict[str, Sent] = {
    "create_customer": Sent(
        lambda gateway: gateway.customer.create_customer(CreateRequest.model_validate(FILLED)),
        "POST",
        "/base/customer/1.0.0/create",
        {**TENANT, "content-type": JSON, "content-length": str(len(FILLED_JSON))},
        FILLED_JSON,
    ),
    "revise_customer": Sent(
        lambda gateway: gateway.customer.revise_customer("c/1 é?", {"email": "ä@b.c", "n": ""}),
        "POST",
        "/base/customer/1.0.0/update/c%2F1%20%C3%A9%3F/revisions",
        {**BOTH, "content-type": JSON, "content-length": "71"},
        '{"revisions":[{"key":"email","value":"ä@b.c"},{"key":"n","value":""}]}'.encode(),
    ),
    "exchange_rate_series": Sent(
        lambda gateway: gateway.currency.exchange_rate_series(
            "EUR", ["USD", "GBP"], date(2026, 1, 1), "30.10.2026"
        ),
        "POST",
        "/base/currency/1.0.0/exchangeRateSeries",
        {"content-type": JSON, "content-length": "82"},
        b'{"base":"EUR","symbols":"USD,GBP","startDate":"2026-01-01","endDate":"30.10.2026"}',
    ),
    "order_history": Sent(
        lambda gateway: gateway.wallet.order_history(0, -1),
        "POST",
        "/base/wallet/1.0.0/orders",
        {**BOTH, "content-type": JSON, "content-length": "20"},
        b'{"page":0,"take":-1}',
    ),
    "trading_order_history": Sent(
        lambda gateway: gateway.wallet.trading_order_history("/%2e.a%2525//"),
        "GET",
        "/base/wallet/1.0.0/%2F%252e.a%252525%2F%2F/trading-order-history",
        BOTH,
        b"",
    ),
    "cancel_order": Sent(
        lambda gateway: gateway.wallet.cancel_order("w#1", "o\\1"),
        "DELETE",
        "/base/wallet/1.0.0/w%231/orders/o%5C1",
        BOTH,
        b"",
    ),
    "change_document_status": Sent(
        lambda gateway: gateway.aml.change_document_status("d+1", "geprüft"),
        "PUT",
        "/base/aml/1.0.0/document/d%2B1/status",
        {**BOTH, "content-type": "text/plain; charset=utf-8", "content-length": "8"},
        "geprüft".encode(),
    ),
    "update_document": Sent(
        lambda gateway: gateway.aml.update_document("d:1@2", b"\x00\xff", "image/png"),
        "PUT",
        "/base/aml/1.0.0/document/update/d%3A1%402",
        {**BOTH, "content-type": "image/png", "content-length": "2"},
        b"\x00\xff",
    ),
    "upload_document": Sent(
        lambda gateway: gateway.aml.upload_document(b""),
        "POST",
        "/base/aml/1.0.0/document/upload",
        {**BOTH, "content-type": "application/octet-stream", "content-length": "0"},
        b"",
    ),
    "send_webhook": Sent(
        lambda gateway: gateway.kyc.send_webhook(),
        "POST",
        "/base/kyc/1.0.0/webhook",
        {"content-length": "0"},
        b"",
    ),
}
for _row in interface_table.OPERATIONS:
    if _row.content_type is None and _row.name not in EXACT:  # without a body there is one way
        _fields = {} if _row.method == "GET" else {"content-length": "0"}
        _fields |= {"tenantid": "acme"} if _row.tenant_id != "never" else {}
        _fields |= {"token": "header-token"} if _row.token != "never" else {}
        _path = "/base/" + _row.path.lstrip("/").format_map(IDS)
        EXACT[_row.name] = Sent(CALLS[_row.name], _row.method, _path, _fields, b"")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("in_a_client", [False, True])
async def test_exact_bytes_on_a_socket(
    operation: operations.Operation[Any], in_a_client: bool
) -> None:
    """Nothing adds a header, our transport in the user's client neither."""
    wanted = EXACT[operation.name]
    client = httpx.AsyncClient(transport=GatewayTransport()) if in_a_client else None
    received, ended = [], asyncio.Event()

    async def handler(reader: Any, writer: Any) -> None:
        received.append(await read_request(reader))
        writer.write(OK.replace(b"{}", b"[]"))
        received.append(await reader.read())
        ended.set()

    async with raw_server(handler) as base_url:
        async with (
            client or nullcontext(),
            GatewaySession(
                base_url + "/base",
                access_token="token-1",
                tenant_id="acme",
                token_header="header-token",
                http_client=client,
            ) as gateway,
        ):
            await wanted.call(gateway)
        await ended.wait()
        texts = {**COMMON, "host": base_url.removeprefix("http://"), **wanted.headers}

    lines = [f"{name}: {texts.pop(name.lower())}" for name in ON_THE_WIRE if name.lower() in texts]
    first = f"{wanted.method} {wanted.raw_path} HTTP/1.1"
    assert texts == {}
    assert received == ["\r\n".join([first, *lines, "\r\n"]).encode() + wanted.body, b""]


def test_table_of_operations_is_the_interfaces() -> None:
    assert [(row.name, row.method, row.path) for row in OPERATIONS] == [
        (row.name, row.method, row.path) for row in interface_table.OPERATIONS
    ]
    assert sorted(EXACT) == sorted(CALLS) == sorted(row.name for row in OPERATIONS)
    exported = [
        value for value in vars(operations).values() if isinstance(value, operations.Operation)
    ]
    assert exported == list(OPERATIONS)


@pytest.mark.parametrize(
    ("ours", "row"),
    list(zip(OPERATIONS, interface_table.OPERATIONS, strict=True)),
    ids=lambda row: row.name,
)
def test_operation_is_its_row(ours: operations.Operation[Any], row: Row) -> None:
    assert ours.repeatability is row.repeatability
    if row.number != 11:  # an undocumented body may be given, and none is sent by default
        assert ours.content is {
            None: Content.NONE,
            "application/json": Content.JSON,
            "any": Content.ANY,
        }.get(row.content_type)
    replies: dict[str, Any] = {"open": Any, "202": None, "[Country]": list[Country]}
    assert TypeAdapter(ours.reply).json_schema() == TypeAdapter(replies[row.response]).json_schema()


@pytest.mark.parametrize("row", interface_table.OPERATIONS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("tenant_id", "token"), [(None, None), ("acme", None), (None, "tok"), ("acme", "tok")]
)
async def test_which_headers_go_where(
    row: Row, tenant_id: str | None, token: str | None, recorder: Recorder
) -> None:
    gateway = recorder.session(tenant_id=tenant_id, token_header=token)
    if row.tenant_id == "required" and tenant_id is None:
        with pytest.raises(InvalidArgumentError, match="tenant_id is missing"):
            await EXACT[row.name].call(gateway)
        assert recorder.sent == []
        return

    await EXACT[row.name].call(gateway)

    (request,) = recorder.sent
    assert request.headers.get("tenantId") == (tenant_id if row.tenant_id != "never" else None)
    assert request.headers.get("token") == (token if row.token != "never" else None)
    assert request.headers["authorization"] == "Bearer token-1"
    assert (b"tenantId" in dict(request.headers.raw)) == ("tenantId" in request.headers)


@pytest.mark.parametrize(
    ("base_url", "host", "base_path"),
    [
        ("https://gw.test", "gw.test", ""),
        ("https://gw.test/", "gw.test", ""),
        ("https://gw.test//", "gw.test", ""),
        ("https://gw.test:443/a/b", "gw.test", "/a/b"),
        ("https://gw.test/a%2Fb/%7Ec/", "gw.test", "/a%2Fb/%7Ec"),
        ("https://gw.test/%2E%2E/%c3%a9//b", "gw.test", "/%2E%2E/%c3%a9//b"),
        ("https://gw.test/ä", "gw.test", "/%C3%A4"),
        ("https://[2001:db8::1]:8443", "[2001:db8::1]:8443", ""),
        ("http://127.0.0.1:80", "127.0.0.1", ""),
    ],
)
async def test_operations_lie_below_base_url(
    base_url: str, host: str, base_path: str, recorder: Recorder
) -> None:
    """One slash lies between its path, kept as it is, and the operation; Host is its authority."""
    await recorder.session(base_url).kyc.send_webhook()

    assert recorder.sent[0].url.raw_path == f"{base_path}/kyc/1.0.0/webhook".encode()
    assert recorder.sent[0].headers["host"] == host


class Status(BaseModel):
    new_status: str = Field(serialization_alias="newStatus")
    comment: str = ""


# What may be given as a body of any type, and what goes over the wire for it.
BODIES: list[tuple[Any, str, bytes]] = [
    (b"x", "application/octet-stream", b"x"),
    (bytearray(b"x"), "application/octet-stream", b"x"),
    (memoryview(b"xyz")[::2], "application/octet-stream", b"xz"),
    (b"", "application/octet-stream", b""),
    ("ü", "text/plain; charset=utf-8", b"\xc3\xbc"),
    ("", "text/plain; charset=utf-8", b""),
    ({"a": ["ü", None, 1.5]}, JSON, b'{"a":["\xc3\xbc",null,1.5]}'),
    ([], JSON, b"[]"),
    ({}, JSON, b"{}"),
    (MappingProxyType({"a": 1}), JSON, b'{"a":1}'),
    (PersonData(email=None), JSON, b'{"email":null}'),
    (Status(new_status="ok"), JSON, b'{"newStatus":"ok","comment":""}'),  # as pydantic writes it
]


@pytest.mark.parametrize(("content", "content_type", "body"), BODIES)
@pytest.mark.parametrize(
    "name", ["change_document_status", "update_document", "upload_document", "send_webhook"]
)
async def test_bodies_of_any_type(
    name: str, content: Any, content_type: str, body: bytes, recorder: Recorder
) -> None:
    gateway = recorder.session()
    calls: dict[str, Callable[..., Awaitable[Any]]] = {
        "change_document_status": lambda *given: gateway.aml.change_document_status("d", *given),
        "update_document": lambda *given: gateway.aml.update_document("d", *given),
        "upload_document": gateway.aml.upload_document,
        "send_webhook": gateway.kyc.send_webhook,
    }

    types = [content_type, "application/x-own; v=1"]
    if isinstance(content, str) and name in ("update_document", "upload_document"):
        types = types[1:]  # tests/http/uploads/test_paths_as_text.py
    else:
        await calls[name](content)
    await calls[name](content, types[-1])

    assert [request.headers["content-type"] for request in recorder.sent] == types
    for request in recorder.sent:
        assert request.content == body
        assert request.headers["content-length"] == str(len(body))
        assert "transfer-encoding" not in request.headers


@pytest.mark.parametrize(
    ("revisions", "entries"),
    [
        ({"a": "1", "b": "2"}, [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]),
        ([Revision(key="b", value="")], [{"key": "b", "value": ""}]),
        (iter([Revision(key="b", value="2")] * 2), [{"key": "b", "value": "2"}] * 2),
        (({"key": "a", "value": "1"},), [{"key": "a", "value": "1"}]),
    ],
)
async def test_revisions_in_all_their_forms(
    revisions: Any, entries: Any, recorder: Recorder
) -> None:
    await recorder.session().customer.revise_customer("c", revisions)

    assert json.loads(recorder.sent[0].content) == {"revisions": entries}


# What `with_options` is given, and the headers that it makes of the session's own.
VIEWS: list[tuple[dict[str, Any], dict[str, str | None]]] = [
    ({}, {"tenantId": "acme", "token": "tok", "X-One": "1", "authorization": "Bearer token-1"}),
    ({"tenant_id": "other"}, {"tenantId": "other", "token": "tok", "X-One": "1"}),
    ({"tenant_id": None}, {"tenantId": None, "token": "tok"}),
    ({"token_header": None}, {"tenantId": "acme", "token": None}),
    ({"token_header": "new"}, {"tenantId": "acme", "token": "new"}),
    ({"access_token": "token-2"}, {"authorization": "Bearer token-2", "tenantId": "acme"}),
    ({"headers": {"x-one": "2"}}, {"X-One": "2", "X-Two": "2"}),
    ({"headers": {"X-Three": "é"}}, {"X-One": "1", "X-Two": "2", "X-Three": "é"}),
    ({"headers": {"X-ONE": None}}, {"X-One": None, "X-Two": "2"}),
    ({"headers": {"X-Absent": None}}, {"X-One": "1", "X-Two": "2"}),
    ({"headers": None}, {"X-One": None, "X-Two": None, "tenantId": "acme"}),
    ({"headers": {"user-agent": "mine"}}, {"User-Agent": "mine"}),
    ({"headers": {"ACCEPT": "text/csv"}}, {"Accept": "text/csv"}),
]


@pytest.mark.parametrize(("options", "headers"), VIEWS)
async def test_view_has_its_own_headers(
    options: dict[str, Any], headers: dict[str, str | None], recorder: Recorder
) -> None:
    """A view replaces what it is given, removes what is None, inherits the rest; once each."""
    gateway = recorder.session(
        tenant_id="acme", token_header="tok", headers={"X-One": "1", "x-two": "2"}
    )
    before = repr(gateway._caller.options)

    await gateway.with_options(**options).wallet.order_history(1, 1)
    await gateway.wallet.order_history(1, 1)

    changed, original = recorder.sent
    assert {name: changed.headers.get(name) for name in headers} == headers
    assert len({name.lower() for name, _ in changed.headers.raw}) == len(changed.headers.raw)
    assert {name: original.headers[name] for name in ("tenantId", "token", "X-One", "X-Two")} == {
        "tenantId": "acme",
        "token": "tok",
        "X-One": "1",
        "X-Two": "2",
    }
    assert original.headers["authorization"] == "Bearer token-1"
    assert repr(gateway._caller.options) == before


async def test_views_of_views_add_up_and_copy_what_they_are_given(recorder: Recorder) -> None:
    """What was removed stays removed; changing a mapping afterwards changes no request."""
    given = {"X": "1"}
    view = recorder.session(tenant_id="acme", headers=given).with_options(tenant_id=None)
    given.update(X="2", Z="2")

    await view.with_options(headers={"Y": "2"}).wallet.order_history(1, 1)

    assert "tenantId" not in recorder.sent[0].headers
    assert [recorder.sent[0].headers.get(name) for name in "XYZ"] == ["1", "2", None]


async def test_long_json_arrives_whole() -> None:
    received: list[bytes] = []
    body = {"text": "ä" * 2**22}

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await read_request(reader))
        writer.write(OK)

    async with raw_server(handler) as url, GatewaySession(url, access_token="t") as gateway:
        await gateway.send(operations.EXCHANGE_RATE_SERIES, body=body)

    assert json.loads(received[0].partition(b"\r\n\r\n")[2]) == body


def member(text: str) -> str:
    """Return a text as programs before `StrEnum` have it, whose str() is another one."""
    make: Any = Enum
    made: str = make("Word", {"IT": text}, type=str).IT
    return made


async def test_a_member_of_an_enumeration_is_sent_as_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every argument that takes a text."""
    monkeypatch.setattr("secrets.token_hex", "0".__mul__)
    sent: list[list[Any]] = []
    for word in (str, member):
        recorder = Recorder()
        given: dict[str, Any] = {name: word("w") for name in ("access_token", "tenant_id")}
        gateway = recorder.session(
            word("https://gateway.test"),
            token_header=word("h"),
            headers={word("X-A"): word("1")},
            **given,
        )
        form = Multipart(
            {word("kind"): word("id"), "l": [word("a b")]}, {"f": (word("n"), b"x", word("a/b"))}
        )
        await gateway.aml.update_document(word("d/1"), form)
        await gateway.aml.change_document_status(word("d-1"), word("approved"), word("text/x"))
        await gateway.wallet.trading_order_history(word("c-1"), headers={word("X-B"): word("2")})
        await gateway.customer.revise_customer(word("c-1"), {word("key"): word("value")})
        await gateway.currency.exchange_rate_series(
            word("EUR"), [word("USD")], word("a"), word("b")
        )
        await gateway.kyc.send_webhook({word("event"): [word("checked")]})
        sent.append([(it.url, it.headers.raw, it.content) for it in recorder.sent])

    for plain, other in zip(*sent, strict=True):
        assert plain == other
