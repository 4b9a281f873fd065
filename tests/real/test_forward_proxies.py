"""Forward proxies that go away during calls, and one that answers in place of the gateway."""

import ssl
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real import forward_proxies
from tests.real.load import MIX, PACE, check, disturb_under_load, lost, open_session, violations
from tests.real.upstream import serving_upstream
from tests.support.certificates import Authority
from tests.support.witness import Witness

HOST: Final = "127.0.0.1"
PROXIES: Final[dict[str, forward_proxies.Serve]] = {
    "squid": forward_proxies.squid,
    "tinyproxy": forward_proxies.tinyproxy,
}
SCHEMES: Final = ("http", "https")
"""A request to the proxy itself, or a tunnel through it."""


def certified(scheme: str, folder: Path) -> tuple[ssl.SSLContext | None, dict[str, Any]]:
    """Return the context of the gateway, and the option by which a session trusts it."""
    if scheme == "http":
        return None, {}
    authority = Authority(folder, "authority")
    return authority.server(HOST), {"verify": authority.path}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PROXIES)
async def test_a_proxy_that_is_killed(name: str, scheme: str, folder: Path, tmp_path: Path) -> None:
    """What is said of the calls of that time is true, and what may be repeated succeeds."""
    witness = Witness()
    context, trust = certified(scheme, tmp_path)
    with PROXIES[name](folder) as program:
        async with (
            serving_upstream(context) as upstream,
            open_session(
                f"{scheme}://{HOST}:{upstream.port}",
                witness,
                proxy=f"http://{HOST}:{program.port}",
                rate_limit=PACE,
                **trust,
            ) as gateway,
        ):
            restart = partial(upstream.while_busy, program.restart)
            await disturb_under_load(gateway, witness, restart, restart)

    check(witness, upstream, repeats=True)
    assert lost(witness) > 0


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_proxy_that_refuses_to_hand_on_a_reply(
    scheme: str, folder: Path, tmp_path: Path
) -> None:
    """Its 403 does not prove that a write was refused: the gateway has executed it."""
    witness = Witness()
    context, trust = certified(scheme, tmp_path)
    with forward_proxies.squid(folder, "reply_body_max_size 1 KB all") as program:
        async with (
            serving_upstream(context) as upstream,
            open_session(
                f"{scheme}://{HOST}:{upstream.port}",
                witness,
                proxy=f"http://{HOST}:{program.port}",
                **trust,
            ) as gateway,
        ):
            upstream.padding = 4096
            for number, operation in enumerate(MIX):
                await witness.call(gateway, operation, str(number))

    assert len(upstream.executed) == len(MIX)
    assert [text for record in witness.records for text in violations(record, upstream)] == []
    handed_on = [record.error is None for record in witness.records]
    assert handed_on == [scheme == "https"] * len(MIX)
