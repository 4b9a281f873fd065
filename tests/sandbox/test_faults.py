import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import httpx
import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Faults, Sandbox
from tests.sandbox.conftest import Connect, holding_up, in_process, on_a_socket, run_app

SandboxWith = Callable[..., Sandbox]
Received = list[tuple[int | None, bool]]

UPLOAD = "/aml/1.0.0/document/upload"
Request = tuple[str, str, dict[str, Any]]
BALANCE: Request = ("GET", "/wallet/1.0.0/spot-trading/available-balance", {})
HOOK: Request = ("POST", "/kyc/1.0.0/webhook", {})
CREATE: Request = ("POST", "/customer/1.0.0/create", {"json": {"externalCustomerId": "ext-1"}})
SENDING: Request = ("POST", UPLOAD, {"content": bytes(8 * 1024 * 1024)})
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
CUT = "without sending complete message"


class Case(NamedTuple):
    """What the first of two requests meets; the second one shows what the first has done."""

    faults: list[Fault]
    request: Request
    status: int | None  # None if there is no whole reply
    said: str  # the reason of the status or the Retry-After; or the words of the client's error
    received: Received
    naps: list[float]


EACH_KIND = [
    Fault.latency(0),
    Fault.status(500),
    Fault.malformed_error(502),
    Fault.drip(0, pieces=2),
    Fault.drop_before_read(),
    Fault.drop_after_read(),
    Fault.cut_body(),
]

