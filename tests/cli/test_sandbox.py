import re
import signal
import subprocess
from typing import Any

import pytest

from gateway_sdk.errors import ReplyLostError, ServerError
from gateway_sdk.session import GatewaySession
from tests.cli.support import Start


def wait_until_ready(process: subprocess.Popen[str]) -> list[str]:
    """Read what the sandbox says up to its last line before it serves."""
    said: list[str] = []
    assert process.stdout
    while not said or "Ready" not in said[-1]:
        line = process.stdout.readline()
        assert line, process.communicate()
        said.append(line.rstrip())
    return said


def test_sandbox_says_where_it_is_and_what_it_knows(start_gateway: Start) -> None:
    said = wait_until_ready(start_gateway("sandbox", "--port", "0"))

    address = said[0].split()[-1]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
    assert said == [
        f"Sandbox    {address}",
        "Token      sandbox-access-token",
        "Countries  234",
        "           15 more are left out: a field of them is not known",
        "Rates      42 currencies, by the European Central Bank",
        "           1999-01-04 to 2026-10-30",
        "",
        "For GatewaySession.from_env():",
        f"  export GATEWAY_BASE_URL={address}",
        "  export GATEWAY_TENANT_ID=demo",
        "with a token that is valid from the start:",
        "  export GATEWAY_ACCESS_TOKEN=sandbox-access-token",
        "or with the token of a login:",
        f"  export GATEWAY_AUTH_URL={address}/authorize",
        "  export GATEWAY_CLIENT_ID=gateway-sdk-sandbox",
        "  gateway login",
        "",
        "Ready; Ctrl-C stops it.",
    ]


def settings_of(said: list[str]) -> dict[str, str]:
    """Do with the greeting what a shell does with the lines that are copied."""
    lines = [line.removeprefix("  export ") for line in said if line.startswith("  export ")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.posix
@pytest.mark.parametrize(
    ("number", "handler"),
    [
        (signal.SIGINT, signal.SIG_IGN),
        (signal.SIGTERM, signal.default_int_handler),
        pytest.param(signal.SIGINT, signal.default_int_handler, marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, signal.SIG_IGN, marks=pytest.mark.full),
    ],
)
def test_signal_stops_the_sandbox(
    start_gateway: Start, number: signal.Signals, handler: Any
) -> None:
    """Also one that a script has started with "&": a shell lets it ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, handler)
    process = start_gateway("sandbox", "--port", "0")
    signal.signal(signal.SIGINT, before)
    wait_until_ready(process)

    process.send_signal(number)
    rest, errors = process.communicate()

    assert (process.returncode, rest, errors) == (0, "\nStopped.\n", "")


async def test_requests_are_told_and_faults_happen(
    start_gateway: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever copies the settings reaches it; each request is a line on standard error."""
    process = start_gateway(
        *("sandbox", "--port", "0", "--fault", "list_countries:status=501,at=2"),
        *("--fault", "send_webhook:drop_after_read", "--seed", "7"),
    )
    for name, value in settings_of(wait_until_ready(process)).items():
        monkeypatch.setenv(name, value)
    async with GatewaySession.from_env(retry=None) as gateway:
        assert (await gateway.wallet.order_history(page=1, take=5))["total"] == 57
        await gateway.country_data.list_countries()
        with pytest.raises(ServerError):
            await gateway.country_data.list_countries()
        with pytest.raises(ReplyLostError):
            await gateway.kyc.send_webhook()

    assert process.stderr
    told = [process.stderr.readline().rsplit(",", 1)[0] for _ in range(4)]
    assert told[1:] == [
        "POST /countrydata/1.0.0/listData: 200",
        "POST /countrydata/1.0.0/listData: 501",
        "POST /kyc/1.0.0/webhook: no reply",
    ]
