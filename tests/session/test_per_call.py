"""What each method says of its reply and errors, and what one call can have of its own."""

import dataclasses
import inspect
import json
import re
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from gateway_sdk import (
    DeadlineExceededError,
    GatewaySession,
    InvalidArgumentError,
    UnexpectedReplyError,
    errors,
    operations,
)
from gateway_sdk._http.request import RequestTemplate
from gateway_sdk.areas import Area
from gateway_sdk.operations import OPERATIONS, Operation
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from tests.support.calls import ARGUMENTS, method_of
from tests.support.recorder import Recorder


def gateway_of(sandbox: Sandbox) -> GatewaySession:
    return GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id="acme",
        transport=sandbox.transport(),
    )


def shape_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shape_of(item) for name, item in value.items()}
    return [shape_of(value[0])] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("is_remote", [False, True], ids=["in process", "over a socket"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_the_example_of_a_reply_is_the_sandboxs(
    operation: Operation[Any], is_remote: bool, gateway_sandbox: Sandbox, request: Any
) -> None:
    if is_remote:
        url = request.getfixturevalue("gateway_url")
        gateway = GatewaySession(url, access_token=SANDBOX_ACCESS_TOKEN, tenant_id="acme")
    else:
        gateway = gateway_of(gateway_sandbox)
    method = method_of(gateway, operation.name)
    text = inspect.getdoc(method) or ""
    shown = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    if (other := re.search(r"as\s`(\w+)`\s(?:has|returns)", text)) and not shown:
        assert other[1] in {it.name for it in OPERATIONS}  # which shows the record
        return

    await gateway.aml.upload_document(b"scan", "image/png")
    reply = await method(*ARGUMENTS[operation.name])

    is_open = operation.reply is Any and reply is not None  # else its type says it
    assert [shape_of(json.loads(text)) for text in shown] == [shape_of(reply)] * is_open
    assert [call.applied for call in gateway_sandbox.received] == [True, True]
    await gateway.aclose()


async def test_send_says_the_same_with_more() -> None:
    reply = await gateway_of(Sandbox()).send(
        operations.ORDER_HISTORY, body={"page": 1, "take": 1}, into=dict[str, Any]
    )

    assert (reply.status, reply.value["total"]) == (200, 57)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.body.startswith(b'{"page":1')
    assert [attempt.status for attempt in reply.attempts] == [200]
    assert reply.elapsed > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        reply.status = 201  # type: ignore[misc]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_error_that_can_come_is_named(operation: Operation[Any]) -> None:
    method: Any = method_of(gateway_of(Sandbox()), operation.name)
    texts = map(inspect.getdoc, (method, type(method.__self__), Area))
    named = set(re.findall(r"^    (\w+Error): ", "\n".join(filter(None, texts)), re.MULTILINE))

    assert named <= vars(errors).keys()
    assert "GatewayError: " in (inspect.getdoc(method) or "")  # what it means for this operation
    assert {"GatewayError", "InvalidArgumentError"} <= named
    is_upload = operation.content is operations.Content.ANY
    assert ("UploadFailedError" in named) is is_upload


def test_the_root_names_the_errors_of_every_call() -> None:
    named = set(re.findall(r"\b[A-Z]\w+Error\b", inspect.getdoc(errors.GatewayError) or ""))
    statuses = {kind.__name__ for kind in errors.StatusError.__subclasses__()}

    assert named == statuses | {
        *("ConfigurationError", "InvalidArgumentError", "SessionStateError", "AuthError"),
        *("ConnectionFailedError", "ReplyLostError", "DeadlineExceededError"),
        *("UnexpectedReplyError", "StatusError"),
    }


class Order(BaseModel):
    orderId: str  # noqa: N815 - as the sandbox names it


class Page(BaseModel):
    orders: list[Order]


HEADERS: list[dict[str, str | None] | None] = [
    {},
    {"X-Trace": "1"},
    {"x-team": "b", "User-Agent": "mine"},
    {"X-TEAM": None, "X-Trace": "1"},
    {"X-Absent": None},
    {"User-Agent": None},
    None,
]


@pytest.mark.parametrize("given", HEADERS)
async def test_headers_of_one_call_are_those_of_a_view(given: Any) -> None:
    """Whether they are more, replace others, or take some away; the next call has none of them."""
    recorder = Recorder()
    own = {"X-Team": "a", "User-Agent": "ours"}
    gateway = recorder.session(tenant_id="acme", token_header="tok", headers=own)

    await gateway.with_options(headers=given).wallet.order_history(1, 1)
    await gateway.wallet.order_history(1, 1, headers=given)
    await gateway.wallet.order_history(1, 1)
    await gateway.with_options().wallet.order_history(1, 1)

    of_view, of_call, *later = (sorted(request.headers.raw) for request in recorder.sent)
    assert of_call == of_view
    assert later[0] == later[1]
    assert {(b"X-Team", b"a"), (b"User-Agent", b"ours")} <= set(later[0])


async def test_a_template_is_made_once_for_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given for one call, or is of no concern to a request, makes no other one."""
    made: list[str] = []

    def make(operation: Operation[Any], *given: Any, **more: Any) -> RequestTemplate:
        made.append(more["tenant_id"])
        return RequestTemplate(operation, *given, **more)

    monkeypatch.setattr("gateway_sdk._call.options.RequestTemplate", make)
    gateway = Recorder().session(tenant_id="acme")
    view = gateway.with_options(tenant_id="other")
    for number in range(3):
        for one in (view, gateway, gateway.with_options(deadline=5 + number)):
            await one.wallet.order_history(1, 1, deadline=5)
            await one.wallet.order_history(1, 1, headers={"X-Trace": str(number)}, deadline=5)
            await one.wallet.order_history(1, 1)

    assert made == ["other", "acme"]


async def test_deadline_of_one_call(gateway_sandbox: Sandbox) -> None:
    gateway = gateway_of(gateway_sandbox).with_options(deadline=1e-6)

    with pytest.raises(DeadlineExceededError):
        await gateway.country_data.list_countries()
    with pytest.raises(DeadlineExceededError):
        await gateway.country_data.list_countries(deadline=1e-7)
    assert await gateway.country_data.list_countries(deadline=None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"deadline": 0}, "deadline must be a number of seconds, more than 0"),
        ({"deadline": "5"}, "deadline must be a number of seconds"),
        ({"headers": {"Authorization": "x"}}, "must not set Authorization"),
        ({"timeout": 5}, "list_countries: a call has no argument 'timeout': a view has it"),
        (
            {"dead_line": 5},
            "list_countries: a call has no argument 'dead_line': did you mean deadline",
        ),
    ],
)
async def test_wrong_options_of_a_call(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        await gateway_of(Sandbox()).country_data.list_countries(**given)

    assert caught.value.operation == "list_countries"


async def test_an_operation_of_the_user_may_have_placeholders_of_its_own() -> None:
    own = dataclasses.replace(operations.CANCEL_ORDER, name="own", path="/own/{thing}")
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=request.url.path))

    async with GatewaySession(
        "http://localhost", access_token="t", tenant_id="t", transport=transport
    ) as gateway:
        assert (await gateway.send(own, path={"thing": "a b"})).value == "/own/a b"
        with pytest.raises(InvalidArgumentError, match="thing is empty"):
            await gateway.send(own, path={"thing": ""})


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        (Page, b'{"orders":[]}', Page(orders=[])),
        (list[int], b"[1]", [1]),
        (float, b"1.5", 1.5),
        (float, b"NaN", None),
        (dict[str, int], b'{"a-name":"x"}', None),
    ],
)
async def test_an_operation_of_the_user_may_have_a_reply_of_its_own(
    kind: Any, body: bytes, value: Any
) -> None:
    own = dataclasses.replace(operations.CANCEL_ORDER, name="own", path="/own", reply=kind)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))

    async with GatewaySession("http://localhost", access_token="t", transport=transport) as gateway:
        if value is not None:
            assert (await gateway.send(own)).value == value
            return
        with pytest.raises(UnexpectedReplyError) as caught:
            await gateway.send(own)
        assert "a-name" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("tenant_id", "with_options() makes a view with"),
        ("deadline", "with_options() makes a view with"),
        ("base_url", "make a session with"),
        ("max_connections", "make a session with"),
    ],
)
def test_setting_an_attribute_does_not_look_as_if_it_changed_the_session(
    name: str, way: str
) -> None:
    gateway = GatewaySession("http://localhost", access_token="t", tenant_id="a")
    for session in (gateway, gateway.with_options(tenant_id="b")):
        with pytest.raises(AttributeError) as caught:
            setattr(session, name, "c")
        assert str(caught.value) == f"{name} of a session cannot be set: {way} another one"


def test_a_subclass_may_have_an_attribute_with_the_name_of_a_setting() -> None:
    class Session(GatewaySession):
        def __init__(self, tenant_id: str) -> None:
            self.tenant_id = tenant_id
            super().__init__("http://localhost", access_token="t", tenant_id=tenant_id)

    assert Session("a").tenant_id == "a"
