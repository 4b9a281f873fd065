"""Bad input: an error of the right class that names the thing, before anything is sent."""

import asyncio
import copy
import os
import pickle
import posixpath
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

import httpx
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import SecretStr

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    GatewaySession,
    InvalidArgumentError,
    Outcome,
    SessionStateError,
    UploadFailedError,
    operations,
)
from gateway_sdk.models import DocumentsItem, PersonData, Revision
from tests.support.calls import CALLS
from tests.support.ports import free_port
from tests.support.recorder import Recorder
from tests.support.secrecy import CANARY, texts_of

Call = Callable[[GatewaySession], Awaitable[Any]]


@pytest.fixture
def transport() -> Recorder:
    return Recorder()


@pytest.fixture
def gateway(transport: Recorder) -> GatewaySession:
    return transport.session(
        access_token=CANARY + "-token",
        tenant_id=CANARY + "-tenant",
        token_header=CANARY + "-header",
        retry=None,
    )


def session(base_url: Any = "https://gateway.test", **settings: Any) -> GatewaySession:
    return GatewaySession(base_url, **{"access_token": CANARY, **settings})


# --- arguments of calls ---------------------------------------------------------------------


async def _no_bytes() -> AsyncIterator[Any]:
    yield CANARY


def _path(value: Any) -> dict[str, Call]:
    return {
        "customer_id of 2": lambda gateway: gateway.customer.revise_customer(value, {"a": "b"}),
        "customer_id of 5": lambda gateway: gateway.wallet.trading_order_history(value),
        "wallet_id of 7": lambda gateway: gateway.wallet.cancel_order(value, "o"),
        "order_id of 7": lambda gateway: gateway.wallet.cancel_order("w", value),
        "document_id of 8": lambda gateway: gateway.aml.change_document_status(value, "x"),
        "document_id of 9": lambda gateway: gateway.aml.update_document(value, "x"),
    }


def _create(**values: Any) -> Call:
    return lambda gateway: gateway.customer.create_customer(values)


def _document(value: Any) -> Call:
    return _create(person={"documents": [{"verificationResponse": value}]})


def _upload(content: Any, *rest: Any) -> Call:
    return lambda gateway: gateway.aml.upload_document(content, *rest)


def _endless(make: Callable[[Any], Call]) -> Call:
    def call(gateway: GatewaySession) -> Any:
        value: Any = 1
        for _ in range(100_000):  # made here, because they would slow down the whole run
            value = [value]
        return make(value)(gateway)

    return call


def _series(*given: Any) -> Call:
    return lambda gateway: gateway.currency.exchange_rate_series(*given)


def _revise(revisions: Any) -> Call:
    return lambda gateway: gateway.customer.revise_customer("c", revisions)


def _send(operation: Any, **given: Any) -> Call:
    return lambda gateway: gateway.send(operation, **given)


def _headers(headers: Any) -> Call:
    return lambda gateway: gateway.country_data.list_countries(headers=headers)


