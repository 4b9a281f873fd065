import httpx
import pytest

from gateway_sdk.sandbox import Sandbox


@pytest.mark.parametrize(
    ("token", "changes", "complaint"),
    [
        ("first", "wait=1e12", None),
        ("first", "revoke_all", "was revoked"),
        ("token", "", "is unknown"),
        ("token", "issue", None),
        ("token", "revoke", "was revoked"),  # also one that was never issued
        ("token", "issue revoke", "was revoked"),
        ("token", "issue revoke issue", None),
        ("token", "issue revoke_all", "was revoked"),
        ("token", "revoke_all issue", None),
        ("token", "issue=60 wait=59.9", None),
        ("token", "issue=60 wait=60", "expired"),
        ("token", "issue=0", "expired"),
        ("token", "issue=-1", "expired"),
        ("token", "issue=60 wait=60 revoke", "was revoked"),
    ],
)
async def test_a_token_is_good_from_its_issue_to_its_end(
    token: str, changes: str, complaint: str | None
) -> None:
    """The refusal has the challenge of RFC 6750, section 3, and says what is wrong."""
    now = 1_000_000.0
    sandbox = Sandbox("first", clock=lambda: now)
    for change in changes.split():
        match change.split("="):
            case ["wait", seconds]:
                now += float(seconds)
            case ["issue", *lifetime]:
                sandbox.issue("token", *map(float, lifetime))
            case ["revoke"]:
                sandbox.revoke("token")
            case _:
                sandbox.revoke_all()

    async with httpx.AsyncClient(transport=sandbox.transport(), base_url="http://s") as client:
        reply = await client.post(
            "/kyc/1.0.0/webhook", headers={"Authorization": f"Bearer {token}"}
        )

    if complaint is None:
        assert reply.status_code == 202
    else:
        assert reply.status_code == 401
        assert reply.json()["message"] == f"the access token {complaint}"
        assert reply.headers["WWW-Authenticate"] == (
            f'Bearer error="invalid_token", error_description="The access token {complaint}"'
        )
