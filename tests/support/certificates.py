"""Certificates of servers and clients, from an authority of a test's own."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.secrecy import CANARY

PASSWORD: Final = f"{CANARY}-password"


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name.from_rfc4514_string(f"CN={name}")
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self._folder = folder
        self.path = folder / f"{name}.pem"  # the file with its own certificate
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def certify(self, host: str, *, expired: bool = False) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        certificate = (
            _builder(x509.Name.from_rfc4514_string("CN=test"), self._name, key, expired=expired)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        files = self._folder / f"{host}.crt", self._folder / f"{host}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def server(self, host: str, *, expired: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self.certify(host, expired=expired))
        return context

    def demanding(self, host: str = "127.0.0.1") -> ssl.SSLContext:
        """Return the context of a server that takes only clients with a certificate."""
        context = self.server(host)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.path)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC) - timedelta(days=30 if expired else 0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


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
        context = self.authority.client()
        context.load_cert_chain(self.certificate, self.key)
        return context
