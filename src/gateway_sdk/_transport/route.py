"""The way to one gateway: straight or through a proxy, with TLS whose files may be renewed."""

import asyncio
import math
import ssl
from base64 import b64encode
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import cast

import httpx

from gateway_sdk._http.request import RawHeaders
from gateway_sdk._python import Log
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.dial import DELAY, Dialler
from gateway_sdk._transport.proxy import open_by_connect, open_by_socks
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk._url import host_and_port, port_of
from gateway_sdk._waiting import OwnCancellation, SingleFlight, in_thread
from gateway_sdk.errors import ConfigurationError

_logger = Log("gateway_sdk")


class Route:
    def __init__(
        self,
        url: httpx.URL,
        load_tls: Callable[[], ssl.SSLContext],
        stamp: Callable[[], object],  # what it returns changes with the files that are loaded
        proxy: httpx.Proxy | None,
        note: Callable[[Connection], None],
    ) -> None:
        self._load_tls, self._stamp_of = load_tls, stamp
        self._speaks_tls = "https" in (url.scheme, proxy and proxy.url.scheme)
        self._tls = None if self._speaks_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._stamp: object = None
        self.proxy = proxy
        place = "" if proxy is None else host_and_port(*_address_of(proxy.url))
        self._proxy_name = f"the proxy {place}" if place else None
        self._is_socks = proxy is not None and proxy.url.scheme.startswith("socks")
        self.forwards = proxy is not None and url.scheme == "http" and not self._is_socks
        self.credentials: RawHeaders = []  # for the proxy
        if proxy is not None and proxy.raw_auth is not None:
            basic = b"Basic " + b64encode(b":".join(proxy.raw_auth))
            self.credentials = [(b"Proxy-Authorization", basic)]
        self._url = url
        self._note = note
        self._dialler = Dialler(*_address_of(url if proxy is None else proxy.url))
        start = partial(in_thread, "gateway_sdk authorities", self._load, daemon=False)
        self._loading = SingleFlight[ssl.SSLContext](start)
        self._is_away = False  # no connection could be made last time
        # What becomes of it, its time-out, and the proxy, if it talks to that only.
        self._trial: asyncio.Future[tuple[httpx.HTTPError | None, float, str | None]] | None = None

    async def tls(self) -> ssl.SSLContext:
        """Return the context for the gateway; to load the authorities takes 30 ms."""
        if self._tls and not (self._speaks_tls and self._stamp_of() != self._stamp):
            return self._tls
        try:
            return await self._loading.join()
        except ConfigurationError as error:
            raise copy(error) from error.__cause__  # its own: other callers get it too
        except RuntimeError:  # no thread can be started
            return self._load()

    def _load(self) -> ssl.SSLContext:
        stamp, tls = self._stamp_of(), self._tls  # not after it: the files may change
        try:
            tls = self._load_tls()
        except ConfigurationError as error:
            if tls is None:
                raise
            # Perhaps one of two files is new; when the other one comes, it is tried again.
            _logger.warning("the files for TLS have changed, and the old ones stay: %s", str(error))
        self._tls, self._stamp = tls, stamp
        return tls

    async def open(self, transmission: Transmission, seconds: float | None) -> Connection:
        # An error here means that no byte of the request was sent. While the server is away, one
        # call at a time tries, and the others wait for what becomes of it.
        transmission.proxy = self._proxy_name
        await self.tls()  # its time is not that of connecting
        limit = math.inf if seconds is None else seconds
        while self._trial is not None:
            theirs = self._trial
            await asyncio.wait([theirs], timeout=seconds)
            if not theirs.done():
                raise httpx.ConnectTimeout("")
            other, waited, proxy = theirs.result()
            # A shorter time-out than that of this call says nothing of the gateway.
            is_hasty = isinstance(other, httpx.ConnectTimeout) and waited < limit
            if other is not None and not is_hasty:
                transmission.proxy = proxy  # if it is the one that failed
                raise copy(other) from other.__cause__
        trial = asyncio.get_running_loop().create_future()
        if self._is_away:
            self._trial = trial
        failure: httpx.HTTPError | None = None
        try:
            connection = await self._timed(transmission, seconds)
        except httpx.HTTPError as error:
            failure = error
            self._is_away = True
            raise
        else:
            self._is_away = False
            return connection
        finally:
            if self._trial is trial:
                self._trial = None
            trial.set_result((failure, limit, transmission.proxy))

    async def _timed(self, transmission: Transmission, seconds: float | None) -> Connection:
        late = OwnCancellation()
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, late.cancel)
        try:
            return await self._open(transmission)
        except (OSError, UnicodeError) as error:  # an ssl.SSLError is one; the other is of a name
            raise httpx.ConnectError(type(error).__name__) from error
        except asyncio.CancelledError as error:
            if late.take_back(type(error)):
                raise httpx.ConnectTimeout("") from None
            raise
        finally:
            late.take_back(None)
            if timer is not None:
                timer.cancel()

    async def _open(self, transmission: Transmission) -> Connection:
        tls = await self.tls()
        try:
            return await self._open_with(tls, transmission)
        except ssl.SSLError:
            if (renewed := await self.tls()) is tls:
                raise
            return await self._open_with(renewed, transmission)  # its files changed meanwhile

    async def _open_with(self, tls: ssl.SSLContext, transmission: Transmission) -> Connection:
        proxy, (host, _) = self.proxy, _address_of(self._url)
        transmission.proxy = self._proxy_name
        place, connection = await self._dialler.connect()
        self._note(connection)
        connected_at = asyncio.get_running_loop().time()
        try:
            if proxy is not None and proxy.url.scheme == "https":
                context = cast("ssl.SSLContext", proxy.ssl_context)  # loaded by `tls`
                await connection.start_tls(context, _address_of(proxy.url)[0])
            if proxy is not None and not self.forwards:
                await self._open_tunnel(connection, proxy)
                transmission.proxy = None
            if self._url.scheme == "https":
                await connection.start_tls(tls, host)
        except BaseException as error:
            # Perhaps something accepts connections there that has lost what is behind it.
            if isinstance(error, OSError) or (
                asyncio.get_running_loop().time() - connected_at >= DELAY
            ):
                self._dialler.avoid(place)
            connection.abort()
            raise
        return connection

    async def _open_tunnel(self, connection: Connection, proxy: httpx.Proxy) -> None:
        host, port = _address_of(self._url)
        try:
            if self._is_socks:
                await open_by_socks(connection, proxy.raw_auth, host, port)
            else:
                authority = host_and_port(host, port).encode("ascii")
                await open_by_connect(connection, self.credentials, authority)
        except OSError as error:
            raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None


def _address_of(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), port_of(url)
