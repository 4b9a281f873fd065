"""The session: its settings, making, opening and closing it, views, and its methods by name."""

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast, overload

from gateway_sdk._call.call import Caller, Connecting
from gateway_sdk._call.options import (
    OPTIONS,
    PER_CALL,
    CallArguments,
    CallSettings,
    Options,
    ViewSettings,
)
from gateway_sdk._call.shared_state import SHARED, SharedSettings, SharedState
from gateway_sdk._checks import check_names, shown
from gateway_sdk._python import NotPickled, safe_repr
from gateway_sdk._transport.settings import TRANSPORT, TransportSettings
from gateway_sdk._url import origin_of_text, parse_url
from gateway_sdk._waiting import hiding_frames
from gateway_sdk.areas.aml import AmlArea, KycArea
from gateway_sdk.areas.currency import CountryDataArea, CurrencyArea
from gateway_sdk.areas.customer import CustomerArea
from gateway_sdk.areas.wallet import WalletArea
from gateway_sdk.auth.source import AccessTokenGiven
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import Observer
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Reply

if TYPE_CHECKING:
    from gateway_sdk.auth import TokenStore

__all__ = ["ENVIRONMENT", "GatewaySession"]

T = TypeVar("T")


class SessionSettings(CallSettings, TransportSettings, SharedSettings, total=False):
    """The settings of a session that have a default."""


class EnvironmentSettings(SessionSettings, total=False):
    """All settings of a session, and of the login whose token it uses."""

    base_url: str
    access_token: AccessTokenGiven
    auth_url: str
    client_id: str
    token_store: str | None


DECLARED: Final = {**OPTIONS, **TRANSPORT, **SHARED}

ENVIRONMENT: Final = {
    "base_url": "GATEWAY_BASE_URL",
    "access_token": "GATEWAY_ACCESS_TOKEN",
    "tenant_id": "GATEWAY_TENANT_ID",
    "token_header": "GATEWAY_TOKEN_HEADER",
    "auth_url": "GATEWAY_AUTH_URL",
    "client_id": "GATEWAY_CLIENT_ID",
    "token_store": "GATEWAY_TOKEN_STORE",
}
_OF_SESSION: Final = {"base_url", *DECLARED} - OPTIONS.keys()
_OF_LOGIN: Final = ("auth_url", "client_id", "token_store")


