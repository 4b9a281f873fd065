"""A record of a token, and records that no store may take for one.

All stores read theirs with one function, which is tested with the whole of `BROKEN`. Each store is
tested with a few of them: it must give that function its bytes and its own key, and show nothing.
"""

import json
from pathlib import Path
from typing import Any, Final

from gateway_sdk.auth._stores.store import dump
from tests.support.logins import KEY, make_token
from tests.support.secrecy import CANARY

GOOD: Final[dict[str, Any]] = json.loads(dump(make_token("kept", expires_at=2_000_000_000.0), KEY))


def _but(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def _without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


BROKEN: Final[dict[str, bytes]] = {
    "empty": b"",
    "white space": b" \n",
    "garbage": f"\x00\x01 {CANARY}".encode(),
    "no UTF-8": b'{"access_token": "' + CANARY.encode() + b'\xff"}',
    "a token in clear": CANARY.encode(),
    "half of it": _but()[: len(_but()) // 2],
    "two of them": _but() * 2,
    "deep": b"[" * 100_000,
    "a list": json.dumps([GOOD]).encode(),
    "a string": json.dumps(CANARY).encode(),
    "a number": b"7",
    "null": b"null",
    **{f"without {name}": _without(name) for name in GOOD},
    "another authorization server": _but(authorization_url="https://evil.test/authorize"),
    "another client": _but(client_id="client-2"),
    "another gateway": _but(gateway="https://other.test"),
    "no gateway": _but(gateway=None),
    "an empty token": _but(access_token=""),
    "a token with a newline": _but(access_token=f"{CANARY}\n"),
    "a token with a header in it": _but(access_token=f"{CANARY}\r\nHost: evil.test"),
    "a token that is a number": _but(access_token=7),
    "a token in a list": _but(access_token=[CANARY]),
    "a token of surrogates": _but(access_token="\ud800"),
    "an end that is text": _but(expires_at="soon"),
    "an end that is true": _but(expires_at=True),
    "an end before 1970": _but(expires_at=-1),
    "an end that is not a number": _but(expires_at=float("nan")),
    "an end that never comes": _but(expires_at=float("inf")),
    "an end that no float can hold": _but(expires_at=10**400),
    "a beginning that is text": _but(obtained_at="now"),
    "a scope that is a number": _but(scope=7),
    "a scope of numbers": _but(scope=[7]),
    "a scope with quotes": _but(scope='a"b'),
}

IN_A_STORE: Final = {
    kind: BROKEN[kind]
    for kind in ("empty", "no UTF-8", "half of it", "a token in clear", "another gateway")
}
"""Those that each store is tested with."""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
