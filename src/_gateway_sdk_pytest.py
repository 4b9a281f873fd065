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
MARKERS = (
    "gateway(seed=0, strict=False, allow=[], keep_bodies=False, session={}): options of a gateway",
    "gateway_fault(operation, fault, *values, at=None, times=None, rate=1.0): a fault of a gateway",
)
PASSED = pytest.StashKey[bool]()
# What the marker `gateway` takes: the default, the type, and its name.
OPTIONS: Mapping[str, tuple[Any, Any, str]] = {
    "seed": (0, int, "a whole number"),
    "strict": (False, bool, "True or False"),
    "allow": ((), (list, tuple, set, frozenset), "a list of operations, such as ['cancel_order']"),
    "keep_bodies": (False, bool, "True or False"),
    "session": ({}, Mapping, "a mapping of settings, such as {'deadline': 5}"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers: `--strict-markers` refuses others."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a fault of a test that has no gateway: the test would pass without it."""
    names = {"gateway_sandbox", "gateway_tenant", "request"}  # `request` may get any fixture
    own = {mark.name for mark in item.own_markers if _fails_without_a_gateway(mark)}
    if own and names.isdisjoint(getattr(item, "fixturenames", ())):
        raise pytest.UsageError(
            f"{item.nodeid}: {min(own)} has no effect here, because the test uses none of"
            " gateway_sandbox, gateway_session, gateway_url, gateway_env, gateway_tenant"
        )


def _fails_without_a_gateway(mark: pytest.Mark) -> bool:
    # A project may have its own marker `gateway`.
    is_strict = mark.kwargs.get("strict") and mark.kwargs.keys() <= OPTIONS.keys()
    return mark.name == "gateway_fault" or (mark.name == "gateway" and bool(is_strict))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None]:
    """Note whether a test passed: one that was skipped or failed may not have made its calls."""
    outcome: Any = yield
    item.stash[PASSED] = call.when == "call" and outcome.get_result().passed


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
        "base_url": "http://localhost",
        "access_token": SANDBOX_ACCESS_TOKEN,
        "tenant_id": TENANT,
        "transport": gateway_sandbox.transport(),
        "sleep": _wait_no_time,
        **options["session"],
    }
    return GatewaySession(**settings)


@pytest.fixture
def gateway_url(gateway_sandbox: "Sandbox") -> Iterator[str]:
    """Provide the address of the gateway, which another thread serves on a socket."""
    with gateway_sandbox.serve_in_thread() as base_url:
        yield base_url


@pytest.fixture
def gateway_no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the retries of every session that this test makes in this process wait no time."""
    from gateway_sdk import retry_policy  # noqa: PLC0415

    monkeypatch.setattr(retry_policy, "default_sleep", _wait_no_time)


@pytest.fixture
def gateway_env(
    gateway_url: str,
    monkeypatch: pytest.MonkeyPatch,
    gateway_no_waits: None,  # noqa: ARG001 - for the sessions of the code under test
) -> dict[str, str]:
    """Set the environment variables of `GatewaySession.from_env` to the gateway at `gateway_url`.

    Other variables that `from_env` reads are removed. Retries wait no time.
    """
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN  # noqa: PLC0415
    from gateway_sdk.session import ENVIRONMENT  # noqa: PLC0415

    given = {"base_url": gateway_url, "access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": TENANT}
    for variable in ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)
    variables = {ENVIRONMENT[name]: value for name, value in given.items()}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    return variables


@pytest.fixture(scope="session")
def gateway_server() -> Iterator["SandboxServer"]:
    """Provide one server for the whole run; its method `tenant` adds a tenant for one test."""
    from gateway_sdk.sandbox import SandboxServer  # noqa: PLC0415

    with SandboxServer.start() as server:
        yield server


@pytest.fixture
def gateway_tenant(
    request: pytest.FixtureRequest, gateway_server: "SandboxServer"
) -> Iterator["SandboxTenant"]:
    """Provide a tenant of `gateway_server` for this test only; markers apply to it."""
    options, faults = _read_markers(request)
    given = {name: options[name] for name in ("seed", "keep_bodies")}
    tenant = gateway_server.tenant(faults=faults, **given)
    try:
        with _checked(request, tenant.sandbox, options):
            yield tenant
    finally:
        gateway_server.remove(tenant)


def _read_markers(request: pytest.FixtureRequest) -> "tuple[dict[str, Any], Faults]":
    """Return what the markers of the test ask for; a later one replaces single options."""
    options = {name: default for name, (default, *_) in OPTIONS.items()}
    for mark in _marks_of(request.node, "gateway"):
        if mark.args or not mark.kwargs.keys() <= OPTIONS.keys():
            raise TypeError(f"gateway() takes only these keyword arguments: {', '.join(OPTIONS)}")
        for name, value in mark.kwargs.items():
            _, kind, words = OPTIONS[name]
            if not isinstance(value, kind):
                raise TypeError(f"gateway({name}=) takes {words}, not {type(value).__name__}")
        options |= mark.kwargs
    return options, _faults_of(_marks_of(request.node, "gateway_fault"), options["seed"])


def _marks_of(test: pytest.Item, name: str) -> list[pytest.Mark]:
    """Return the markers from the outermost to those of the parameter, each as they are written."""
    own = getattr(getattr(test, "callspec", None), "marks", ())
    marks: list[pytest.Mark] = []
    for node in test.listchain():
        there = [mark for mark in node.own_markers if not any(mark is one for one in own)]
        # A file has a list; decorators are kept from the lowest to the highest.
        marks += there if isinstance(node, pytest.Module) else reversed(there)
    return [mark for mark in [*marks, *own] if mark.name == name]


def _faults_of(marks: list[pytest.Mark], seed: int) -> "Faults":
    from gateway_sdk.sandbox import Fault, Faults  # noqa: PLC0415

    faults = Faults(seed=seed)
    for mark in marks:
        if len(mark.args) < 2:  # noqa: PLR2004 - the operation and the fault
            raise TypeError("gateway_fault() takes an operation and the name of a fault")
        operation, kind, *values = mark.args
        more = dict(mark.kwargs)
        when = {name: more.pop(name) for name in ("at", "times", "rate") if name in more}
        fault = Fault.of_kind(kind, *values, **more)
        if operation == "*":
            faults.anywhere(fault, **when)
        else:
            faults.on(operation, fault, **when)
    return faults


@contextmanager
def _checked(
    request: pytest.FixtureRequest, sandbox: "Sandbox", options: Mapping[str, Any]
) -> Generator[None]:
    """Check at the end of a strict test what the sandbox received, if the test passed."""
    sandbox.allow(*options["allow"])
    failed = request.session.testsfailed  # subtests fail without the test
    yield
    failed = request.session.testsfailed - failed
    if options["strict"] and request.node.stash.get(PASSED, False) and not failed:
        sandbox.assert_as_expected()


async def _wait_no_time(_: float) -> None:
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(0)
