"""The pytest plugin: the sandbox as fixtures and markers. docs/testing.md describes them.

pytest loads this module in every run on a machine that has the SDK installed. So it is not part of
the package, and its functions import what they need: the package takes half a second.
"""

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gateway_sdk import GatewaySession
    from gateway_sdk.sandbox import Faults, Sandbox, SandboxServer, SandboxTenant

TENANT = "test-tenant"
MARKERS = {
    "gateway(seed=0, strict=False, allow=[], keep_bodies=False, session={})": "how the gateway of "
    "this test is. A strict test fails at its end if a call was not allowed or a fault never "
    "happened.",
    "gateway_fault(operation, fault, *values, at=None, times=None, rate=1.0)": "a fault of the "
    'gateway of this test, such as ("create_customer", "drop_after_read", at=1). The operation "*" '
    "means all.",
}
# What the extra [sandbox] installs, as modules.
EXTRA = ("babel", "countryinfo", "currency_converter", "starlette", "uvicorn")
OBEYING = {"gateway_sandbox", "gateway_tenant"}
EVERY_OPERATION = "*"
STOPPED = pytest.StashKey[bool]()


@dataclass(kw_only=True)
class GatewayMarker:
    """The arguments of the marker `gateway`: how the gateway of a test is.

    Attributes:
        seed: The seed of its data and of its faults.
        strict: Whether what was not expected fails the test at its end.
        allow: The operations that a strict test allows.
        keep_bodies: Whether the bodies of calls are kept.
        session: Settings of `gateway_session` in place of the usual ones.
    """

    seed: int = 0
    strict: bool = False
    allow: Collection[str] = ()
    keep_bodies: bool = False
    session: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the types: no type checker sees the arguments of a marker."""
        _check_type("seed", self.seed, int, "a whole number")
        _check_type("strict", self.strict, bool, "True or False")
        _check_type("allow", self.allow, list | tuple | set, "a list of operations")
        _check_type("keep_bodies", self.keep_bodies, bool, "True or False")
        _check_type("session", self.session, Mapping, "a dictionary of settings")


ARGUMENTS = tuple(each.name for each in fields(GatewayMarker))


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


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note that a test was skipped or failed: then it may not have made its calls.

    Not `tryfirst`: pytest's hook for unittest is, and tells what became of those tests.
    """
    if call.excinfo is not None:
        item.stash[STOPPED] = True


@pytest.fixture
def gateway_sandbox(request: pytest.FixtureRequest) -> Iterator["Sandbox"]:
    """Provide a gateway in memory, for this test only."""
    marker, faults = _read_markers(request)
    from gateway_sdk.sandbox import Sandbox  # noqa: PLC0415 - as everywhere in this file

    sandbox = Sandbox(faults=faults, seed=marker.seed, keep_bodies=marker.keep_bodies)
    with _checked(request, sandbox, marker):
        yield sandbox


@pytest.fixture
def gateway_session(request: pytest.FixtureRequest, gateway_sandbox: "Sandbox") -> "GatewaySession":
    """Provide a session on the gateway in memory, not yet opened; retries wait no time.

    The argument `session` of the marker `gateway` gives it other settings.
    """
    from gateway_sdk import GatewaySession  # noqa: PLC0415
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415

    marker, _ = _read_markers(request)
    settings: dict[str, Any] = {
        "access_token": SANDBOX_ACCESS_TOKEN,
        "tenant_id": TENANT,
        "transport": gateway_sandbox.transport(),
        "sleep": _wait_no_time,
        **marker.session,
    }
    try:
        return GatewaySession("http://localhost", **settings)
    except ValueError as error:
        raise pytest.UsageError(f"{request.node.nodeid}: {error}") from None


@pytest.fixture
def gateway_url(gateway_sandbox: "Sandbox") -> Iterator[str]:
    """Provide the address of the gateway, which another thread serves on a socket."""
    with gateway_sandbox.serve_in_thread() as base_url:
        yield base_url


