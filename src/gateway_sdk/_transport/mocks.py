"""Whether a test has replaced httpx's network: then a default session goes through httpx too.

respx replaces a method of httpcore's pool; pytest-httpx and vcrpy replace one of httpx's transport.
Tracers wrap the same method in production, and must not change how a session sends.
"""

import logging
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

_logger = logging.getLogger("gateway_sdk")

_MOCKS: Final = frozenset({"pytest_httpx", "respx", "vcr"})
_ORIGINALS: Final = frozenset({"httpcore", "httpx"})


def has_mock(methods: Iterable[Any]) -> bool:
    """Tell whether one of the methods of httpx's network is that of a known mock."""
    packages = {_package_of(method) for method in methods if method}
    if packages & _MOCKS:
        return True
    for package in packages - _ORIGINALS:
        _warn_once(package)
    return False


def _package_of(method: Any) -> str:
    # wrapt's layers are known by the name of their class, because tracers carry copies of wrapt.
    # `inspect.unwrap` would go on, to what vcrpy has replaced with `functools.wraps`.
    while any(kind.__name__ == "ObjectProxy" for kind in type(method).__mro__):
        method = method.__wrapped__
    # The globals are those of the file that the code comes from, also after `functools.wraps`.
    module: str = getattr(method, "__globals__", {}).get("__name__") or type(method).__module__
    return module.partition(".")[0]


@cache
def _warn_once(package: str) -> None:
    _logger.warning(
        "%s has replaced the network of httpx, and gateway_sdk does not know it: calls still "
        "go to the gateway; to send them through httpx, give the session an http_client=",
        package,
    )