CHANGED: Any = DocumentsItem(verification_response={CANARY: 1})
CHANGED.verification_response[CANARY] = float("nan")
MASKED: Any = DocumentsItem(verification_response={"by": CANARY})
MASKED.verification_response["by"] = SecretStr(CANARY)
HALF = "\udce9" + CANARY
OPEN = r"person\.documents\.0\.verificationResponse"
NO_NAME = "has a name that is not a string"
HALVED: Any = DocumentsItem(verification_response={"by": CANARY})
HALVED.verification_response["by"] = HALF
ARGUMENTS: list[tuple[str, Call, str]] = [
    # models; tests/models/test_arguments.py has all that is wrong with one
    ("create: None", lambda gateway: gateway.customer.create_customer(None), "request must be"),  # type: ignore[call-overload]
    (
        "create: another model",
        lambda gateway: gateway.customer.create_customer(PersonData(email=CANARY)),  # type: ignore[call-overload]
        r"request must be a JSON object \(CreateRequest\), not PersonData",
    ),
    (
        "create: misspelt deep",
        _create(person={"lastName": {"nam": CANARY}}),
        r"person\.lastName\.nam is",
    ),
    ("create: the mask", _create(person={"password": "**********"}), r"person\.password is"),
    ("create: key of no text", lambda g: g.customer.create_customer({1: CANARY}), "1 is"),  # type: ignore[dict-item]
    ("create: open NaN", _document(float("nan")), f"{OPEN} holds NaN"),
    ("create: NaN after a check", _create(person={"documents": [CHANGED]}), "body"),
    ("create: a mask after a check", _create(person={"documents": [MASKED]}), "body"),
    ("create: open and endless", _endless(_document), f"{OPEN} is nested"),
    ("create: open and huge", _document(10**5000), "body"),
    ("create: many", _create(notifications=[{"isEnabled": "yes"}] * 5000), r"notifications\.0\.is"),
    ("create: half of a pair", _create(person={"email": HALF}), r"person\.email holds half of"),
    ("create: half, in a key", _document({HALF: 1}), f"{OPEN} holds half of"),
    ("create: half, after a check", _create(person={"documents": [HALVED]}), "body holds half of"),
    ("revise: one entry", _revise({"key": "a", "value": "b"}), "revisions is one entry"),
    ("revise: nothing", _revise({}), "revisions is empty"),
    ("revise: None", _revise(None), "revisions must be"),
    ("revise: text", _revise(CANARY), "revisions must be"),
    ("revise: bytes", _revise(b"a"), "revisions must be"),
    ("revise: pairs", _revise([("a", CANARY)]), r"revisions\.0 must be .* not tuple"),
    ("revise: the body", _revise({"revisions": []}), r"revisions\.0\.value must be .* not list"),
    ("revise: one entry", _revise(Revision(key="a", value=CANARY)), "revisions is one entry"),
    ("revise: number value", _revise({"a": "b", "c": 4711}), r"revisions\.1\.value must be"),
    ("revise: half in a value", _revise({"a": HALF}), r"revisions\.0\.value holds half of"),
    ("revise: half in a key", _revise({HALF: "a"}), r"revisions\.0\.key holds half of"),
    # plain arguments
    ("take: text", lambda gateway: gateway.wallet.order_history(1, "x"), "take"),  # type: ignore[call-overload]
    ("page: endless", lambda gateway: gateway.wallet.order_history(10**5000, 1), "body"),
    ("start: number", _series("EUR", "USD", 20260101, "b"), "start_date"),
    ("start: half of a pair", _series("EUR", "USD", HALF, "b"), "start_date holds half of"),
    ("symbols: half of a pair", _series("EUR", ["USD", HALF], "a", "b"), "symbols holds half of"),
    # content
    ("content: None to 8", lambda g: g.aml.change_document_status("d", None), "content is missing"),  # type: ignore[call-overload]
    ("content: None to 9", lambda g: g.aml.update_document("d", None), "content is missing"),  # type: ignore[call-overload]
    ("content: None to 10", _upload(None), "content is missing"),
    ("content: number", _upload(5), "content must be .* not int"),
    ("content: set", _upload({1}), "content must be .* not set"),
    ("content: a path as text", _upload(f"{CANARY}.pdf"), "content is a str"),
    ("content: half of a pair", _upload(HALF, "text/plain"), "content is text with half of"),
    ("content: half in JSON", _upload({"a": HALF}), "content holds half of a surrogate pair"),
    ("content: half in a key", _upload({HALF: 1}), "content holds half of a surrogate pair"),
    ("content: set in JSON", _upload([{CANARY}]), "content is no JSON value"),
    ("content: NaN in JSON", _upload({CANARY: float("nan")}), "content is no JSON value"),
    ("content: endless JSON", _endless(_upload), "content is no JSON value"),
    ("content: missing file", _upload(Path("/no") / CANARY), "content is an unreadable file: "),
    ("content: directory", _upload(Path("/")), "content is an unreadable file: it is no"),
    ("content: name too long", _upload(Path(CANARY * 1000)), "content is an unreadable file"),
    ("content: NUL in the name", _upload(Path(CANARY + "\x00")), "content is an unreadable file"),
    ("content_type: newline", _upload(b"x", f"{CANARY}\r\nX: 1"), "content_type"),
    ("content_type: empty", _upload(b"x", ""), "content_type is empty"),
    ("content_type: number", _upload(b"x", 5), "content_type must be a string"),
    ("content_type: euro", _upload(b"x", f"{CANARY}\u20ac"), "content_type"),
    ("content_type: of a hook", lambda g: g.kyc.send_webhook(b"x", "a\nb"), "content_type"),
    (
        "content_type: of nothing",
        lambda g: g.kyc.send_webhook(None, "text/csv"),
        "content_type needs",
    ),
    ("on_progress: number", _upload(b"x", None, 5), "on_progress must be a plain"),
    # the one way down
    (
        "send: no such place",
        _send(operations.CANCEL_ORDER, path={"id": "1"}),
        "path must be a mapping",
    ),
    (
        "send: no place",
        _send(operations.CANCEL_ORDER, path={"walletId": "1"}),
        "path must be a mapping with walletId, orderId",
    ),
    ("send: path is a list", _send(operations.CANCEL_ORDER, path=[("walletId", "1")]), "path"),
    (
        "send: body for a GET",
        _send(operations.SPOT_TRADING_AVAILABLE_BALANCE, body={}),
        "body must be left",
    ),
    ("send: body missing", _send(operations.ORDER_HISTORY), "body is missing"),
    *(
        (
            f"{one.name}: body missing",
            _send(one, path=path),
            "body is missing; an empty document is",
        )
        for one, path in (
            (operations.UPLOAD_DOCUMENT, None),
            (operations.UPDATE_DOCUMENT, {"docid": "d"}),
            (operations.CHANGE_DOCUMENT_STATUS, {"documentId": "d"}),
        )
    ),
    (
        "send: body of a set",
        _send(operations.ORDER_HISTORY, body={CANARY}),
        "body is no JSON value",
    ),
    (
        "send: half of a pair",
        _send(operations.ORDER_HISTORY, body={"page": 1, "filter": [HALF]}),
        r"body\['filter'\] holds half of a surrogate pair, which is no character",
    ),
    ("send: half in a key", _send(operations.ORDER_HISTORY, body={HALF: 1}), "body holds half"),
    *(  # JSON would have the name twice, or a name that nobody gave
        (
            f"send: {name} as a name",
            _send(operations.ORDER_HISTORY, body={name: 1, "1": 2}),
            f"body {NO_NAME}",
        )
        for name in (1, 1.5, True, None)
    ),
    (
        "send: number as a name within",
        _send(operations.ORDER_HISTORY, body={"page": [({1: 2},)]}),
        r"body\['page'\] has a name that is not a string",
    ),
    ("content: number as a name", _upload({"a": {1: 2}}), f"content {NO_NAME}"),
    (
        "send: a set in a field",
        _send(operations.ORDER_HISTORY, body={"page": {CANARY}}),
        r"body\['page'\] is no JSON value \(TypeError\)",
    ),
    ("headers: half of a pair", _headers({"X-A": HALF}), r"headers\['X-A'\] has white space"),
    ("send: type", _send(operations.ORDER_HISTORY, body={}, content_type="a/b"), "content_type"),
    ("send: progress", _send(operations.ORDER_HISTORY, body={}, on_progress=print), "on_progress"),
    ("send: into 5", _send(operations.LIST_COUNTRIES, into=5), "into must be a type"),
    ("send: into unknown", _send(operations.LIST_COUNTRIES, into="Unknown"), "into must be a type"),
    ("send: into {}", _send(operations.LIST_COUNTRIES, into={}), "into must be a type"),
    ("send: into nothing", _send(operations.LIST_COUNTRIES, into=""), "into must be a type"),
    (
        "send: into list of unknown",
        _send(operations.LIST_COUNTRIES, into=list["Unknown"]),  # type: ignore[name-defined]  # noqa: F821
        "into must be a type",
    ),
    ("send: operation by name", _send("cancel_order"), "operation"),
]


