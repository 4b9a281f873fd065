"""The fixtures work under every way of running asynchronous tests."""

import pytest

from tests.kit.conftest import ALONE, USUAL, Run

# Unset, it is a warning.
LOOPS = ("-o", "asyncio_default_fixture_loop_scope=function")
STEPS = """
async def balance(session):
    async with session as gateway:
        return await gateway.wallet.spot_trading_available_balance()


async def over_a_socket():
    from gateway_sdk import GatewaySession
    return await balance(GatewaySession.from_env())


async def of_a_tenant(tenant):
    from gateway_sdk import GatewaySession
    return await balance(GatewaySession(
        tenant.base_url, access_token=tenant.access_token, tenant_id=tenant.tenant_id
    ))
"""

USE = """
async def {name}(gateway_sandbox, gateway_session, gateway_url, gateway_env, gateway_tenant):
    assert not gateway_sandbox.received
    assert await balance(gateway_session) == await over_a_socket()
    assert await of_a_tenant(gateway_tenant)
    gateway_sandbox.assert_received("spot_trading_available_balance", times=2, applied=True)
    gateway_tenant.sandbox.assert_received("spot_trading_available_balance", times=1)
    assert gateway_env["GATEWAY_BASE_URL"] == gateway_url
"""


def uses(mark: str = "") -> str:
    return STEPS + "".join(mark + USE.format(name=f"test_{number}") for number in range(2))


@pytest.mark.parametrize(
    "import_mode", ["importlib", pytest.param("prepend", marks=pytest.mark.full)]
)
def test_pytest_asyncio_in_auto_mode(run_apart: Run, import_mode: str) -> None:
    mode = ("-o", "asyncio_mode=auto", f"--import-mode={import_mode}")

    ended = run_apart(uses(), *LOOPS, *mode, plugins=("asyncio",))

    ended.assert_outcomes(passed=2)


def test_pytest_asyncio_in_strict_mode_with_every_scope_of_loops(run_apart: Run) -> None:
    """The fixtures have no loop, so a test may run in the loop of its class, module or session."""
    scopes = ("function", "class", "module", "package", "session")
    tests = "".join(
        f'\n\n@pytest.mark.asyncio(loop_scope="{scope}"){USE.format(name=f"test_{scope}_{each}")}'
        for scope in scopes
        for each in range(2)
    )

    ended = run_apart(STEPS + tests, "-o", "asyncio_mode=strict", *LOOPS, plugins=("asyncio",))

    ended.assert_outcomes(passed=10)


def test_the_plugin_of_anyio(run_apart: Run) -> None:
    """Its backend asyncio is enough; the thread of the server does not disturb it."""
    backend = "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"

    ended = run_apart(backend + uses("\n@pytest.mark.anyio"), plugins=("anyio",))

    ended.assert_outcomes(passed=2)


def test_no_plugin_at_all(run_apart: Run) -> None:
    tests = (
        USE.format(name="use")
        + """
names = ["gateway_sandbox", "gateway_session", "gateway_url", "gateway_env", "gateway_tenant"]

def test_it(request):
    asyncio.run(use(*map(request.getfixturevalue, names)))
"""
    )
    ended = run_apart(STEPS + tests)

    ended.assert_outcomes(passed=1)


def test_every_process_of_xdist_has_a_server_of_its_own(
    run_apart: Run, pytester: pytest.Pytester
) -> None:
    tests = """
@pytest.mark.parametrize("number", range(4))
def test_address(gateway_server, gateway_tenant, worker_id, number, pytestconfig):
    assert gateway_tenant.base_url == gateway_server.base_url
    with (pytestconfig.rootpath / f"{worker_id}.address").open("a") as addresses:
        print(gateway_server.base_url, file=addresses)
"""

    ended = run_apart(tests, "-n", "2", plugins=("xdist",))

    ended.assert_outcomes(passed=4)
    found = [set(path.read_text().split()) for path in pytester.path.glob("*.address")]
    assert len(found) == 2
    assert [len(addresses) for addresses in found] == [1, 1]
    assert found[0] != found[1]


def test_the_package_may_be_imported_before_pytest_starts(run_inside: Run) -> None:
    """Of packages with a plugin, pytest warns if it cannot rewrite them any more."""
    tests = """
def test_it():
    import gateway_sdk
    pytest.register_assert_rewrite("gateway_sdk")
"""

    run_inside(tests).assert_outcomes(passed=1)


def test_a_run_that_does_not_use_the_plugin_does_not_import_the_sdk(
    pytester: pytest.Pytester,
) -> None:
    tests = """
def test_it(pytestconfig):
    import sys
    assert pytestconfig.pluginmanager.has_plugin("gateway_sdk")
    assert [name for name in sys.modules if "gateway_sdk" in name] == ["_gateway_sdk_pytest"]
"""

    pytester.makepyfile(tests)
    pytester.runpytest_subprocess(*USUAL, *ALONE).assert_outcomes(passed=1)
