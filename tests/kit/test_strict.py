"""A strict test fails at its end if something was not expected; a wrong marker is an error."""

import pytest

from _gateway_sdk_pytest import OPTIONS
from gateway_sdk.sandbox import Fault
from tests.kit.conftest import Run

STRICT = """
pytestmark = pytest.mark.gateway(strict=True)

@pytest.fixture
def balance(gateway_session):
    return lambda: asyncio.run(gateway_session.wallet.spot_trading_available_balance())
"""


def test_what_is_expected_passes(run_inside: Run) -> None:
    """Allowed is what is given to allow, what is asserted, and what has a fault of its own."""
    tests = """
@pytest.mark.gateway(allow=frozenset(["spot_trading_available_balance"]))
def test_allowed(balance):
    balance()

def test_allowed_in_the_test(gateway_sandbox, balance):
    gateway_sandbox.allow("spot_trading_available_balance")
    balance()

def test_asserted(gateway_sandbox, balance):
    balance()
    gateway_sandbox.assert_received("spot_trading_available_balance", times=1)

@pytest.mark.gateway_fault("spot_trading_available_balance", "unavailable", at=1)
@pytest.mark.gateway_fault("*", "latency", 0.001)
@pytest.mark.gateway_fault("cancel_order", "drop_after_read", rate=0.5)
def test_with_a_fault(balance):
    balance()

def test_nothing(gateway_sandbox):
    gateway_sandbox.assert_received("cancel_order", times=0)

@pytest.mark.gateway(strict=False)
def test_not_strict(balance):
    balance()
"""

    ended = run_inside(STRICT + tests)

    ended.assert_outcomes(passed=6)


UNEXPECTED = {
    "call": (
        "def test_it(balance): balance()",
        [
            "*spot_trading_available_balance was received and is not allowed here",
            "*received in all:",
            "*spot_trading_available_balance: 1, applied, status 200",
        ],
    ),
    "fault": (
        """
@pytest.mark.gateway_fault("cancel_order", "status", 500, at=2)
def test_it(gateway_sandbox): pass
""",
        [
            "*this fault never happened: status 500 at call 2 of cancel_order",
            "*nothing was received",
        ],
    ),
    "fault of all": (
        """
@pytest.mark.gateway_fault("*", "drop_before_read")
def test_it(gateway_tenant): pass
""",
        ["*this fault never happened: drop before read at call 1 of any operation"],
    ),
    "path and method": (
        """
def test_it(gateway_url):
    import httpx
    for path in "/customers/ada", "/customer/1.0.0/create":
        assert httpx.get(gateway_url + path, trust_env=False).is_client_error
""",
        ["*GET of a path that is no operation", "*GET of a path that is no operation"],
    ),
}


@pytest.mark.parametrize(("tests", "lines"), UNEXPECTED.values(), ids=UNEXPECTED)
def test_what_is_not_expected_fails(run_inside: Run, tests: str, lines: list[str]) -> None:
    ended = run_inside(STRICT + tests)

    ended.assert_outcomes(passed=1, errors=1)
    ended.stdout.fnmatch_lines(["*ERROR at teardown of test_it*", *lines])
    ended.stdout.no_fnmatch_line("*/customers/ada*")


def test_the_tenant_of_a_strict_test_that_fails_is_forgotten(run_inside: Run) -> None:
    """The server of the whole run does not keep its data until the end."""
    tests = """
names = []

@pytest.mark.gateway(strict=True)
@pytest.mark.gateway_fault("*", "drop_before_read")
def test_it(gateway_tenant):
    names.append(gateway_tenant.tenant_id)

def test_after_it(gateway_server):
    assert names
    assert names[0] not in gateway_server._sandboxes
"""

    ended = run_inside("import pytest\n" + tests)

    ended.assert_outcomes(passed=2, errors=1)


def test_a_test_that_failed_anyway_is_not_failed_twice(run_inside: Run) -> None:
    test = """
@pytest.mark.gateway_fault("cancel_order", "cut_body")
def test_it(gateway_sandbox):
    assert not gateway_sandbox

def test_another(balance):
    balance()
"""

    ended = run_inside(STRICT + test)

    ended.assert_outcomes(failed=1, passed=1, errors=1)
    ended.stdout.no_fnmatch_line("*never happened*")


def test_a_test_that_was_skipped_is_not_failed(run_inside: Run) -> None:
    tests = """
@pytest.fixture
def skipping(gateway_sandbox):
    pytest.skip("no network")

@pytest.mark.gateway_fault("cancel_order", "cut_body")
def test_it(gateway_sandbox):
    pytest.skip("no network")

@pytest.mark.gateway_fault("cancel_order", "cut_body")
def test_a_fixture(skipping):
    pass

@pytest.mark.usefixtures("gateway_sandbox")
@pytest.mark.gateway_fault("cancel_order", "cut_body")
class TestOfUnittest(unittest.TestCase):
    def test_it(self):
        self.skipTest("no network")

    @unittest.expectedFailure
    def test_a_known_failure(self):
        assert not self
"""

    ended = run_inside("import unittest\n" + STRICT + tests)

    ended.assert_outcomes(skipped=3, xfailed=1)


