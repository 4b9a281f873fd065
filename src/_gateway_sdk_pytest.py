"""The pytest plugin: the sandbox as fixtures and markers. docs/testing.md describes them.

pytest loads this module in every run of everyone who has the SDK installed. So it stands beside the
package, and its functions import what they need: the package takes half a second.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gateway_sdk import GatewaySession
    from gateway_sdk.sandbox import Sandbox, SandboxServer, SandboxTenant
    from gateway_sdk.sandbox._markers import Options

TENANT = "test-tenant"
MARKERS = {
    "gateway(seed=0, strict=False, allow=[], keep_bodies=False)": "how the gateway of this test "
    "is. A strict test fails at its end if a call was not allowed or a fault never happened.",
    "gateway_fault(operation, fault, *values, at=None, times=None, rate=1.0)": "a fault of the "
    'gateway of this test, such as ("create_customer", "drop_after_read", at=1). The operation "*" '
    "means all.",
}
# What the extra [sandbox] installs, as modules.
EXTRA = ("babel", "countryinfo", "currency_converter", "starlette", "uvicorn")
OBEYING = {"gateway_sandbox", "gateway_tenant"}
# The arguments of the marker `gateway`: a project may have a marker of its own of this name.
ARGUMENTS = {"seed", "strict", "allow", "keep_bodies"}
STOPPED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers: `--strict-markers` refuses others."""
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker of a test that uses no gateway, where it would do nothing."""
    names = {mark.name for mark in item.own_markers if _is_ours(mark)}
    if names and OBEYING.isdisjoint(getattr(item, "fixturenames", ())):
        raise pytest.UsageError(
            f"{item.nodeid}: the marker {min(names)} has no effect here, because the test uses "
            "none of gateway_sandbox, gateway_session, gateway_url, gateway_env, gateway_tenant"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note that a test was skipped or failed: then it may not have made its calls."""
    if call.excinfo is not None:
        item.stash[STOPPED] = True


@pytest.fixture
def gateway_sandbox(request: pytest.FixtureRequest) -> Iterator["Sandbox"]:
    """Provide a gateway in memory, for this test only."""
    options = _options(request)
    from gateway_sdk.sandbox import Sandbox  # noqa: PLC0415 - as everywhere in this file

    sandbox = Sandbox(faults=options.faults, seed=options.seed, keep_bodies=options.keep_bodies)
    with _checked(request, sandbox, options):
        yield sandbox


@pytest.fixture
def gateway_session(gateway_sandbox: "Sandbox") -> "GatewaySession":
    """Provide a session on the gateway in memory, not yet opened; retries wait no time."""
    from gateway_sdk import GatewaySession  # noqa: PLC0415
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415

    session = GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id=TENANT,
        transport=gateway_sandbox.transport(),
    )
    vars(session)["_caller"].client.sleep = _wait_no_time
    return session


@pytest.fixture
def gateway_url(gateway_sandbox: "Sandbox") -> Iterator[str]:
    """Provide the address of the gateway, which another thread serves on a socket."""
    with gateway_sandbox.serve_in_thread() as base_url:
        yield base_url


@pytest.fixture
def gateway_env(gateway_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Set the environment variables of `GatewaySession.from_env` to the gateway at `gateway_url`.

    Other variables that `from_env` reads are removed, GATEWAY_ENGINE excepted.
    """
    from gateway_sdk._config import ENVIRONMENT  # noqa: PLC0415
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415

    given = {"base_url": gateway_url, "access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": TENANT}
    for name, variable in ENVIRONMENT.items():
        if name != "engine":
            monkeypatch.delenv(variable, raising=False)
    variables = {ENVIRONMENT[name]: value for name, value in given.items()}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    return variables


@pytest.fixture(scope="session")
def gateway_server(request: pytest.FixtureRequest) -> Iterator["SandboxServer"]:
    """Provide one server for the whole run; its method `tenant` adds a tenant for one test."""
    _require_extra(request)
    from gateway_sdk.sandbox import SandboxServer  # noqa: PLC0415

    with SandboxServer.start() as server:
        yield server


@pytest.fixture
def gateway_tenant(
    request: pytest.FixtureRequest, gateway_server: "SandboxServer"
) -> Iterator["SandboxTenant"]:
    """Provide a tenant of `gateway_server` for this test only; markers apply to it."""
    options = _options(request)
    tenant = gateway_server.tenant(
        seed=options.seed, faults=options.faults, keep_bodies=options.keep_bodies
    )
    with _checked(request, tenant.sandbox, options):
        yield tenant
    gateway_server.remove(tenant)


def _is_ours(mark: pytest.Mark) -> bool:
    """Tell whether a marker can only be one of this plugin."""
    if mark.name != "gateway":
        return mark.name == "gateway_fault"
    return not mark.args and bool(mark.kwargs) and mark.kwargs.keys() <= ARGUMENTS


def _options(request: pytest.FixtureRequest) -> "Options":
    """Return what the markers of the test ask for; those of the test itself come last."""
    _require_extra(request)
    from gateway_sdk.sandbox._markers import read_markers  # noqa: PLC0415

    marks = [mark for mark in request.node.iter_markers() if mark.name.startswith("gateway")]
    marks.reverse()
    try:
        return read_markers(
            [mark for mark in marks if mark.name == "gateway"],
            [mark for mark in marks if mark.name == "gateway_fault"],
        )
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{request.node.nodeid}: {error}") from None


@contextmanager
def _checked(
    request: pytest.FixtureRequest, sandbox: "Sandbox", options: "Options"
) -> Generator[None]:
    """Check at the end of a strict test what the sandbox received, if it came to its end."""
    try:
        sandbox.allow(*options.allow)
    except ValueError as error:
        raise pytest.UsageError(f"{request.node.nodeid}: {error}") from None
    failed = request.session.testsfailed
    stash = request.node.stash
    stash[STOPPED] = False  # a test that is run again is the same node
    yield
    if options.strict and not stash[STOPPED] and request.session.testsfailed == failed:
        sandbox.assert_as_expected()


def _require_extra(request: pytest.FixtureRequest) -> None:
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise pytest.UsageError(
            f"{request.node.nodeid or 'gateway_server'}: the fixtures of gateway_sdk need the "
            f"extra [sandbox], {missing[0]} is missing: pip install '.[sandbox]'"
            " in a clone of gateway_sdk"
        )


async def _wait_no_time(_: float) -> None:
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(0)
