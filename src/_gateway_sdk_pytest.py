"""The pytest plugin: the sandbox as fixtures and markers. docs/testing.md describes them.

pytest loads this module in every run on a machine that has the SDK installed. So it is not part of
the package, and its functions import what they need: the package takes half a second.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
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
READ = pytest.StashKey[bool]()  # whether a gateway of the test has read its markers
STOPPED = pytest.StashKey[bool]()
# What the marker `gateway` takes: the default, the type, and the type in words. No type checker
# sees the arguments of a marker.
OPTIONS: Mapping[str, tuple[Any, Any, str]] = {
    "seed": (0, int, "a whole number"),
    "strict": (False, bool, "True or False"),
    "allow": ((), (list, tuple, set), "a list of operations"),
    "keep_bodies": (False, bool, "True or False"),
    "session": ({}, Mapping, "a dictionary of settings"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers: `--strict-markers` refuses others."""
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker of a test that uses no gateway, where it would do nothing.

    Its fixtures are made by now: one may have called `request.getfixturevalue`, as the test may.
    """
    names = {mark.name for mark in item.own_markers if _is_ours(mark)}
    own = getattr(item, "funcargs", {})
    if names and READ not in item.stash and "request" not in own:
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
    options, faults = _read_markers(request)
    from gateway_sdk.sandbox import Sandbox  # noqa: PLC0415 - as everywhere in this file

    sandbox = Sandbox(faults=faults, seed=options["seed"], keep_bodies=options["keep_bodies"])
    with _checked(request, sandbox, options):
        yield sandbox


@pytest.fixture
def gateway_session(request: pytest.FixtureRequest, gateway_sandbox: "Sandbox") -> "GatewaySession":
    """Provide a session on the gateway in memory, not yet opened; retries wait no time.

    The argument `session` of the marker `gateway` gives it other settings.
    """
    from gateway_sdk import GatewaySession  # noqa: PLC0415
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415

    options, _ = _read_markers(request)
    settings: dict[str, Any] = {
        "access_token": SANDBOX_ACCESS_TOKEN,
        "tenant_id": TENANT,
        "transport": gateway_sandbox.transport(),
        "sleep": _wait_no_time,
        **options["session"],
    }
    with _naming(request):
        return GatewaySession("http://localhost", **settings)


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
    with _naming(request):
        from gateway_sdk.sandbox import SandboxServer  # noqa: PLC0415

    with SandboxServer.start() as server:
        yield server


@pytest.fixture
def gateway_tenant(
    request: pytest.FixtureRequest, gateway_server: "SandboxServer"
) -> Iterator["SandboxTenant"]:
    """Provide a tenant of `gateway_server` for this test only; markers apply to it."""
    options, faults = _read_markers(request)
    given = {"seed": options["seed"], "keep_bodies": options["keep_bodies"]}
    tenant = gateway_server.tenant(faults=faults, **given)
    try:
        with _checked(request, tenant.sandbox, options):
            yield tenant
    finally:
        gateway_server.remove(tenant)


def _is_ours(mark: pytest.Mark) -> bool:
    """Tell whether a marker is one of this plugin: a project may have its own `gateway`."""
    if mark.name != "gateway":
        return mark.name == "gateway_fault"
    return not mark.args and bool(mark.kwargs) and mark.kwargs.keys() <= OPTIONS.keys()


def _read_markers(request: pytest.FixtureRequest) -> "tuple[dict[str, Any], Faults]":
    """Return what the markers of the test ask for; those of its parameter come last."""
    request.node.stash[READ] = True
    own = getattr(getattr(request.node, "callspec", None), "marks", ())  # as they are written
    marks: list[pytest.Mark] = []
    for node in request.node.listchain():
        there = [mark for mark in node.own_markers if not any(mark is one for one in own)]
        # A file has a list; decorators are kept from the lowest to the highest.
        marks += there if isinstance(node, pytest.Module) else reversed(there)
    marks += own
    with _naming(request):
        options = _options_of([mark for mark in marks if mark.name == "gateway"])
        faults = [mark for mark in marks if mark.name == "gateway_fault"]
        return options, _faults_of(faults, options["seed"])


@contextmanager
def _naming(request: pytest.FixtureRequest) -> Generator[None]:
    """Raise a wrong marker, or the missing extra, as an error of usage that names the test."""
    try:
        yield
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        place = request.node.nodeid or request.fixturename
        raise pytest.UsageError(f"{place}: {error}") from None


def _options_of(marks: list[pytest.Mark]) -> dict[str, Any]:
    """Merge several markers `gateway`: a later one replaces single options of an earlier one."""
    options = {name: default for name, (default, _, _) in OPTIONS.items()}
    for mark in marks:
        if mark.args or not mark.kwargs.keys() <= OPTIONS.keys():
            raise TypeError(f"gateway() takes keyword arguments only: {', '.join(OPTIONS)}")
        options |= mark.kwargs
    for name, (_, kind, described) in OPTIONS.items():
        _check_type(name, options[name], kind, described)
    return options


def _faults_of(marks: list[pytest.Mark], seed: int) -> "Faults":
    from gateway_sdk.sandbox import Fault, Faults  # noqa: PLC0415

    faults = Faults(seed=seed)
    for mark in marks:
        if len(mark.args) < 2:  # noqa: PLR2004 - the operation and the fault
            raise TypeError("gateway_fault() takes an operation and the name of a fault")
        operation, kind, *values = mark.args
        when = {name: mark.kwargs[name] for name in ("at", "times", "rate") if name in mark.kwargs}
        _check_type("rate", when.get("rate", 1), int | float, "a number from 0 to 1")
        more = {name: mark.kwargs[name] for name in mark.kwargs.keys() - when.keys()}
        fault = Fault.of_kind(kind, *values, **more)
        if operation == "*":
            faults.anywhere(fault, **when)
        else:
            faults.on(operation, fault, **when)
    return faults


def _check_type(name: str, value: object, kind: Any, described: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {described}")


@contextmanager
def _checked(
    request: pytest.FixtureRequest, sandbox: "Sandbox", options: dict[str, Any]
) -> Generator[None]:
    """Check at the end of a strict test what the sandbox received, if it came to its end."""
    with _naming(request):
        sandbox.allow(*options["allow"])
    failed = request.session.testsfailed
    stash = request.node.stash
    stash[STOPPED] = False  # a test that is run again is the same node
    yield
    if options["strict"] and not stash[STOPPED] and request.session.testsfailed == failed:
        sandbox.assert_as_expected()


async def _wait_no_time(_: float) -> None:
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(0)
