"""What an observer learns and gives when an attempt starts."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway_sdk import Attempt, CallInfo, GatewaySession, Observer
from tests.support.calls import CALLS, Renewing
from tests.support.scripted import scripted, status


class Giving(Observer):
    def __init__(self, fields: Any) -> None:
        self._fields = fields if callable(fields) else lambda _: fields
        self.numbers: list[tuple[str, int]] = []
        self.calls: list[CallInfo] = []

    def attempt_started(self, call: CallInfo, number: int) -> Mapping[str, str] | None:
        self.calls.append(call)
        self.numbers.append(("started", number))
        fields: Mapping[str, str] | None = self._fields(number)
        return fields

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        self.calls.append(call)
        self.numbers.append(("finished", attempt.number))


class Undecided:
    """As arrays of several numbers are."""

    def __bool__(self) -> bool:
        raise ValueError


async def test_each_attempt_has_its_number_and_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    giving = Giving(lambda number: {"X-Attempt": str(number)})
    gateway, engine, _ = scripted(
        monkeypatch,
        status(503),
        status(401),
        status(200),
        access_token=Renewing(),
        observers=[giving],
    )

    await CALLS["cancel_order"](gateway)

    assert [request.headers["X-Attempt"] for request in engine.requests] == ["1", "2", "3"]
    assert giving.numbers == [
        (moment, number) for number in (1, 2, 3) for moment in ("started", "finished")
    ]
    assert len({id(call) for call in giving.calls}) == 1


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://gateway.test", ("https://gateway.test", "gateway.test", 443)),
        ("https://gateway.test:8443/api/", ("https://gateway.test:8443/api", "gateway.test", 8443)),
        ("http://127.0.0.1", ("http://127.0.0.1", "127.0.0.1", 80)),
        ("http://[::1]:99/", ("http://[::1]:99", "::1", 99)),
    ],
)
async def test_observers_learn_where_the_gateway_is(
    monkeypatch: pytest.MonkeyPatch, base_url: str, expected: tuple[str, str, int]
) -> None:
    giving = Giving(None)
    scripted(monkeypatch, status(200))  # replaces the transport of every session
    gateway = GatewaySession(base_url, access_token="t", observers=[giving])

    await CALLS["cancel_order"](gateway)

    call = giving.calls[0]
    assert (call.base_url, call.host, call.port) == expected


async def test_the_fields_replace_those_of_the_session_and_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"traceparent": "00-1", "x-one": "first"}, None, {"X-One": "last"}
    gateway, engine, _ = scripted(
        monkeypatch,
        status(200),
        headers={"Traceparent": "mine", "X-Mine": "kept"},
        observers=map(Giving, given),
    )

    await gateway.wallet.cancel_order("w-1", "o-1", headers={"x-one": "mine", "X-Call": "kept"})

    names = b"traceparent", b"x-one", b"x-mine", b"x-call"
    sent = [field for field in engine.requests[0].headers.raw if field[0].lower() in names]
    kept = (b"X-Call", b"kept"), (b"X-Mine", b"kept")
    assert sorted(sent) == [*kept, (b"X-One", b"last"), (b"traceparent", b"00-1")]


@pytest.mark.parametrize(
    "fields",
    [
        {"Authorization": "Bearer mine"},
        {"TOKEN": "mine"},
        {"tenantid": "mine"},
        {"Host": "mine"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"X-One": "two\r\nlines"},
        {"X One": "no name"},
        {"X-One": ""},
        {"X-One": 5},
        {5: "five"},
        ["X-One"],
        "X-One: text",
        Undecided(),
        lambda _: 1 / 0,
    ],
)
async def test_fields_that_must_not_be_set_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fields: Any
) -> None:
    gateway, engine, _ = scripted(
        monkeypatch,
        status(200),
        token_header="tok",
        observers=[Giving({"X-Fine": "1"}), Giving(fields), Giving({"X-Too": "2"})],
    )

    await CALLS["cancel_order"](gateway)

    headers = engine.requests[0].headers
    assert headers["Authorization"] == "Bearer token-1"
    assert (headers["token"], headers["tenantId"]) == ("tok", "acme")
    assert (headers["Host"], headers["X-Fine"], headers["X-Too"]) == ("gateway.test", "1", "2")
    assert "X-One" not in headers
    assert len(headers.get_list("Authorization")) == len(headers.get_list("token")) == 1
    assert [record.getMessage() for record in caplog.records] == ["an observer failed"]
    assert "mine" not in caplog.text


HOOKS = ("call_started", "attempt_started", "attempt_finished", "call_finished")


async def test_observers_stand_one_within_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is told first of what starts and last of what has ended, as `with` does it."""
    told: list[tuple[str, str]] = []

    def named(name: str) -> Observer:
        noting: dict[str, Any] = {
            hook: lambda *_, hook=hook: told.append((hook, name)) for hook in HOOKS
        }
        made: Observer = type("Named", (Observer,), noting)()
        return made

    observers = [named("outer"), named("inner")]
    gateway, _, _ = scripted(monkeypatch, status(200), observers=observers)

    await CALLS["cancel_order"](gateway)

    assert told == [
        (hook, name)
        for hook in HOOKS
        for name in (("outer", "inner") if "started" in hook else ("inner", "outer"))
    ]