class GatewaySession(NotPickled):
    """A client of one gateway; make one per service and share it among all tasks.

    Making a session does no I/O. It opens at the first call, or with `async with`, which also
    closes it. It can be used only in the event loop and the process in which it was opened.
    """

    @hiding_frames(ConfigurationError)
    @shown()
    def __init__(
        self, base_url: str, *, access_token: AccessTokenGiven, **settings: Unpack[SessionSettings]
    ) -> None:
        """Check every setting; nothing is sent.

        `max_connections`, `verify`, `cert`, `proxy` and `trust_env` configure the SDK's own
        connections: together with `transport` or `http_client` they are refused.

        Args:
            base_url: The gateway's address; https, unless the host is this machine.
            access_token: A string, a `SecretStr`, a `Token`, a coroutine function that returns
                one, or an object with `async token(rejected=None)`, as `SharedTokenSource` is. A
                `Token` with an end is kept for all callers, whoever they are.
            tenant_id: The value of the header tenantId; `create_customer` needs it.
            token_header: The value of the header token; the interface does not define its meaning.
            timeout: Seconds for each phase of an attempt, or an `httpx.Timeout`; None for no
                limit.
            deadline: Seconds for a whole call, from its token to the end of its reply; None for
                no limit.
            retry: How often a call is tried, and the waits; None for a single attempt, and one
                more after a 401.
            headers: Additional headers of every request.
            transport: Your own transport in place of the SDK's connections; the session closes it.
            http_client: Your own client in place of the SDK's connections; you close it. With a
                `GatewayTransport` inside, the session still knows what was sent.
            max_connections: The largest number of requests at the same time, 50 by default; the
                others wait in their order.
            rate_limit: A `RateLimit`, the largest number of requests in a time; the others wait in
                their order.
            retry_budget: Limits the retries of the whole session; None for no limit.
            verify: True for the usual certificate authorities (the default), the path of a CA
                file or folder, or an `ssl.SSLContext`.
            cert: A client certificate: the path of a file that also holds the key, or
                `(certificate, key)` or `(certificate, key, password)`.
            proxy: The address of a proxy, which replaces that of the environment.
            trust_env: Whether to use HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE
                and SSL_CERT_DIR; True by default.
            allow_insecure_http: Allow plain http to another machine; the token is not encrypted
                then.
            max_reply_bytes: The largest reply, in decompressed bytes.
            parse_float: Converts the text of numbers with a fraction, in replies that the
                interface leaves open; `decimal.Decimal` keeps them exact.
            drain: Seconds that closing waits for calls in flight.
            observers: Called for every call, attempt and retry.
            sleep: Waits the seconds between attempts in place of `asyncio.sleep`, for tests.

        Raises:
            ConfigurationError: a setting is missing or wrong; the message names it.
        """
        given = check_names("GatewaySession", settings, DECLARED)
        options = Options.of({**given, "access_token": access_token})
        shared = SharedState(base_url, given)
        self._call_with(Caller(shared, options))
        self._is_view = False

    if not TYPE_CHECKING:  # type checkers would take any attribute then

        def __setattr__(self, name: str, value: object) -> None:
            # A subclass may keep such a thing for itself.
            if type(self) is GatewaySession and (name in OPTIONS or name in _OF_SESSION):
                way = (
                    "with_options() makes a view with" if name in OPTIONS else "make a session with"
                )
                raise AttributeError(f"{name} of a session cannot be set: {way} another one")
            super().__setattr__(name, value)

    def _call_with(self, caller: Caller) -> None:
        self._caller = caller
        self.customer = CustomerArea(caller)
        self.currency = CurrencyArea(caller)
        self.wallet = WalletArea(caller)
        self.aml = AmlArea(caller)
        self.kyc = KycArea(caller)
        self.country_data = CountryDataArea(caller)

    @classmethod
    @hiding_frames(ConfigurationError)
    @shown(inherited=ENVIRONMENT)
    def from_env(cls, **overrides: Unpack[EnvironmentSettings]) -> Self:
        """Make a session from the environment.

        It reads GATEWAY_BASE_URL, GATEWAY_ACCESS_TOKEN, GATEWAY_TENANT_ID and
        GATEWAY_TOKEN_HEADER; an empty variable counts as missing. Without GATEWAY_ACCESS_TOKEN it
        uses the token that `gateway login` stored for the same GATEWAY_AUTH_URL,
        GATEWAY_CLIENT_ID and GATEWAY_TOKEN_STORE.

        Args:
            overrides: Arguments of the session, which replace or complete the environment; also
                `auth_url`, `client_id` and `token_store`.

        Raises:
            ConfigurationError: a setting is missing or wrong, or a token or the tenant of the
                environment would go to another gateway than that of GATEWAY_BASE_URL; the message
                names it.
        """
        known = {*EnvironmentSettings.__optional_keys__, *inspect.signature(cls).parameters}
        given = check_names("from_env", overrides, known)
        return cls(**with_access_token(with_environment(given)))

    @hiding_frames(ConfigurationError)
    @shown(inherited=OPTIONS)
    def with_options(self, **changes: Unpack[ViewSettings]) -> Self:
        """Return a view of this session with other options.

        They are `access_token`, `tenant_id`, `token_header`, `timeout`, `deadline`, `retry` and
        `headers`, as for the session.
        The view shares the connections; the session itself does not change. Options that are not
        given are inherited: `tenant_id=None` and `token_header=None` remove the header,
        `headers={"X": None}` removes one header, and `headers=None` removes all of them. Closing
        a view does nothing.

        Raises:
            ConfigurationError: an option is wrong; the message names it.
        """
        for name in changes.keys() & _OF_SESSION:
            hint = "the session has it, for all its views"
            raise ConfigurationError(f"with_options has no argument {name!r}: {hint}")
        given = check_names("with_options", changes, OPTIONS)
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        view._is_view = True
        options = self._caller.options.but(given)
        view._call_with(Caller(self._caller.shared, options))
        return view

    # Of the class it is the class of the area: there `create_autospec` finds the methods.
    customer: CustomerArea = cast("Any", CustomerArea)
    """Creates customers and revises them."""
    currency: CurrencyArea = cast("Any", CurrencyArea)
    """Returns series of exchange rates."""
    wallet: WalletArea = cast("Any", WalletArea)
    """Shows orders and balances, and cancels orders."""
    aml: AmlArea = cast("Any", AmlArea)
    """Uploads documents, updates them and changes their status."""
    kyc: KycArea = cast("Any", KycArea)
    """Calls the webhook."""
    country_data: CountryDataArea = cast("Any", CountryDataArea)
    """Lists the countries of the world."""

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of the session: `bulk.run` takes them for its run."""
        return self._caller.shared.observers

    @overload
    async def send(
        self, operation: Operation[T], *, into: None = None, **given: Unpack[CallArguments]
    ) -> Reply[T]: ...

    @overload
    async def send(
        self, operation: Operation[Any], *, into: type[T], **given: Unpack[CallArguments]
    ) -> Reply[T]: ...

    @overload
    async def send(
        self, operation: Operation[Any], *, into: Any, **given: Unpack[CallArguments]
    ) -> Reply[Any]: ...

    @shown(inherited=PER_CALL)
    async def send(
        self, operation: Operation[Any], *, into: Any = None, **given: Unpack[CallArguments]
    ) -> Reply[Any]:
        """Make one call and return its reply, with status, header fields and attempts.

        The coroutine methods of the areas make the same call and return its value only.

        Args:
            operation: One of `gateway_sdk.operations`.
            path: The values of the placeholders in its path, by name.
            body: A model or JSON value; for the operations that take any type of entity body, one
                of the types in `BodyContent`. None sends no body.
            content_type: The media type of such a body, which replaces the one that the SDK finds.
            on_progress: Called with the bytes sent so far and the total; its first error is logged.
            into: A type that pydantic can validate, also a union; the JSON of the reply is
                validated into it. Use it if you know the replies of your gateway.
            headers: More headers for this call; None as a value removes one of the session's.
            deadline: Seconds for this call in place of the session's; None for no limit.

        Raises:
            InvalidArgumentError: an argument is wrong; nothing was sent.
            SessionStateError: the session is closed, or belongs to another event loop or process.
            GatewayError: the call failed; `outcome` says what the gateway did.
        """
        return await self._caller.send(operation, into, given)

    async def connect(self) -> None:
        """Get an access token, and open a connection, which the next call uses; send no request.

        It is a health check, a warm-up at the start of a service, and what a worker waits with
        until somebody has logged in. It does not tell whether the gateway accepts the token. With
        your own `transport` or `http_client`, or a mock of httpx, it gets the token only. The
        retries and the deadline are those of a call.

        Raises:
            AuthError: there is no access token; its advice is LOG_IN.
            ConnectionFailedError: there is no connection; its advice is REPEAT or FIX.
            DeadlineExceededError: it took longer than `deadline`.
            SessionStateError: the session is closed, or belongs to another event loop or process.
        """
        await Connecting(self._caller).connect()

    async def __aenter__(self) -> Self:
        await self._caller.shared.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Refuse new calls, wait up to `drain` seconds for calls in flight, then cut them.

        A call that is cut raises `SessionStateError`; its outcome says what the gateway did.
        Closing a second time does nothing. Several tasks may close the session. If one is
        cancelled, the others go on waiting; if the last one is cancelled, the calls are cut at
        once. The transport is closed in any case. On a view this does nothing.

        Raises:
            SessionStateError: the session belongs to another event loop or process.
            Exception: closing your own `transport` failed; the session is closed all the same.
        """
        if not self._is_view:
            await self._caller.shared.aclose()

    @safe_repr
    def __repr__(self) -> str:
        kind = "view of GatewaySession" if self._is_view else "GatewaySession"
        return f"<{kind} {self._caller.shared.base_url} ({self._caller.shared.state})>"


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add settings of the environment that were not given; an empty variable counts as missing."""
    own, other = os.environ.get(ENVIRONMENT["base_url"]), origin_of_text(given.get("base_url"))
    goes_elsewhere = own and other and other != origin_of_text(own)
    found = {name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()}
    settings = {name: value for name, value in found.items() if value} | dict(given)
    for name in ("access_token", "token_header", "tenant_id"):
        if goes_elsewhere and name in settings and name not in given:
            raise ConfigurationError(
                "is for another gateway, that of GATEWAY_BASE_URL",
                setting=ENVIRONMENT[name],
                hint=f": give {name}= too",
            )
    return settings


def with_access_token(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a session; without an access token, the store's is read."""
    _require(settings, "base_url")
    session = {name: value for name, value in settings.items() if name not in _OF_LOGIN}
    if "access_token" in settings:
        return session
    if not {"auth_url", "client_id"} & settings.keys():
        raise ConfigurationError(
            "is not set",
            setting="GATEWAY_ACCESS_TOKEN",
            hint=", and no access_token= was given; or set GATEWAY_AUTH_URL and "
            "GATEWAY_CLIENT_ID, and run `gateway login`",
        )
    # Only such a session needs the stores and the login.
    from gateway_sdk.auth import SharedTokenSource  # noqa: PLC0415

    return {**session, "access_token": SharedTokenSource(token_store(settings))}


def token_store(settings: Mapping[str, Any]) -> "TokenStore":
    """Return the store that logins write and sessions read; the same in every process."""
    from gateway_sdk.auth import TokenKey, open_store  # noqa: PLC0415

    _require(settings, "base_url", *_OF_LOGIN[:2])
    parse_url("auth_url", settings["auth_url"])  # under the name that it has here
    key = TokenKey.of(settings["auth_url"], settings["client_id"], settings["base_url"])
    return open_store(settings.get("token_store"), key)


def _require(settings: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if settings.get(name) is None:
            if name in settings:
                raise ConfigurationError("must not be None", setting=name)
            hint = f", and no {name}= was given"
            raise ConfigurationError("is not set", setting=ENVIRONMENT[name], hint=hint)
