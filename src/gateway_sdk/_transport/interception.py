"""Notices that a test has replaced httpx's network: a default session then sends through httpx.

respx replaces a method of httpcore's pool; pytest-httpx and vcrpy replace one of httpx's transport.
Tracers wrap the same method in production, and must not change how a session sends.
"""

import logging
import sys
from functools import cache
from typing import Any, Final

import httpx

_logger = logging.getLogger("gateway_sdk")


_MOCKS: Final = frozenset({"pytest_httpx", "respx", "vcr"})
_ORIGINALS: Final = frozenset({"httpcore", "httpx"})

_last: tuple[tuple[Any, Any], bool] = (None, None), False  # what was judged, and the verdict


def is_mocked() -> bool:
    """Tell whether a known mock has replaced httpx's network."""
    global _last  # noqa: PLW0603 - it is asked for each attempt, and seldom changes
    core = sys.modules.get("httpcore")
    pool = core and core.AsyncConnectionPool.handle_async_request
    # wrapt's objects are equal to what they wrap, and have the same verdict.
    methods = httpx.AsyncHTTPTransport.handle_async_request, pool
    if methods != _last[0]:
        _last = methods, _judge({_package_of(method) for method in methods if method})
    return _last[1]


def _judge(packages: set[str]) -> bool:
    if packages & _MOCKS:
        return True
    for package in packages - _ORIGINALS:
        _warn(package)
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
def _warn(package: str) -> None:
    _logger.warning(
        "%s has replaced the network of httpx, and gateway_sdk does not know it: calls still go to "
        "the gateway; to send them through httpx, give the session an http_client=",
        package,
    )