def test_a_test_of_which_a_part_failed_has_no_second_error(run_inside: Run) -> None:
    test = """
@pytest.mark.usefixtures("gateway_sandbox")
@pytest.mark.gateway_fault("cancel_order", "cut_body")
class TestOfUnittest(unittest.TestCase):
    def test_it(self):
        with self.subTest():
            self.fail("in part")
"""

    ended = run_inside("import unittest\n" + STRICT + test)

    ended.stdout.fnmatch_lines(["*in part*"])
    ended.stdout.no_fnmatch_line("*never happened*")


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('gateway("strict")', "gateway() takes only these keyword arguments: seed, strict, allow*"),
        (
            "gateway(strickt=True)",
            "gateway() takes only these keyword arguments: seed, strict, allow*",
        ),
        ('gateway(seed="x")', "gateway(seed=) takes a whole number, not str"),
        ("gateway(strict=1)", "gateway(strict=) takes True or False, not int"),
        ("gateway(keep_bodies=None)", "gateway(keep_bodies=) takes True or False, not NoneType"),
        ("gateway(session=5)", "gateway(session=) takes a mapping of settings, such as *, not int"),
        ('gateway(allow="cancel_order")', "gateway(allow=) takes a list of operations, such as *"),
        ('gateway(allow=["cancel"])', "unknown operation 'cancel'; the operations are create_cu*"),
        ('gateway_fault("cancel_order")', "gateway_fault() takes an operation and the name of a *"),
        ('gateway_fault("cancel", "cut_body")', "unknown operation 'cancel'; the operations are *"),
        ('gateway_fault("*", "of_kind")', "unknown fault 'of_kind'; the faults are latency, stat*"),
        ('gateway_fault("*", "status")', "*status() missing 1 required positional argument*"),
        (
            'gateway_fault("*", "status", 200)',
            "status must be a whole number of at least 400 and at most 599: 200",
        ),
        ('gateway_fault("*", "cut_body", at=0)', "at must be a whole number of at least 1: 0"),
        ('gateway_fault("*", "status", "500")', "status must be a whole number of *: '500'"),
        ('gateway_fault("*", "cut_body", rate="1")', "rate must be a number of at least 0 and *"),
        ('gateway_fault("*", "cut_body", when=1)', "*unexpected keyword argument 'when'"),
        ('gateway(session={"deadlin": 5})', "*has no argument 'deadlin': did you mean deadline?"),
    ],
)
def test_a_wrong_marker_is_an_error_that_names_the_test(
    run_inside: Run, marker: str, message: str
) -> None:
    ended = run_inside(f"@pytest.mark.{marker}\ndef test_it(gateway_session):\n    1 / 0")

    ended.assert_outcomes(errors=1)
    found = f"E *Error: {message.replace('[', '[[]')}"
    ended.stdout.fnmatch_lines(["*ERROR at setup of test_it *", found])


def test_a_fixture_or_a_test_may_choose_the_gateway_itself(run_inside: Run) -> None:
    tests = """
@pytest.fixture
def chosen(request):
    return request.getfixturevalue("gateway_sandbox")

@pytest.mark.gateway_fault("*", "cut_body")
def test_fixture(chosen):
    assert chosen

@pytest.mark.gateway_fault("*", "cut_body")
def test_itself(request):
    assert request.getfixturevalue("gateway_tenant")
"""

    run_inside(tests).assert_outcomes(passed=2)


def test_a_fault_without_a_gateway_is_an_error(run_inside: Run) -> None:
    tests = """
@pytest.mark.gateway_fault("*", "cut_body")
def test_it():
    pass

@pytest.mark.gateway(strict=True)
def test_strict():
    pass

@pytest.mark.gateway(number=1, strict=True)  # a marker of the project
@pytest.mark.gateway_fault("*", "cut_body")
class TestSeveral:
    def test_it(self):
        pass
"""

    ended = run_inside(tests)

    ended.assert_outcomes(errors=2, passed=1)
    words = "has no effect here, because the test uses none of gateway_sandbox, *"
    found = [f"*::test_it: gateway_fault {words}", f"*::test_strict: gateway {words}"]
    ended.stdout.fnmatch_lines(found)


def test_the_markers_of_a_parameter_come_last(run_inside: Run) -> None:
    """They are the most specific ones, and their faults are in the order of the list."""
    tests = """
unavailable = pytest.mark.gateway_fault("*", "unavailable", at=1)
lasting = pytest.mark.gateway_fault("*", "status", 404)

@pytest.mark.gateway(strict=True, seed=7)
@pytest.mark.gateway_fault("*", "latency", 0)
@pytest.mark.parametrize("number", [
    pytest.param(1, marks=[pytest.mark.gateway(strict=False), unavailable, lasting]),
])
def test_it(gateway_sandbox, gateway_session, number):
    from gateway_sdk import NotFoundError
    with pytest.raises(NotFoundError):
        asyncio.run(gateway_session.wallet.spot_trading_available_balance())
    assert [call.status for call in gateway_sandbox.received] == [503, 404]
"""

    run_inside(tests).assert_outcomes(passed=1)


def test_a_marker_of_the_project_of_the_same_name_is_left_alone(run_inside: Run) -> None:
    """Whoever has the SDK installed may have had a marker `gateway` before."""
    tests = """
@pytest.mark.gateway
def test_plain():
    pass

@pytest.mark.gateway("stripe")
def test_with_a_value():
    pass

@pytest.mark.gateway(provider="stripe", strict=True)
def test_with_a_name():
    pass
"""

    run_inside(tests).assert_outcomes(passed=3)


def test_the_registered_markers_tell_all_arguments(run_inside: Run) -> None:
    ended = run_inside("", "--markers")

    (line,) = (line for line in ended.outlines if line.startswith("@pytest.mark.gateway("))
    assert [name for name in OPTIONS if f"{name}=" not in line] == []


def test_every_kind_of_fault_has_its_name() -> None:
    with pytest.raises(ValueError, match="unknown fault") as caught:
        Fault.of_kind("none")

    kinds = str(caught.value).rpartition("are ")[2].split(", ")
    given = {"latency": 0, "status": 500, "malformed_error": 500, "drip": 0}
    made = [Fault.of_kind(kind, *([given[kind]] if kind in given else [])) for kind in kinds]
    assert len({fault.name for fault in made}) == len(kinds) == 10