@pytest.mark.parametrize(
    ("call", "message"), [pytest.param(call, message, id=name) for name, call, message in ARGUMENTS]
)
async def test_wrong_argument(
    call: Call, message: str, gateway: GatewaySession, transport: Recorder
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await call(gateway)

    assert caught.value.field
    told = f"{caught.value.field} {caught.value.problem}"
    assert re.match(message, told)
    assert told in str(caught.value)
    assert transport.sent == []
    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.advice is not Advice.CHECK
    assert caught.value.attempts == ()
    assert CANARY not in texts_of(caught.value)
    # By then it was pickled; tblib, which Dask uses, pickles what is suppressed, too.
    assert not (caught.value.__suppress_context__ and caught.value.__context__)
    assert len(str(caught.value)) < 2500


async def test_stream_of_no_bytes() -> None:
    with pytest.raises(UploadFailedError, match="not of bytes") as caught:
        await Recorder().session().aml.upload_document(_no_bytes())

    assert CANARY not in texts_of(caught.value)


# --- path segments --------------------------------------------------------------------------

REFUSED_SEGMENTS: list[Any] = [
    "", ".", "..", "../../w2/orders/o9", "x/../../y", "a/..", "a/./b", "..\\a", "a\\..",
    "a/..\\b", "%2e", "%2E%2e", "x%2f..", "..%2Fx", "x%5C.%2e", "%252e%252E", "x%25252f..", "%%32e",
    "..;v=1/x", "%25252525252525252e", "%" + "25" * 1900 + "2e",
    "\n", "a\nb", "a\r", "a\x00b", "\x7f", "\x85", "\ud800", "a\udfff",
    None, 5, 1.5, True, b"c-1", ["c-1"], date(2026, 1, 1), "a" * 70_000, "\u20ac" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED_SEGMENTS, ids=lambda value: repr(value)[:20])
async def test_segment_that_cannot_be_one(
    value: Any, gateway: GatewaySession, transport: Recorder
) -> None:
    for name, call in _path(value).items():
        with pytest.raises(InvalidArgumentError, match=name.split()[0]) as caught:
            await call(gateway)
        assert caught.value.field == name.split()[0]

    assert transport.sent == []


def _readings(path: str) -> Iterator[str]:
    """Yield a path as those read it who decode it once more, once more, and so on."""
    while True:
        yield path
        before, path = path, re.sub("%([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), path)
        if path == before:
            return


def _leads_elsewhere(path: str) -> bool:
    """Tell whether a path has parts that are resolved, by anybody who may read it."""
    return any(
        posixpath.normpath(read) != re.sub("/+", "/", read)
        for text in _readings(path)
        for read in (text.replace("\\", "/"), re.sub("(;[^/]*)", "", text.replace("\\", "/")))
    )


_PIECES = [
    *(".", "..", "...", "/", "\\", "%", "%2e", "%2F", "%5c", "%252e", "2", "5", "e", "f", ";", "a"),
]


@settings(deadline=None)
@given(
    st.text(max_size=12)
    | st.text(alphabet="./\\%?#2eE;: \n\x00{}ä\ud800", max_size=8)
    | st.lists(st.sampled_from(_PIECES), max_size=6).map("".join)
)
async def test_no_text_reaches_another_path(text: str) -> None:
    """What is refused would lead there, and what is sent does not, whoever decodes it."""
    recorder = Recorder()
    wrong = not text or re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text)
    try:
        await recorder.session().wallet.trading_order_history(text)
    except InvalidArgumentError:
        assert wrong or _leads_elsewhere(f"/a/{text}/b")
        assert recorder.sent == []
        return

    head, segment, tail = recorder.sent[0].url.raw_path.decode("ascii").rsplit("/", 2)
    assert (head, tail) == ("/wallet/1.0.0", "trading-order-history")
    assert httpx.URL("http://h/" + segment).path == "/" + text
    assert not set(segment) & set("/?#\\;:@ \r\n\x00")
    assert not wrong
    assert not _leads_elsewhere(f"/a/{text}/b")


@given(st.text("Az09+/", min_size=1, max_size=48))
async def test_every_id_in_base64_is_sent(text: str) -> None:
    """It may have slashes at its ends, and several in a row: most that are drawn have them."""
    recorder = Recorder()

    await recorder.session().wallet.trading_order_history(text)

    assert recorder.sent[0].url.path == f"/wallet/1.0.0/{text}/trading-order-history"


# --- the state of a session -----------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("was_used", [True, False])
async def test_closed_session(
    name: str, was_used: bool, gateway: GatewaySession, transport: Recorder
) -> None:
    view = gateway.with_options(tenant_id="other")
    if was_used:
        await gateway.country_data.list_countries()
        transport.sent.clear()
    await gateway.aclose()

    for closed in (gateway, view):
        with pytest.raises(SessionStateError, match="the session is closed") as caught:
            await CALLS[name](closed)
        assert caught.value.operation == name
        assert (caught.value.outcome, caught.value.advice) == (Outcome.NOT_SENT, Advice.REPEAT)

    for use in (gateway.__aenter__, gateway.connect):
        with pytest.raises(SessionStateError, match="the session is closed"):
            await use()
    assert transport.sent == []


def test_another_event_loop(gateway: GatewaySession, transport: Recorder) -> None:
    asyncio.run(_list(gateway))

    for use in (_list, GatewaySession.aclose):
        with pytest.raises(SessionStateError, match="another event loop"):
            asyncio.run(use(gateway))

    assert len(transport.sent) == 1


async def _list(gateway: GatewaySession) -> None:
    await gateway.country_data.list_countries()


async def test_a_call_in_another_process_than_that_of_the_session_is_refused(
    gateway: GatewaySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway:
        await CALLS["order_history"](gateway)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(SessionStateError, match="opened in the parent process"):
                await CALLS["order_history"](gateway)


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_session_is_not_copied(copying: Callable[[object], object]) -> None:
    for made in (session(), session().with_options(tenant_id="a")):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copying(made)


async def test_a_typed_dict_of_an_old_python_says_what_pydantic_says() -> None:
    class Balance(TypedDict):
        currency: str

    refused = (InvalidArgumentError, r"use `typing_extensions\.TypedDict`")
    taken = (ConnectionFailedError, "no connection")  # pydantic takes it from Python 3.12 on
    kind, text = refused if sys.version_info < (3, 12) else taken
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with GatewaySession(nowhere, access_token="t", retry=None) as gateway:
        with pytest.raises(kind, match=text):
            await gateway.wallet.spot_trading_available_balance(into=list[Balance])
