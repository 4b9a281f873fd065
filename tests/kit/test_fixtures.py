"""What the fixtures provide, used as users use them; of this file, pytest itself is the user."""

import os
import time
from contextlib import suppress

import pytest

from gateway_sdk import (
    GatewaySession,
    InvalidArgumentError,
    NotFoundError,
    ReplyLostError,
    ServerError,
    UnauthorizedError,
)
from gateway_sdk.sandbox import Fault, Faults, Sandbox, SandboxServer, SandboxTenant
from tests.kit.conftest import Run


def of(tenant: SandboxTenant, **other: str) -> GatewaySession:
    given = {"access_token": tenant.access_token, "tenant_id": tenant.tenant_id, **other}
    return GatewaySession(
        tenant.base_url, access_token=given["access_token"], tenant_id=given["tenant_id"]
    )


@pytest.mark.gateway_fault("create_customer", "drop_after_read", at=1)
async def test_a_fault_happens_where_the_marker_says(
    gateway_sandbox: Sandbox, gateway_session: GatewaySession
) -> None:
    with pytest.raises(ReplyLostError):
        await gateway_session.customer.create_customer({"customerName": "Ada"})
    await gateway_session.customer.create_customer({"customerName": "Bob"})

    lost, _ = gateway_sandbox.assert_received("create_customer", times=2, applied=True)
    assert lost.status is None


@pytest.mark.gateway_fault("*", "unavailable", at=1)
@pytest.mark.gateway_fault("*", "status", 404)
async def test_faults_apply_in_the_order_of_the_markers(
    gateway_sandbox: Sandbox, gateway_session: GatewaySession
) -> None:
    with pytest.raises(NotFoundError):
        await gateway_session.wallet.spot_trading_available_balance()

    assert [call.status for call in gateway_sandbox.received] == [503, 404]


@pytest.mark.gateway_fault("list_countries", "too_many_requests", retry_after=30, times=2)
async def test_retries_wait_no_time(
    gateway_sandbox: Sandbox, gateway_session: GatewaySession
) -> None:
    began = time.monotonic()
    view = gateway_session.with_options(tenant_id=None)

    assert await view.country_data.list_countries()

    assert time.monotonic() - began < 30
    assert [call.status for call in gateway_sandbox.received] == [429, 429, 200]


@pytest.mark.gateway_fault("list_countries", "too_many_requests", retry_after=30, times=2)
async def test_sessions_of_the_code_under_test_wait_no_time(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox
) -> None:
    began = time.monotonic()

    async with GatewaySession.from_env() as session:
        assert await session.country_data.list_countries()

    assert time.monotonic() - began < 30
    gateway_sandbox.assert_received("list_countries", times=3)


@pytest.mark.gateway(session={"tenant_id": None, "retry": None})
async def test_a_marker_sets_options_of_the_session(gateway_session: GatewaySession) -> None:
    with pytest.raises(InvalidArgumentError, match="tenant_id is missing"):
        await gateway_session.customer.create_customer({})


def test_faults_of_a_file_happen_in_the_order_of_its_list(run_inside: Run) -> None:
    run_inside("""
pytestmark = [
    pytest.mark.gateway_fault("list_countries", "status", 501, times=1),
    pytest.mark.gateway_fault("list_countries", "status", 505),
]

def test_it(gateway_sandbox, gateway_session):
    async def call():
        for _ in range(2):
            try:
                await gateway_session.country_data.list_countries()
            except Exception:
                pass
    asyncio.run(call())
    assert [call.status for call in gateway_sandbox.received] == [501, 505]
""").assert_outcomes(passed=1)


@pytest.mark.parametrize("number", [1, 2])
async def test_tests_share_no_state(
    gateway_sandbox: Sandbox,
    gateway_session: GatewaySession,
    gateway_tenant: SandboxTenant,
    number: int,
) -> None:
    async with of(gateway_tenant) as second:
        for session in (gateway_session, second):
            created = await session.customer.create_customer({"externalCustomerId": "1"})
            assert created["customerId"] == "customer-0005"

    for sandbox in (gateway_sandbox, gateway_tenant.sandbox):
        sandbox.assert_received("create_customer", times=1)
        sandbox.faults.anywhere(Fault.unauthorized())


@pytest.fixture(scope="module")
def balances() -> dict[int, object]:
    return {}


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.gateway(seed=seed)) for seed in (7, 7, 8)]
)
async def test_the_seed_decides(
    gateway_session: GatewaySession, balances: dict[int, object], seed: int
) -> None:
    balance = await gateway_session.wallet.spot_trading_available_balance()

    assert balances.setdefault(seed, balance) == balance
    assert list(balances.values()).count(balance) == 1


@pytest.fixture(scope="module")
def statuses() -> list[list[int | None]]:
    return []


