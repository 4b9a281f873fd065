from collections.abc import Callable, Mapping

from tests.cli.ended import Ended
from tests.cli.logins import kept
from tests.cli.terminal import Terminal

Call = Callable[..., Ended]
Settings = Mapping[str, str]
LetBrowse = Callable[[Callable[[str], bool]], None]


def test_browser_that_does_not_open_is_said(call_gateway: Call, settings: Settings) -> None:
    """A command that there is not leaves the address, and the end of the wait and of the port."""
    ended = call_gateway("login", "--browser", "no-such-browser %s", "--timeout", "1")

    assert ended.status == 1
    _, _, failed, why, advice, again, last = ended.err.splitlines()
    assert failed == "No browser could be opened here."
    assert why.startswith("The login has ended: the login was not finished within 1 s: no resp")
    assert advice.startswith("Close its tab in the browser now. Until you press Ctrl-C")
    assert again.startswith("gateway: the login was not finished within 1 s: no response came")
    assert last == "Log in again, with a longer --timeout if you need one."
    assert kept() is None


def test_ctrl_c_ends_the_wait_that_keeps_the_port(
    start_in_terminal: Callable[..., Terminal], settings: Settings
) -> None:
    """The person has closed the tab: the port need not be kept for minutes."""
    terminal = start_in_terminal("login", "--no-browser", "--timeout", "0.5")
    terminal.read_until("Close its tab in the browser now.")
    terminal.interrupt()
    status, _ = terminal.end()

    assert status == 1


def test_port_that_is_taken_comes_with_the_way_out(call_gateway: Call, settings: Settings) -> None:
    """A redirect URI at a port in use is told before anybody logs in."""
    taken = settings["GATEWAY_BASE_URL"]

    ended = call_gateway("login", "--redirect-uri", f"{taken}/callback")

    assert (ended.status, ended.out) == (2, "")
    first, second = ended.err.splitlines()
    assert first.startswith(f"gateway: port {taken.rpartition(':')[2]} of 127.0.0.1 is in use")
    assert second == "Port 0 in --redirect-uri takes a free port."