@pytest.fixture
def gateway_no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the retries of every session that this test makes in this process wait no time."""
    from gateway_sdk._call.shared_state import SHARED  # noqa: PLC0415

    _, check = SHARED["sleep"]
    monkeypatch.setitem(SHARED, "sleep", (_wait_no_time, check))


@pytest.fixture
def gateway_env(
    gateway_url: str,
    monkeypatch: pytest.MonkeyPatch,
    gateway_no_waits: None,  # noqa: ARG001 - for the sessions of the code under test
) -> dict[str, str]:
    """Set the environment variables of `GatewaySession.from_env` to the gateway at `gateway_url`.

    Other variables that `from_env` reads are removed. Retries wait no time.
    """
    from gateway_sdk._settings import ENVIRONMENT  # noqa: PLC0415
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415

    given = {"base_url": gateway_url, "access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": TENANT}
    for variable in ENVIRONMENT.values():
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
    marker, faults = _read_markers(request)
    tenant = gateway_server.tenant(seed=marker.seed, faults=faults, keep_bodies=marker.keep_bodies)
    try:
        with _checked(request, tenant.sandbox, marker):
            yield tenant
    finally:
        gateway_server.remove(tenant)


def _is_ours(mark: pytest.Mark) -> bool:
    """Tell whether a marker is one of this plugin: a project may have its own `gateway`."""
    if mark.name != "gateway":
        return mark.name == "gateway_fault"
    return not mark.args and bool(mark.kwargs) and mark.kwargs.keys() <= set(ARGUMENTS)


def _read_markers(request: pytest.FixtureRequest) -> "tuple[GatewayMarker, Faults]":
    """Return what the markers of the test ask for; those of its parameter come last."""
    _require_extra(request)
    own = getattr(getattr(request.node, "callspec", None), "marks", ())  # as they are written
    marks: list[pytest.Mark] = []
    for node in request.node.listchain():
        there = [mark for mark in node.own_markers if not any(mark is one for one in own)]
        # A file has a list; decorators are kept from the lowest to the highest.
        marks += there if isinstance(node, pytest.Module) else reversed(there)
    marks += own
    try:
        marker = _marker_of([mark for mark in marks if mark.name == "gateway"])
        return marker, _faults_of(
            [mark for mark in marks if mark.name == "gateway_fault"], marker.seed
        )
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{request.node.nodeid}: {error}") from None


def _marker_of(marks: list[pytest.Mark]) -> GatewayMarker:
    """Merge several markers `gateway`: a later one replaces single arguments of an earlier one."""
    merged: dict[str, Any] = {}
    for mark in marks:
        if mark.args or not mark.kwargs.keys() <= set(ARGUMENTS):
            raise TypeError(f"gateway() takes keyword arguments only: {', '.join(ARGUMENTS)}")
        merged |= mark.kwargs
    return GatewayMarker(**merged)


def _faults_of(marks: list[pytest.Mark], seed: int) -> "Faults":
    from gateway_sdk.sandbox import Faults  # noqa: PLC0415

    faults = Faults(seed=seed)
    for mark in marks:
        if len(mark.args) < 2:  # noqa: PLR2004 - the operation and the fault
            raise TypeError("gateway_fault() takes an operation and the name of a fault")
        _add_fault(faults, *mark.args, **mark.kwargs)
    return faults


def _add_fault(
    faults: "Faults",
    operation: str,
    kind: str,
    *values: Any,
    at: int | None = None,
    times: int | None = None,
    rate: float = 1.0,
    **more: Any,
) -> None:
    from gateway_sdk.sandbox import Fault  # noqa: PLC0415

    _check_type("rate", rate, int | float, "a number from 0 to 1")
    fault = Fault.of_kind(kind, *values, **more)
    if operation == EVERY_OPERATION:
        faults.anywhere(fault, at=at, times=times, rate=rate)
    else:
        faults.on(operation, fault, at=at, times=times, rate=rate)


def _check_type(name: str, value: object, kind: Any, described: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {described}")


@contextmanager
def _checked(
    request: pytest.FixtureRequest, sandbox: "Sandbox", marker: GatewayMarker
) -> Generator[None]:
    """Check at the end of a strict test what the sandbox received, if it came to its end."""
    try:
        sandbox.allow(*marker.allow)
    except ValueError as error:
        raise pytest.UsageError(f"{request.node.nodeid}: {error}") from None
    failed = request.session.testsfailed
    stash = request.node.stash
    stash[STOPPED] = False  # a test that is run again is the same node
    yield
    if marker.strict and not stash[STOPPED] and request.session.testsfailed == failed:
        sandbox.assert_as_expected()


def _require_extra(request: pytest.FixtureRequest) -> None:
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise pytest.UsageError(
            f"{request.node.nodeid or 'gateway_server'}: the fixtures of gateway_sdk need the "
            f"extra [sandbox], {missing[0]} is missing: pip install 'gateway-sdk[sandbox]'"
        )


async def _wait_no_time(_: float) -> None:
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(0)
