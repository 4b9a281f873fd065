"""The one client that is registered here, and where its answers may go."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

SANDBOX_CLIENT_ID = "gateway-sdk-sandbox"

# RFC 3986, section 2, without "#": an answer is a fragment (RFC 6749, 3.1.2 and 4.2.2). A URI of
# these characters can neither break out of a header nor be read by a browser as one of another
# host, as "http://127.0.0.1\@evil.example" would be.
_CHARACTER = r"[A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]]"
# RFC 8252, section 7.3: any port. After the port nothing but a path or a query: no userinfo.
_LOOPBACK = re.compile(
    rf"http://(127\.0\.0\.1|\[::1\]|localhost)(:(?P<port>[0-9]{{1,5}}))?([/?]{_CHARACTER}*)?"
)
_ABSOLUTE = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_CHARACTER}+")
_AUTHORITY = re.compile(r"[A-Za-z0-9.\-:\[\]]*")
MAX_PORT = 65535


class RedirectUris:
    """Where answers may go: this machine at any port, and the *registered* URIs to the letter.

    Raises:
        ValueError: For a registered URI that is not absolute, or has userinfo or a fragment.
    """

    def __init__(self, registered: Iterable[str] = ()) -> None:
        self._registered = frozenset(registered)
        for uri in self._registered:
            if not _ABSOLUTE.fullmatch(uri) or not _AUTHORITY.fullmatch(urlsplit(uri).netloc):
                raise ValueError(f"not a redirect URI: {uri!r}")

    def __contains__(self, uri: str) -> bool:
        return uri in self._registered or _is_loopback(uri)


def _is_loopback(uri: str) -> bool:
    found = _LOOPBACK.fullmatch(uri)
    return found is not None and 0 < int(found["port"] or 80) <= MAX_PORT
