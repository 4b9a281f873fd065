"""TLS: who is trusted, and a client certificate of one's own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import ConfigurationError, ConnectionFailedError, GatewaySession
from tests.support.calls import CALLS
from tests.support.certificates import PASSWORD, Authority, Papers
from tests.support.proxies import Gateway
from tests.support.raw_server import serving
from tests.support.secrecy import CANARY, texts_of

Given = Callable[[Papers], dict[str, Any]]

WAYS: dict[str, Given] = {
    "one file": lambda papers: {"cert": papers.both},
    "its name": lambda papers: {"cert": str(papers.both)},
    "two files": lambda papers: {"cert": (papers.certificate, papers.key)},
    "their names": lambda papers: {"cert": (str(papers.certificate), str(papers.key))},
    "a locked key": lambda papers: {"cert": (papers.certificate, papers.locked, PASSWORD)},
    "a password that it does not need": lambda papers: {
        "cert": (papers.certificate, papers.key, PASSWORD)
    },
    "a context": lambda papers: {"verify": papers.context()},
}


@pytest.mark.parametrize("given", WAYS.values(), ids=WAYS)
async def test_a_server_that_asks_for_a_certificate_gets_ours(papers: Papers, given: Given) -> None:
    gateway = Gateway()
    async with serving(gateway.handle, papers.authority.demanding()) as port:
        options = {"verify": papers.authority.path, **given(papers)}
        async with GatewaySession(
            f"https://127.0.0.1:{port}", access_token="t", **options
        ) as session:
            assert await CALLS["order_history"](session) == {}

    (peer,) = gateway.peers
    assert isinstance(peer, dict)
    assert ("DNS", "client.test") in peer["subjectAltName"]


UNREADABLE: dict[str, Callable[[Papers], Any]] = {
    "missing": lambda papers: papers.missing,
    "missing key": lambda papers: (papers.certificate, papers.missing),
    "garbage": lambda papers: papers.garbage,
    "no key": lambda papers: papers.certificate,
    "the key of another": lambda papers: (papers.certificate, papers.other_key),
    "no password": lambda papers: (papers.certificate, papers.locked),
    "an empty password": lambda papers: (papers.certificate, papers.locked, ""),
    "the wrong password": lambda papers: (papers.certificate, papers.locked, CANARY),
    "a password that is too long": lambda papers: (papers.certificate, papers.locked, CANARY * 200),
    "a folder": lambda papers: papers.folder,
    "NUL": lambda papers: f"{CANARY}\x00",
}


@pytest.mark.parametrize("cert", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_certificate_that_cannot_be_read_is_said_on_opening(
    papers: Papers, cert: Callable[[Papers], Any]
) -> None:
    """The message shows neither a path nor a password, causes included."""
    session = GatewaySession(
        "https://gateway.test", access_token="t", verify=papers.authority.path, cert=cert(papers)
    )

    with pytest.raises(ConfigurationError, match="cert names no readable") as caught:
        await CALLS["order_history"](session)

    assert CANARY not in texts_of(caught.value) + repr(session._caller.shared._engine)


def test_nobody_is_asked_for_the_password_of_a_key(papers: Papers) -> None:
    """A locked key without its password is an error, not a question at a terminal."""
    program = f"""if True:
        import asyncio
        from gateway_sdk import ConfigurationError, GatewaySession
        cert = ({str(papers.certificate)!r}, {str(papers.locked)!r})
        async def main():
            try:
                async with GatewaySession("https://g.test", access_token="t", cert=cert):
                    pass
            except ConfigurationError:
                print("refused")
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,  # so that no terminal of the tester's is asked
        check=True,
        timeout=50,
    )

    assert done.stdout == "refused\n"
    assert "pass phrase" not in done.stderr


def test_a_context_has_its_own_certificate(papers: Papers) -> None:
    """A user's context is not changed, so that cert= beside it is refused."""
    with pytest.raises(ConfigurationError, match="into verify="):
        GatewaySession(
            "https://gateway.test", access_token="t", verify=papers.context(), cert=papers.both
        )


@pytest.fixture
def hashed(papers: Papers, tmp_path: Path) -> Path:
    """Provide a folder with the authority under the name by which OpenSSL looks for it."""
    command = ["openssl", "x509", "-noout", "-hash", "-in", str(papers.authority.path)]
    name = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    folder = tmp_path / "hashed"
    folder.mkdir()
    (folder / f"{name}.0").write_bytes(papers.authority.path.read_bytes())
    return folder


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Provide the file of an authority that has signed nothing here."""
    return Authority(tmp_path, "others").path


@pytest.mark.posix  # OpenSSL's program
@pytest.mark.parametrize("trust_env", [True, False])
@pytest.mark.parametrize(
    ("file", "folders"),
    [("ours", ""), ("", "{hashed}"), ("others", "{hashed}"), ("", "{others}{sep}{hashed}")],
)
async def test_the_environment_may_name_the_authorities(
    monkeypatch: pytest.MonkeyPatch,
    papers: Papers,
    hashed: Path,
    others: Path,
    file: str,
    folders: str,
    trust_env: bool,
) -> None:
    """SSL_CERT_FILE and SSL_CERT_DIR count, both, as everywhere, unless trust_env is off."""
    files = {"ours": papers.authority.path, "others": others, "": ""}
    monkeypatch.setenv("SSL_CERT_FILE", str(files[file]))
    found = folders.format(hashed=hashed, others=others.parent, sep=os.pathsep)
    monkeypatch.setenv("SSL_CERT_DIR", found)
    gateway = Gateway()
    async with (
        serving(gateway.handle, papers.authority.server("127.0.0.1")) as port,
        GatewaySession(
            f"https://127.0.0.1:{port}", access_token="t", trust_env=trust_env, retry=None
        ) as session,
    ):
        if trust_env:
            assert await CALLS["order_history"](session) == {}
        else:
            with pytest.raises(ConnectionFailedError):
                await CALLS["order_history"](session)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("is_there", [True, False])
async def test_authorities_of_the_environment_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, papers: Papers, name: str, is_there: bool
) -> None:
    """The error names the variable; what it names may be missing, or of the wrong kind."""
    found = papers.authority.path.parent if name == "SSL_CERT_FILE" else papers.authority.path
    monkeypatch.setenv(name, str(found if is_there else papers.missing))

    with pytest.raises(ConfigurationError, match=f"^{name} names ") as caught:
        async with GatewaySession("https://gateway.test", access_token="t"):
            pass

    assert caught.value.setting == name
