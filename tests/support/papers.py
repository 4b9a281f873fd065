"""A client's certificate and key, and a server that asks for them."""

import ssl
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization

from tests.support.certificates import Authority
from tests.support.proxies import server_context
from tests.support.secrecy import CANARY

PASSWORD: Final = f"{CANARY}-password"


class Papers:
    """A client's certificate and key, in each form in which people keep them."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "tests")
        self.certificate, self.key = self.authority.certify("client.test")
        self.both = folder / "both.pem"
        self.both.write_bytes(self.certificate.read_bytes() + self.key.read_bytes())
        self.locked = folder / f"{CANARY}-locked.key"
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        self.locked.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        self.other_key = self.authority.certify("other.test")[1]
        self.garbage = folder / f"{CANARY}-garbage.pem"
        self.garbage.write_text(f"-----BEGIN CERTIFICATE-----\n{CANARY}\n")
        self.missing = folder / f"{CANARY}-missing.pem"
        self.folder = folder

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.path)
        context.load_cert_chain(self.certificate, self.key)
        return context


def demanding(papers: Papers, host: str = "127.0.0.1") -> ssl.SSLContext:
    """Make the context of a server that takes only clients with a certificate."""
    context = server_context(papers.authority, host)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(papers.authority.path)
    return context