@pytest.mark.gateway(seed=3)
@pytest.mark.gateway_fault("send_webhook", "status", 501, rate=0.5)
@pytest.mark.parametrize("number", [1, 2])
async def test_the_seed_decides_of_faults_too(
    gateway_sandbox: Sandbox,
    gateway_session: GatewaySession,
    statuses: list[list[int | None]],
    number: int,
) -> None:
    for _ in range(20):
        with suppress(ServerError):
            await gateway_session.kyc.send_webhook()

    statuses.append([call.status for call in gateway_sandbox.received])
    assert statuses[0] == statuses[-1]
    assert set(statuses[0]) == {202, 501}


async def test_the_environment_is_that_of_the_gateway(
    gateway_env: dict[str, str], gateway_url: str, gateway_sandbox: Sandbox
) -> None:
    async with GatewaySession.from_env() as gateway:
        await gateway.customer.create_customer({})

    found = {name: value for name, value in os.environ.items() if name in gateway_env}
    assert found == gateway_env
    assert gateway_env["GATEWAY_BASE_URL"] == gateway_url
    gateway_sandbox.assert_received(
        "create_customer", times=1, tenant=gateway_env["GATEWAY_TENANT_ID"]
    )


def test_the_environment_of_the_developer_is_put_away(
    run_inside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_HEADER", "real")
    tests = """
import os

def test_it(gateway_env):
    assert "GATEWAY_TOKEN_HEADER" not in os.environ
"""

    run_inside(tests).assert_outcomes(passed=1)

    assert os.environ["GATEWAY_TOKEN_HEADER"] == "real"
    assert "GATEWAY_BASE_URL" not in os.environ


@pytest.mark.gateway(seed=5, strict=True, keep_bodies=True)
@pytest.mark.gateway_fault("cancel_order", "status", 404)
async def test_markers_apply_to_the_tenant(gateway_tenant: SandboxTenant) -> None:
    async with of(gateway_tenant) as gateway:
        await gateway.customer.create_customer({"customerName": "Ada"})
        with pytest.raises(NotFoundError):
            await gateway.wallet.cancel_order("wallet-0004", "order-0056")

    gateway_tenant.sandbox.assert_received("create_customer", json={"customerName": "Ada"})


async def test_tenants_are_told_apart_by_header_or_token(gateway_server: SandboxServer) -> None:
    faults = Faults().on("list_countries", Fault.status(501))
    one, two = gateway_server.tenant(faults=faults), gateway_server.tenant()
    async with (
        of(one) as first,
        of(two) as second,
        of(one, access_token=gateway_server.access_token) as service,
    ):
        with pytest.raises(Exception, match="501"):
            await first.country_data.list_countries()
        await second.country_data.list_countries()
        await service.wallet.spot_trading_available_balance()
        await service.country_data.list_countries()
        stranger = first.with_options(access_token=two.access_token, retry=None)
        with pytest.raises(UnauthorizedError):
            await stranger.wallet.spot_trading_available_balance()

    assert [call.operation for call in one.sandbox.received] == [
        "list_countries",
        "spot_trading_available_balance",
        "spot_trading_available_balance",
    ]
    two.sandbox.assert_received("list_countries", times=1, applied=True)
    gateway_server.sandbox.assert_received("list_countries", applied=True)
    gateway_server.remove(one)
    async with of(one) as removed:
        with pytest.raises(UnauthorizedError):
            await removed.wallet.spot_trading_available_balance()


def test_no_repr_shows_a_token(gateway_server: SandboxServer) -> None:
    tenant = gateway_server.tenant()

    assert tenant.access_token not in repr(tenant)


def test_a_failure_shows_no_value_of_a_request(run_inside: Run) -> None:
    """Not the expected ones either, which pytest would show as arguments of the SDK's functions."""
    tests = """
@pytest.mark.gateway(keep_bodies=True)
def test_it(gateway_sandbox):
    gateway_sandbox.assert_received("create_customer", tenant="-".join(["can", "ary"]))
"""

    ended = run_inside(tests)

    ended.assert_outcomes(failed=1)
    ended.stdout.no_fnmatch_line("*can-ary*")


def test_a_server_is_gone_after_its_test(run_inside: Run) -> None:
    tests = """
import threading

addresses = []

def test_it(gateway_url, gateway_server):
    addresses.append(gateway_url)
    assert threading.active_count() > 2

def test_afterwards():
    import httpx
    with pytest.raises(httpx.ConnectError):
        httpx.get(addresses[0], trust_env=False, timeout=60)
"""
    ended = run_inside(tests)

    ended.assert_outcomes(passed=2)


def test_without_the_extra_the_error_says_what_to_install(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest("import sys; sys.modules['starlette'] = None")
    tests = """
def test_without():
    pass

@pytest.mark.parametrize("name", [
    "gateway_sandbox", "gateway_session", "gateway_url", "gateway_env", "gateway_server",
    "gateway_tenant",
])
def test_with(request, name):
    request.getfixturevalue(name)
"""

    ended = run_apart(tests)

    ended.assert_outcomes(passed=1, failed=6)
    advice = "the sandbox needs the extra [[]sandbox]: pip install 'gateway-sdk[[]sandbox]'"
    ended.stdout.fnmatch_lines([f"E *MissingExtraError: {advice}"] * 6)
