"""The request of a client to the authorization server, the form of a user, and the response."""

from urllib.parse import parse_qsl

import httpx

from gateway_sdk.sandbox import SANDBOX_CLIENT_ID

CALLBACK = "http://127.0.0.1:53412/callback"
ASKED = {
    "response_type": "token",
    "client_id": SANDBOX_CLIENT_ID,
    "redirect_uri": CALLBACK,
    "state": "xyz",
}
ALLOWED = {**ASKED, "account": "ada@example.com", "token": "hour", "decision": "allow"}
DENIED = {**ASKED, "account": "", "decision": "deny"}
NASTY = """<script>"'&amp; +%20;=#"""
HTML = "<script>alert(1)</script>"


def answer_of(reply: httpx.Response, redirect_uri: str = CALLBACK) -> dict[str, str]:
    """Require a redirect to this URI, and return the parameters in its fragment."""
    assert reply.status_code == 303
    found, _, fragment = reply.headers["Location"].partition("#")
    assert found == redirect_uri
    pairs = parse_qsl(fragment, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
