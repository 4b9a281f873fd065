"""A session, calls and an observer that are full of canaries."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest
from pydantic import SecretStr

from gateway_sdk import (
    Attempt,
    CallInfo,
    GatewaySession,
    Multipart,
    Observer,
    Outcome,
    RateLimit,
    RetryPolicy,
    operations,
)
from gateway_sdk.models import CreateRequest, Name, PersonData, SecretQuestionItem
from tests.support.secrecy import CANARY

THEIRS: Final = "canary-0815"
"""Stands in all that the gateway says."""


class Source:
    """Has a new token for each one that is rejected."""

    count = 0

    async def token(self, rejected: object = None) -> str:
        self.count += rejected is not None
        return f"{CANARY}-token-{self.count}"


class Listener(Observer):
    """Keeps the texts of all that it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def _hear(self, *told: object) -> None:
        self.heard += [f"{thing} {thing!r}" for thing in told]

    def call_started(self, call: CallInfo) -> None:
        self._hear(call)

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        self._hear(call, attempt)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        self._hear(call, attempt, seconds)

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        self._hear(call, outcome, error, elapsed)


def session(url: str, **options: Any) -> GatewaySession:
    given = {
        "access_token": Source(),
        "tenant_id": f"{CANARY}-tenant",
        "token_header": f"{CANARY}-header",
        "headers": {"X-Key": f"{CANARY}-key"},
        "retry": RetryPolicy(attempts=2, connect_wait=0.0),
        "sleep": AsyncMock(),
        "rate_limit": RateLimit(1000),
        "proxy": None,
    }
    return GatewaySession(url, **{**given, **options})


Call = Callable[[GatewaySession, Path], Coroutine[Any, Any, Any]]

CUSTOMER: Final = CreateRequest(
    person=PersonData(
        first_name=Name(name=CANARY),
        email=CANARY,
        password=SecretStr(CANARY),
        pin_code=SecretStr(CANARY),
        secret_question=[SecretQuestionItem(question=CANARY, answer=SecretStr(CANARY))],
    )
)
SECRET_CALLS: dict[str, Call] = {
    "create": lambda gateway, _: gateway.customer.create_customer(CUSTOMER),
    "revise": lambda gateway, _: gateway.customer.revise_customer(CANARY, {CANARY: CANARY}),
    "cancel": lambda gateway, _: gateway.wallet.cancel_order(CANARY, CANARY),
    "file": lambda gateway, path: gateway.aml.upload_document(path),
    "form": lambda gateway, path: gateway.aml.upload_document(
        Multipart({CANARY: CANARY}, {CANARY: (CANARY, path, f"text/{CANARY}")})
    ),
    "JSON": lambda gateway, _: gateway.aml.update_document(CANARY, {CANARY: CANARY}),
    "typed": lambda gateway, _: gateway.aml.update_document(CANARY, b"x", f"text/{CANARY}"),
    "rates": lambda gateway, _: gateway.currency.exchange_rate_series(
        CANARY, [CANARY], CANARY, CANARY
    ),
    "into": lambda gateway, _: gateway.send(
        operations.TRADING_ORDER_HISTORY, path={"customerId": CANARY}, into=dict[str, str]
    ),
}


@asynccontextmanager
async def everything_logged(
    caplog: pytest.LogCaptureFixture,
) -> AsyncIterator[list[logging.LogRecord]]:
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    try:
        yield caplog.records
    finally:
        loop.set_debug(False)


def parts_of(gateway: GatewaySession) -> list[object]:
    core = gateway._caller.shared
    return [gateway.with_options(), core, core._engine, core._transport, core._bucket]
