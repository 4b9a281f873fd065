"""The session: how it is made, viewed, opened and closed."""

import inspect
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, TypeVar, Unpack, overload

import httpx
from pydantic import SecretStr

from gateway_sdk import _config
from gateway_sdk._call.call import Caller
from gateway_sdk._call.client import Client
from gateway_sdk._call.options import Options
from gateway_sdk._call.overrides import Overrides, check_overrides
from gateway_sdk._call.retry import RetryBudget, RetryPolicy
from gateway_sdk._config import UNSET, UnsetType
from gateway_sdk._http.body import OnProgress
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.admission import RateLimit
from gateway_sdk._transport.factory import Certificate, EngineConfig, EngineName
from gateway_sdk.areas.aml import AmlArea
from gateway_sdk.areas.country_data import CountryDataArea
from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.kyc import KycArea
from gateway_sdk.areas.wallet import WalletArea
from gateway_sdk.auth import AccessTokenGiven
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import Observer
from gateway_sdk.operations import Operation
from gateway_sdk.reply import Reply

T = TypeVar("T")


class GatewaySession:
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
            engine: "httpx", which is the default, or "asyncio" with the extra `fast`.
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
        options = Options.of(
            access_token=access_token,
            tenant_id=tenant_id,
            token_header=token_header,
            timeout=timeout,
            deadline=deadline,
            retry=retry,
            headers=headers,
        )
        client = Client(
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
            budget=retry_budget,
            observers=observers,
        )
        self._caller = Caller(client, options)
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
        # Only a session of the environment may need what a login left.
        from gateway_sdk.auth._environment import with_access_token  # noqa: PLC0415

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
        options = self._caller.options.but(
            access_token=access_token,
            tenant_id=tenant_id,
            token_header=token_header,
            timeout=timeout,
            deadline=deadline,
            retry=retry,
            headers=headers,
        )
        view._caller = Caller(self._caller.client, options)
        return view

    @property
    def customer(self) -> CustomerArea:
        """Creates customers and revises them."""
        return CustomerArea(self._caller)

    @property
    def currency(self) -> CurrencyArea:
        """Returns series of exchange rates."""
        return CurrencyArea(self._caller)

    @property
    def wallet(self) -> WalletArea:
        """Shows orders and balances, and cancels orders."""
        return WalletArea(self._caller)

    @property
    def aml(self) -> AmlArea:
        """Uploads documents, updates them and changes their status."""
        return AmlArea(self._caller)

    @property
    def kyc(self) -> KycArea:
        """Calls the webhook."""
        return KycArea(self._caller)

    @property
    def country_data(self) -> CountryDataArea:
        """Lists the countries of the world."""
        return CountryDataArea(self._caller)

    @overload
    async def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: None = ...,
    ) -> Reply[T]: ...

    @overload
    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: type[T],
    ) -> Reply[T]: ...

    @overload
    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: Any,
    ) -> Reply[Any]: ...

    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        into: Any = None,
    ) -> Reply[Any]:
        """Make one call and return its reply; every coroutine method is a line on top of this.

        Args:
            operation: One of `gateway_sdk.operations`.
            path: Values for the placeholders of its path, under their names there.
            body: A model or JSON value, or for the operations that take any type of entity body
                what `BodyContent` lists. None sends no body.
            content_type: The media type of such a body, in place of the one that follows from it.
            on_progress: Called with the bytes sent so far and the total; what it raises is logged.
            into: A type that pydantic knows, to validate the reply's JSON into, for those who
                know their gateway's shapes.

        Raises:
            InvalidArgumentError: an argument is wrong; nothing was sent.
            SessionStateError: the session is closed, or belongs elsewhere.
            GatewayError: its `outcome` says what became of the call.
        """
        return await self._caller.send(
            operation,
            path=path,
            body=body,
            content_type=content_type,
            on_progress=on_progress,
            into=into,
        )

    async def __aenter__(self) -> Self:
        self._caller.client.open()
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
            await self._caller.client.aclose()

    @safe_repr
    def __repr__(self) -> str:
        kind = "view of GatewaySession" if self._is_view else "GatewaySession"
        return f"<{kind} {self._caller.client.base_url} ({self._caller.client.state.value})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a GatewaySession holds connections and credentials: it is not pickled")
