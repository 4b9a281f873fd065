"""What an error says to do next: in Python and at the command line, with the names of each."""

import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest

from gateway_sdk import ConnectionFailedError, GatewayError, GatewaySession, NotFoundError, errors
from gateway_sdk.cli import app
from gateway_sdk.cli.arguments import GIVEN
from gateway_sdk.cli.session import explain
from gateway_sdk.errors import _base
from gateway_sdk.outcome import Repeatability
from gateway_sdk.session import ENVIRONMENT
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.raw_server import Server, serving

READ: Final = {
    *ENVIRONMENT.values(),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"),
}
"""The variables that the SDK reads; so does the command line."""

REASONS: Final[list[tuple[str, str]]] = [
    it for name, it in vars(_base).items() if name.isupper() and isinstance(it, tuple)
]
HINTS: Final = [*REASONS, *_base.OF_SETTING.values(), *_base.OF_KIND.values()]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text))


def test_each_class_has_its_hints_or_those_of_the_class_above() -> None:
    assert len(REASONS) == 8
    assert {*vars(errors)} >= _base.OF_KIND.keys()
    assert errors.LoginTimeoutError("late").hints == _base.OF_KIND["LoginTimeoutError"]
    assert errors.StateMismatchError("other").hints == _base.OF_KIND["LoginError"]
    assert errors.GatewayError().hints == _base.OF_KIND["GatewayError"]


@pytest.mark.parametrize("text", sorted({it[0] for it in HINTS}))
def test_a_hint_for_python_names_what_a_session_takes(text: str) -> None:
    taken = {
        *inspect.signature(GatewaySession).parameters,
        *GatewaySession.__init__.__annotations__,
    }
    known = taken | {
        *re.findall(r"^            (\w+): ", str(GatewaySession.__init__.__doc__), re.MULTILINE)
    }

    assert {*re.findall(r"(\w+)=", text)} <= known
    assert names_in(text) <= READ
    assert not re.search(r"`gateway |--\w", text)


@pytest.mark.parametrize("text", sorted({it[1] for it in HINTS}))
def test_a_hint_at_the_command_line_names_what_it_has(text: str) -> None:
    options = {it for one in app.app.params for it in one.opts}
    of_commands = {"--help", "--paste", "--redirect-uri", "--timeout"}

    assert not re.search(r"\w=(?!\w)", text), "an argument of Python"
    assert names_in(text) <= READ
    assert {*re.findall(r"--[a-z][a-z-]+", text)} <= options | of_commands
    assert {*re.findall(r"`gateway (\w+)", text)} <= app.SUMMARIES.keys()


async def error_at(url: str, **options: Any) -> GatewayError:
    given: dict[str, Any] = {"access_token": "t", "retry": None, **options}
    async with GatewaySession(url, **given) as gateway:
        with pytest.raises(GatewayError) as caught:
            await gateway.country_data.list_countries()
    return caught.value


async def test_what_is_not_trusted_has_its_own_hint(tmp_path: Path) -> None:
    """Not `verify=`, and not a sandbox to start, at the command line."""
    server = Authority(tmp_path, "unknown").server("127.0.0.1")
    async with serving(Server().handle, server) as port:
        error = await error_at(f"https://127.0.0.1:{port}")

    assert str(error).endswith("; verify= or SSL_CERT_FILE names an authority to trust")
    problem, step = str(explain(error)).splitlines()
    assert problem.endswith(": unable to get local issuer certificate")
    assert step.startswith("Set SSL_CERT_FILE to a file")


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_dead_proxy_has_its_own_hint(scheme: str) -> None:
    place = f"127.0.0.1:{free_port()}"
    error = await error_at("https://gateway.test", proxy=f"{scheme}://{place}")

    assert isinstance(error, ConnectionFailedError)
    assert f"no connection to the proxy {place}: connection refused; proxy= or " in str(error)
    problem, step = str(explain(error)).splitlines()
    assert problem == f"list_countries: no connection to the proxy {place}: connection refused"
    assert step.startswith("Is HTTPS_PROXY, HTTP_PROXY or ALL_PROXY right?")


def test_a_hint_names_the_setting_that_is_used() -> None:
    GIVEN["base_url"] = "https://gateway.test"

    told = str(explain(NotFoundError("404", status=404)))

    assert told == "404\nCheck the spelling, --base-url and GATEWAY_TENANT_ID."


@pytest.mark.parametrize("kind", [errors.UnauthorizedError, errors.ForbiddenError])
def test_a_wait_is_named_only_where_it_helps(kind: type[errors.StatusError]) -> None:
    error = kind("answered")
    error.of_call("list_countries", Repeatability.READ, ())
    error.retry_after = 30.0
    assert str(explain(error)).endswith(error.hints[1])

    error = errors.RateLimitedError("answered", status=429)
    error.retry_after = 30.0
    assert str(explain(error)).endswith("The gateway asks for a wait of 30 s.")
