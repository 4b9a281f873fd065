"""The page that the answer arrives at, and the policy that lets it do nothing else."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def page() -> bytes:
    """Return the page; it asks for nothing but its own address."""
    # Read as text: a browser hashes with "\n", also where the file has "\r\n".
    text = (files("gateway_sdk.auth.loopback") / "page.html").read_text(encoding="utf-8")
    return text.encode()


@cache
def policy() -> str:
    """Return the Content-Security-Policy: its script, its style, its own origin, and no frame."""
    script, style = _hash_of("script"), _hash_of("style")
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash_of(element: str) -> str:
    """Return the hash of an element's text, as Content Security Policy Level 3 spells it."""
    found = re.search(rf"<{element}>(.*?)</{element}>".encode(), page(), re.DOTALL)
    assert found is not None  # noqa: S101 - the page is ours
    return f"sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}"
