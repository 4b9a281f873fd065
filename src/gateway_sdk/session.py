"""The session: how it is made, viewed, opened and closed."""

import inspect
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, Unpack

import httpx
from pydantic import SecretStr

from gateway_sdk import _config
from gateway_sdk._call.budget import RetryBudget
from gateway_sdk._call.client import Core
from gateway_sdk._call.options import Options
from gateway_sdk._call.overrides import Overrides, check_overrides
from gateway_sdk._call.retry import RetryPolicy
from gateway_sdk._config import UNSET, UnsetType
from gateway_sdk._repr import safe_repr
from gateway_sdk._sending import Sending
from gateway_sdk._transport.admission import RateLimit
from gateway_sdk._transport.factory import Certificate, EngineConfig, EngineName
from gateway_sdk.auth import AccessTokenGiven
from gateway_sdk.auth._environment import with_access_token
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import Observer


class GatewaySession(Sending):
    """A connection to one gateway; make one per service and share it among all tasks.

    Making a session does no I/O: it opens on first use, or with `async with`, which also closes
    it. It belongs to the event loop and the process in which it was opened.
    """

    def __init__(
        self,
        base_url: str,
        *,
        access_token: AccessTokenGiven,
        tenant_id: str | None = None,
        token_header: str | SecretStr | None = None,
        timeout: float | httpx.Timeout | None = _config.DEFAULT_TIMEOUT,
        deadline: float | None = _config.DEFAULT_DEADLINE,
        retry: RetryPolicy | None = RetryPolicy(),
        headers: Mapping[str, str] | None = None,
        engine: EngineName | UnsetType = UNSET,
        transport: httpx.AsyncBaseTransport | None = None,
        http_client: httpx.AsyncClient | None = None,
        max_connections: int | UnsetType = UNSET,
        rate_limit: RateLimit | None = None,
        retry_budget: RetryBudget | None = RetryBudget(),
        verify: ssl.SSLContext | str | Path | Literal[True] | UnsetType = UNSET,
        cert: Certificate | None = None,
        proxy: str | None = None,
        trust_env: bool | UnsetType = UNSET,
        allow_insecure_http: bool = False,
        max_reply_bytes: int = _config.DEFAULT_MAX_REPLY_BYTES,
        parse_float: Callable[[str], Any] | None = None,
        drain: float = _config.DEFAULT_DRAIN,
        observers: Iterable[Observer] = (),
    ) -> None:
        """Check every setting; nothing is sent.

        `engine`, `max_connections`, `verify`, `cert`, `proxy` and `trust_env` are about the
        connections of an engine: beside `transport` or `http_client` they are refused.

        Args:
            base_url: The gateway's address; https, unless it is this machine.
            access_token: A string, a `SecretStr`, a `Token`, a coroutine function that returns
                one, or an object with `async token(rejected=None)`, as `SharedTokenSource` is.
            tenant_id: The header tenantId; `create_customer` needs it.
            token_header: The header token, whose meaning the interface leaves open.
            timeout: Seconds for each phase of an attempt, or an `httpx.Timeout`; None for none.
            deadline: Seconds for a whole call, from its token to the end of its reply; None for
                no limit.
            retry: How often and how patiently a call is tried; None for a single attempt.
            headers: More headers for every request.
            engine: "httpx", which is the default, or "aiohttp" with the extra of that name.
            transport: A transport of your own, in place of an engine; it is closed with the
                session.
            http_client: A client of your own, in place of an engine; it is never closed here.
            max_connections: Requests on the wire at once, 50 by default; the others wait in
                their order.
            rate_limit: How many requests may be sent in a time; the others wait in their order.
            retry_budget: How much extra load the retries of the whole session may be; None for
                no bound.
            verify: True for the usual authorities, which is the default, the path of a CA file
                or folder, or an `ssl.SSLContext`.
            cert: A client certificate: the path of a file that holds its key too, or
                `(certificate, key)` or `(certificate, key, password)`.
            proxy: The address of a proxy, in place of the environment's.
            trust_env: Whether HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY count, as they do
                by default.
            allow_insecure_http: Allow plain http to another machine, token and all.
            max_reply_bytes: Decompressed bytes of one reply at the most.
            parse_float: Makes numbers of the text of those with a fraction, in replies that the
                interface leaves open; `decimal.Decimal` keeps them exact.
            drain: Seconds that closing waits for calls under way.
            observers: Told of every call, attempt and retry.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        if parse_float is not None and not callable(parse_float):
            raise ConfigurationError("parse_float must be a function of a string, such as Decimal")
        self._options = Options.of(
            access_token=access_token,
            tenant_id=tenant_id,
            token_header=token_header,
            timeout=timeout,
            deadline=deadline,
            retry=retry,
            headers=headers,
        )
        self._core = Core(
            base_url=_config.parse_base_url(base_url, allow_insecure_http=allow_insecure_http),
            engine=EngineConfig.of(
                engine=engine,
                transport=transport,
                http_client=http_client,
                max_connections=max_connections,
                verify=verify,
                cert=cert,
                proxy=proxy,
                trust_env=trust_env,
                rate_limit=rate_limit,
            ),
            max_reply_bytes=_config.check_count("max_reply_bytes", max_reply_bytes),
            parse_float=parse_float,
            drain=_config.check_wait("drain", drain),
            usual_deadline=self._options.deadline,
            budget=_checked_budget(retry_budget),
            observers=_checked_observers(observers),
        )
        self._check_gateway()
        self._is_view = False

    @classmethod
    def from_env(cls, **overrides: Unpack[Overrides]) -> Self:
        """Make a session from the environment.

        Read are GATEWAY_BASE_URL, GATEWAY_ACCESS_TOKEN, GATEWAY_TENANT_ID, GATEWAY_TOKEN_HEADER
        and GATEWAY_ENGINE; one that is empty counts as missing. Without GATEWAY_ACCESS_TOKEN the
        token is the one that `gateway login` left, for the same GATEWAY_AUTH_URL,
        GATEWAY_CLIENT_ID and GATEWAY_TOKEN_STORE. A `transport` or `http_client` that is given
        stands in place of GATEWAY_ENGINE.

        Args:
            overrides: Arguments of the session, in place of or beside the environment's; also
                `auth_url`, `client_id` and `token_store`.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        check_overrides(overrides, inspect.signature(cls).parameters)
        settings = _config.with_environment(overrides)
        seams = (settings.get("transport"), settings.get("http_client"))
        if "engine" not in overrides and seams != (None, None):
            settings.pop("engine", None)
        return cls(**with_access_token(settings))

    def with_options(
        self,
        *,
        access_token: AccessTokenGiven | UnsetType = UNSET,
        tenant_id: str | UnsetType | None = UNSET,
        token_header: str | SecretStr | UnsetType | None = UNSET,
        timeout: float | httpx.Timeout | UnsetType | None = UNSET,
        deadline: float | UnsetType | None = UNSET,
        retry: RetryPolicy | UnsetType | None = UNSET,
        headers: Mapping[str, str | None] | UnsetType | None = UNSET,
    ) -> Self:
        """Return a view of this session with some options of its own.

        It shares the connections and changes nothing here. Only what is left out is inherited:
        `tenant_id=None` and `token_header=None` remove the header, `headers={"X": None}` removes
        one and `headers=None` all. Closing a view does nothing.

        Raises:
            ConfigurationError: an option is wrong; the message names it.
        """
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        view._is_view = True
        view._options = self._options.but(
            access_token=access_token,
            tenant_id=tenant_id,
            token_header=token_header,
            timeout=timeout,
            deadline=deadline,
            retry=retry,
            headers=headers,
        )
        view._check_gateway()
        return view

    def _check_gateway(self) -> None:
        """Refuse a token source that says it is for another gateway."""
        gateway = getattr(self._options.access_token, "gateway", None)
        origin = _config.origin_of(self._core.base_url)
        if isinstance(gateway, str) and gateway != origin:
            raise ConfigurationError(
                f"access_token is for {gateway}, and base_url is at {origin}: "
                "a token goes to its own gateway only"
            )

    async def __aenter__(self) -> Self:
        self._core.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Refuse new calls, wait for those under way as long as `drain` says, then cut them off.

        A call that is cut off raises `SessionStateError`, whose outcome says what became of it.
        Closing again does nothing. Any number of tasks may close it, and each may be cancelled:
        the others go on waiting, and with the last one the calls are cut at once. The transport
        is closed in any case. On a view this does nothing.

        Raises:
            SessionStateError: the session belongs to another event loop or process.
        """
        if not self._is_view:
            await self._core.aclose()

    @safe_repr
    def __repr__(self) -> str:
        kind = "view of GatewaySession" if self._is_view else "GatewaySession"
        return f"<{kind} {self._core.base_url} ({self._core.state.value})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a GatewaySession holds connections and credentials: it is not pickled")


def _checked_budget(budget: object) -> RetryBudget | None:
    if budget is not None and not isinstance(budget, RetryBudget):
        raise ConfigurationError("retry_budget must be a RetryBudget, or None for no bound")
    return budget


def _checked_observers(observers: object) -> tuple[Observer, ...]:
    """Return the observers; they are objects, not classes, and have every method."""
    if not isinstance(observers, Iterable):
        raise ConfigurationError("observers must be an iterable of Observers")
    given = tuple(observers)
    if not all(isinstance(observer, Observer) for observer in given):
        raise ConfigurationError("observers must be instances of subclasses of Observer")
    for observer in given:
        _check_methods(observer)
    return given


def _check_methods(observer: Observer) -> None:
    """Refuse `async def` methods: they are called and never awaited."""
    for name in vars(Observer):
        if not name.startswith("_") and _config.is_async(getattr(observer, name)):
            raise ConfigurationError(
                f"{type(observer).__name__}.{name} is async: the methods of an observer are plain "
                "functions, which may start a task"
            )
