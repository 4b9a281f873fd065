from collections.abc import Callable

import httpx
import pytest

from gateway_sdk.sandbox import Sandbox


class World:
    """A sandbox, and its clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.sandbox = Sandbox("first", clock=lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


Change = Callable[[World], object]


def issue(lifetime: float | None = None) -> Change:
    return lambda world: world.sandbox.issue("token", lifetime)


def wait(seconds: float) -> Change:
    return lambda world: world.wait(seconds)


REVOKE: Change = lambda world: world.sandbox.revoke("token")  # noqa: E731
REVOKE_ALL: Change = lambda world: world.sandbox.revoke_all()  # noqa: E731


@pytest.mark.parametrize(
    ("token", "changes", "complaint"),
    [
        ("first", [wait(1e12)], None),
        ("first", [REVOKE_ALL], "was revoked"),
        ("token", [], "is unknown"),
        ("token", [issue()], None),
        ("token", [REVOKE], "was revoked"),  # also one that was never issued
        ("token", [issue(), REVOKE], "was revoked"),
        ("token", [issue(), REVOKE, issue()], None),
        ("token", [issue(), REVOKE_ALL], "was revoked"),
        ("token", [REVOKE_ALL, issue()], None),
        ("token", [issue(60), wait(59.9)], None),
        ("token", [issue(60), wait(60)], "expired"),
        ("token", [issue(0)], "expired"),
        ("token", [issue(-1)], "expired"),
        ("token", [issue(60), wait(60), REVOKE], "was revoked"),
    ],
)
async def test_a_token_is_good_from_its_issue_to_its_end(
    token: str, changes: list[Change], complaint: str | None
) -> None:
    """The refusal has the challenge of RFC 6750, section 3, and says what is wrong."""
    world = World()
    for change in changes:
        change(world)

    headers = {"Authorization": f"Bearer {token}"}
    transport = world.sandbox.transport()
    async with httpx.AsyncClient(transport=transport, base_url="http://s") as client:
        reply = await client.post("/kyc/1.0.0/webhook", headers=headers)

    if complaint is None:
        assert reply.status_code == 202
    else:
        assert reply.status_code == 401
        assert reply.json()["message"] == f"the access token {complaint}"
        assert reply.headers["WWW-Authenticate"] == (
            f'Bearer error="invalid_token", error_description="The access token {complaint}"'
        )
