import httpx
import pytest

from gateway_sdk.sandbox import Sandbox
from gateway_sdk.sandbox._store import TokenRegistry

WEBHOOK = "/kyc/1.0.0/webhook"


class Clock:
    """A clock that the test sets; *now* is in seconds."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def call(sandbox: Sandbox, token: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=sandbox.transport(), base_url="http://s") as client:
        return await client.post(WEBHOOK, headers=headers)


def challenge(complaint: str) -> str:
    """Return the challenge of RFC 6750, section 3, for this problem."""
    return f'Bearer error="invalid_token", error_description="The access token {complaint}"'


async def test_token_is_issued_and_revoked(sandbox: Sandbox) -> None:
    """A token is valid from its issue to its revocation, and may be issued again."""
    statuses = [(await call(sandbox, "fresh")).status_code]
    for change in (sandbox.issue, sandbox.revoke, sandbox.issue):
        change("fresh")
        statuses.append((await call(sandbox, "fresh")).status_code)

    assert statuses == [401, 202, 401, 202]


async def test_token_expires_to_the_second() -> None:
    """A token with a lifetime is valid until just before its end, and then expired."""
    clock = Clock()
    sandbox = Sandbox(clock=clock)
    sandbox.issue("brief", 60)

    clock.now += 59.9
    in_time = await call(sandbox, "brief")
    clock.now += 0.1
    late = await call(sandbox, "brief")

    assert in_time.status_code == 202
    assert late.status_code == 401
    assert late.headers["WWW-Authenticate"] == challenge("expired")
    assert late.json()["message"] == "the access token expired"


async def test_first_token_lasts() -> None:
    """The first token of a sandbox has no end."""
    clock = Clock()
    sandbox = Sandbox("first", clock=clock)
    clock.now += 1e12

    assert (await call(sandbox, "first")).status_code == 202


async def test_revoked_token_is_refused_as_revoked(sandbox: Sandbox) -> None:
    """The refusal says that a token was revoked, also for a token that was never issued."""
    sandbox.revoke("never issued")

    refused = await call(sandbox, "never issued")

    assert refused.headers["WWW-Authenticate"] == challenge("was revoked")


async def test_all_tokens_are_revoked_at_once(sandbox: Sandbox) -> None:
    """`revoke_all` refuses every earlier token, and no later one."""
    sandbox.issue("one")
    sandbox.revoke_all()
    sandbox.issue("other")

    assert (await call(sandbox, "one")).headers["WWW-Authenticate"] == challenge("was revoked")
    assert (await call(sandbox, "other")).status_code == 202


@pytest.mark.parametrize(
    ("lifetime", "complaint"), [(None, None), (1, None), (0, "expired"), (-1, "expired")]
)
def test_lifetime_counts_from_the_issue(lifetime: float | None, complaint: str | None) -> None:
    """A token whose lifetime is not above zero has already expired."""
    tokens = TokenRegistry(Clock())

    tokens.issue("token", lifetime)

    assert tokens.check("token") == complaint