DROPPED: Received = [(None, False), (200, True)]
CASES: dict[str, Case] = {
    "latency": Case([Fault.latency(0.2)], BALANCE, 200, "", [(200, True)] * 2, [0.2]),
    "status": Case(
        [Fault.status(500)], CREATE, 500, "Internal Server Error", [(500, False), (200, True)], []
    ),
    "status without a name": Case(
        [Fault.status(599)], BALANCE, 599, "Unknown Status", [(599, False), (200, True)], []
    ),
    "malformed error": Case(
        [Fault.malformed_error(502)], BALANCE, 502, "", [(502, False), (200, True)], []
    ),
    "drip": Case([Fault.drip(0.05)], BALANCE, 200, "", [(200, True)] * 2, [0.05] * 10),
    "drip of no body": Case([Fault.drip(0.05)], HOOK, 202, "", [(202, True)] * 2, []),
    "drop before read": Case([Fault.drop_before_read()], CREATE, None, "", DROPPED, []),
    "drop in mid-upload": Case([Fault.drop_before_read()], SENDING, None, "", DROPPED, []),
    "drop after read": Case(
        [Fault.drop_after_read()],
        CREATE,
        None,
        "without sending a response",
        [(None, True), (409, False)],
        [],
    ),
    "cut": Case([Fault.cut_body()], BALANCE, None, CUT, [(200, True)] * 2, []),
    "cut of no body": Case([Fault.cut_body()], HOOK, None, CUT, [(202, True)] * 2, []),
    "cut of a drip": Case(
        [Fault.cut_body(), Fault.drip(0.05, pieces=3)],
        BALANCE,
        None,
        CUT,
        [(200, True)] * 2,
        [0.05] * 3,
    ),
    **{
        f"{name} of what is dropped": Case(
            [outer, Fault.drop_before_read()], BALANCE, None, "", DROPPED, []
        )
        for name, outer in {
            "cut": Fault.cut_body(),
            "drop": Fault.drop_after_read(),
            "drip": Fault.drip(1),
        }.items()
    },
    **{
        f"{fault.name} with Retry-After {after!r}": Case(
            [fault], BALANCE, status, after, [(status, False), (200, True)], []
        )
        for fault, status, after in [
            (Fault.too_many_requests(), 429, ""),
            (Fault.too_many_requests(retry_after=0), 429, "0"),
            (Fault.too_many_requests(retry_after=2), 429, "2"),
            (Fault.unavailable(), 503, ""),
            (Fault.unavailable(retry_after=DATE), 503, DATE),
        ]
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_fault_is_what_the_client_meets(
    connect: Connect, sandbox_with: SandboxWith, naps: list[float], case: Case
) -> None:
    """In process as on a socket; once, and with what is recorded of it."""
    sandbox = sandbox_with(*case.faults)

    method, path, given = case.request

    async def send() -> httpx.Response:
        return await client.request(method, path, **given)

    async with connect(sandbox) as client:
        if case.status is None:
            with pytest.raises(httpx.TransportError, match=case.said or None):
                await send()
        else:
            met = await send()
        after = await send()

    assert [(call.status, call.applied) for call in sandbox.received] == case.received
    assert after.status_code == case.received[1][0]
    assert naps == case.naps
    if case.status is not None:
        assert met.status_code == case.status
        if met.is_success:
            assert met.content == after.content
        elif "malformed" in case.faults[0].name:
            assert met.headers["Content-Type"] == "application/json"
            with pytest.raises(ValueError, match="Unterminated string"):
                met.json()
        else:
            assert met.json()["status"] == case.status
            assert case.said in (met.json()["reason"], met.headers.get("Retry-After", ""))


@pytest.mark.parametrize(
    "faults",
    list(product(EACH_KIND, repeat=2)),
    ids=lambda faults: ", ".join(fault.name for fault in faults),
)
async def test_two_faults_of_one_call_are_the_same_in_process_and_on_a_socket(
    sandbox_with: SandboxWith, faults: tuple[Fault, ...]
) -> None:
    met: list[object] = []
    for connect in in_process, on_a_socket:
        sandbox, status, body, lost = sandbox_with(*faults), None, bytearray(), False
        async with connect(sandbox) as client:
            try:
                async with client.stream(CREATE[0], CREATE[1], **CREATE[2]) as reply:
                    status = reply.status_code
                    async for chunk in reply.aiter_raw():
                        body += chunk
            except httpx.TransportError:
                lost = True
        calls = [(call.status, call.applied) for call in sandbox.received]
        met.append((status, len(body), lost, calls))

    assert met[0] == met[1]


async def test_cut_body_comes_after_the_status(connect: Connect, sandbox_with: SandboxWith) -> None:
    received = bytearray()

    async def receive(reply: httpx.Response) -> None:
        async for chunk in reply.aiter_raw():
            received.extend(chunk)

    async with (
        connect(sandbox_with(Fault.cut_body())) as client,
        client.stream("GET", BALANCE[1]) as reply,
    ):
        with pytest.raises(httpx.RemoteProtocolError, match=CUT):
            await receive(reply)

    assert reply.status_code == 200
    assert len(received) == 133
    assert reply.headers["Content-Length"] == "267"


@pytest.mark.parametrize("faults", [[], [Fault.cut_body()]])
async def test_client_that_leaves_in_mid_upload_uploads_nothing(
    faults: list[Fault], sandbox_with: SandboxWith
) -> None:
    sandbox = sandbox_with(*faults)
    authorization = (b"authorization", f"Bearer {SANDBOX_ACCESS_TOKEN}".encode())
    scope = {"type": "http", "method": "POST", "path": UPLOAD, "headers": [authorization]}
    sent = await run_app(
        sandbox,
        scope,
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    )

    assert sent == []
    assert [(call.status, call.applied) for call in sandbox.received] == [(None, False)]
    assert sandbox._tenants["default"].documents == {}


async def test_faults_can_be_added_later(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    replies = [await client.post(HOOK[1])]
    sandbox.faults.on("send_webhook", Fault.unauthorized(), at=1)
    replies += [await client.post(HOOK[1]) for _ in range(2)]

    assert [reply.status_code for reply in replies] == [202, 401, 202]
    assert replies[1].headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


async def test_call_is_noted_while_it_is_held_up(connect: Connect) -> None:
    sandbox, held_up = holding_up()
    async with connect(sandbox) as client:
        call = asyncio.create_task(client.get(BALANCE[1]))
        await held_up.wait()
        statuses = [call.status for call in sandbox.received]
        call.cancel()
        await asyncio.wait([call])

    assert statuses == [None]
    assert call.cancelled()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fault.status(600), "and at most 599: 600"),
        (lambda: Fault.of_kind("status", 429.0), "status must be a whole number .*: 429.0"),
        (lambda: Fault.malformed_error(302), "and at most 599: 302"),
        (lambda: Fault.drip(0, pieces=0), "pieces must be a whole number of at least 1: 0"),
        (lambda: Fault.of_kind("drip", 0, pieces=True), "pieces must be a whole number .*: True"),
        (lambda: Fault.of_kind("latency", "1"), "seconds must be a number .*: '1'"),
        (lambda: Fault.of_kind("latency", True), "seconds must be a number .*: True"),  # noqa: FBT003
        (lambda: Fault.unavailable("a\r\nb"), "headers must be printable ASCII"),
        (lambda: Fault.status(500, headers={"X-\n": "a"}), "headers must be printable ASCII"),
    ],
)
def test_impossible_fault_is_refused(make: Callable[[], Fault], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_fault_has_a_readable_repr() -> None:
    assert repr(Fault.latency(0.2)) == "Fault(name='latency of 0.2 s')"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Faults().on("create_customer", Fault.drop_after_read),  # type: ignore[arg-type]
        lambda: Faults().anywhere("cut_body"),  # type: ignore[arg-type]
        lambda: Sandbox(faults=Fault.cut_body()),  # type: ignore[arg-type]
        lambda: Sandbox(faults=[Fault.cut_body()]),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_fault_is_refused_at_once(make: Callable[[], object]) -> None:
    """Else each call is a 500, and a test of a lost reply passes."""
    with pytest.raises(TypeError, match=r"such as .*Fault\.cut_body\(\)"):
        make()


FAULT = Fault.status(500)


def hits(faults: Faults, operation: str = "cancel_order", calls: int = 6) -> list[int]:
    return [call for call in range(1, calls + 1) if faults.due(operation)]


@pytest.mark.parametrize(
    ("at", "times", "expected"),
    [
        (None, None, [1, 2, 3, 4, 5, 6]),
        (None, 2, [1, 2]),
        (3, None, [3]),
        (3, 2, [3, 4]),
        (9, None, []),
    ],
)
def test_fault_happens_at_its_calls(at: int | None, times: int | None, expected: list[int]) -> None:
    assert hits(Faults().on("cancel_order", FAULT, at=at, times=times)) == expected


def test_fault_counts_its_own_operation_only() -> None:
    faults = Faults().on("cancel_order", FAULT, at=2).anywhere(FAULT, at=9)

    assert hits(faults, "list_countries") == []
    assert hits(faults, "cancel_order") == [2, 3]


def test_call_may_have_several_faults() -> None:
    slow = Fault.latency(1)
    faults = Faults().anywhere(slow).on("cancel_order", FAULT, at=1)

    assert faults.due("cancel_order") == [slow, FAULT]
    assert faults.due("cancel_order") == [slow]


def test_rate_is_a_probability() -> None:
    """At a rate of 0.25 a fault happens at about a quarter of the calls, the same for a seed."""
    first = hits(Faults(seed=1).anywhere(FAULT, rate=0.25), calls=1000)

    assert 200 < len(first) < 300
    assert hits(Faults(seed=1).anywhere(FAULT, rate=0.25), calls=1000) == first
    assert hits(Faults(seed=2).anywhere(FAULT, rate=0.25), calls=1000) != first
    assert hits(Faults().anywhere(FAULT, rate=0)) == []
    assert hits(Faults().anywhere(FAULT, rate=1)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"at": 0}, "at must be a whole number of at least 1: 0"),
        ({"times": 0}, "times must be a whole number of at least 1: 0"),
        ({"rate": 1.5}, "rate must be a number of at least 0 and at most 1: 1.5"),
        ({"rate": -0.1}, "rate must be .*: -0.1"),
        ({"rate": float("nan")}, "rate must be .*: nan"),
    ],
)
def test_number_out_of_range_is_refused(numbers: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults().anywhere(FAULT, **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("latency=0.5", "latency of 0.5 s"),
        ("drip=1e-1", "drip of 0.1 s"),
        ("list_countries:status=503", "status 503"),
        ("malformed_error=500,times=2", "malformed error of status 500"),
        ("too_many_requests", "status 429"),
        ("too_many_requests=3,at=1", "status 429"),
        ("unavailable=3", "status 503"),
        ("cut_body,rate=1", "cut body"),
        ("*:cut_body", "cut body"),
    ],
)
def test_fault_may_be_written_as_text(text: str, due: str) -> None:
    faults = Faults().add(text)

    assert [fault.name for fault in faults.due("list_countries")] == [due]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "unknown fault 'nonsense'"),
        ("latency", "latency needs a number: write latency=..."),
        ("latency=x", "'x' is not a number"),
        ("unauthorized=1", "unauthorized takes no value"),
        ("nonsense=1", "unknown fault 'nonsense'"),
        ("status=200", "status must be a whole number of at least 400 and at most 599: 200"),
        ("latency=inf", "seconds must be a number of at least 0: inf"),
        ("latency=-1", "seconds must be a number of at least 0: -1"),
        ("drip=nan", "delay must be a number of at least 0: nan"),
        ("cut_body,at=1.5", "at must be a whole number of at least 1: 1.5"),
        ("too_many_requests=0.3", "too_many_requests must be a whole number of at least 0: 0.3"),
        ("unavailable=-1", "unavailable must be a whole number of at least 0: -1"),
        ("x:cut_body", r"unknown operation 'x'; the operations are create_customer, .*countries"),
        ("cut_body,on=1", "'on' is not at=N, times=N or rate=0.1"),
        ("cut_body,at", "'' is not a number"),
    ],
)
def test_wrong_text_of_a_fault_is_refused(text: str, words: str) -> None:
    faults = Faults()

    with pytest.raises(ValueError, match=words):
        faults.add(text)

    assert faults.due("list_countries") == []
