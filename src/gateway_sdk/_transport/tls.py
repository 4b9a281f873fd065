"""The files for TLS: certificates and authorities on the disk, and whether they have changed."""

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from gateway_sdk._transport.settings import EngineConfig
from gateway_sdk.errors import ConfigurationError


def stamp_of(config: EngineConfig) -> object:
    """Return what is equal as long as the files for TLS are the same."""
    cert = config.cert if isinstance(config.cert, tuple) else (config.cert,)
    paths: list[object] = [*cert[:2], config.verify]  # without the password
    if config.verify is True and config.trust_env:
        folders = os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)
        paths += [os.environ.get("SSL_CERT_FILE"), *folders]
    return [_state_of(path) for path in paths if isinstance(path, str | Path) and path]


def _state_of(path: str | Path) -> object:
    with suppress(OSError, ValueError):
        found = Path(path).stat()  # of what a link leads to: Kubernetes changes the link
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def ssl_context(config: EngineConfig) -> ssl.SSLContext:
    context = authorities(config)
    if config.cert is not None:
        parts = config.cert if isinstance(config.cert, tuple) else (config.cert,)
        certificate, key, password, *_ = (*map(str, parts), None, None)
        try:
            # Without any password OpenSSL would ask for one at the terminal, and wait.
            context.load_cert_chain(str(certificate), key, password or "")
        except (OSError, ValueError):
            # Without the cause, whose text may hold the path of a key, or part of its password.
            raise ConfigurationError("cert names no readable certificate and key") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def authorities(config: EngineConfig) -> ssl.SSLContext:
    if isinstance(config.verify, ssl.SSLContext):
        return config.verify
    if config.verify is True:  # OpenSSL documents these; the second may name several folders
        of_file, of_folder = "SSL_CERT_FILE", "SSL_CERT_DIR"
        environment: Mapping[str, str] = os.environ if config.trust_env else {}
        file, folders = environment.get(of_file), environment.get(of_folder)
        if not (file or folders):
            return httpx.create_ssl_context(trust_env=False)
    else:
        of_file = of_folder = "verify"
        file, folders = str(config.verify) or os.devnull, None  # Path("") is the working folder
        if Path(file).is_dir():
            file, folders = None, file
    if folders and not all(Path(it).is_dir() for it in folders.split(os.pathsep) if it):
        raise ConfigurationError("names a folder that does not exist", setting=of_folder)
    try:
        return ssl.create_default_context(cafile=file or None, capath=folders or None)
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        problem = "names no readable CA file"
        raise ConfigurationError(problem, setting=of_file) from error
