"""A token that many callers share: kept in a store, obtained by one login for all of them."""

import asyncio
import copy
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, TypeGuard

from gateway_sdk._checks import accepts, check_seconds, check_wait, promised
from gateway_sdk._files import LockFile
from gateway_sdk._python import Log, NotPickled, safe_repr
from gateway_sdk._waiting import SingleFlight, raise_if_cancelled
from gateway_sdk.auth._stores.store import PrivateFileStore, TokenKey, TokenStore, prepare_folder_of
from gateway_sdk.auth.source import DEFAULT_ACQUIRE_TIMEOUT, DEFAULT_LOGIN_TIMEOUT, Builtin
from gateway_sdk.auth.token import DEFAULT_LEEWAY, AccessToken, CachedToken, Token, text_of
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    LoginError,
    LoginRequiredError,
    LoginTimeoutError,
    TokenRecordError,
    TokenRejectedError,
    TokenStoreError,
)

_logger = Log("gateway_sdk.auth")

DEFAULT_HOLD: Final = 30.0
"""Seconds: enough for a user to notice, and far longer than a burst of callers lasts."""

_LONGEST_HOLD: Final = 3600.0
"""Seconds without a new login after several that no user has answered."""
_MOST_UNANSWERED: Final = 8
"""Logins in a row: then nobody is there, and each further window would wait for the next day."""

_ROUNDS: Final = 3
"""Renewals that one caller joins: the running one may have started because of another token."""

_MAX_REFUSED: Final = 32

_FIRST_PAUSE: Final = 1.0
"""Seconds without a refused token, if there is no other; each further one is twice as long."""

_TIMEOUT: Final = 60.0
"""Seconds: a store that takes longer hangs. A keyring may ask the user for its password."""

_POLL: Final = 0.5
"""Seconds between two looks at the store while another process logs in."""

_NOBODY_THERE: Final = (
    f"nobody has finished the last {_MOST_UNANSWERED} logins, so none is started any more: log in "
    "with `gateway login`, or start the program again"
)

_QUICK: Final = 0.25
"""Seconds in which most stores have saved a token: then who starts other programs finds it there.
Callers do not wait for longer."""

_LAST_SAVE: Final = 2.0
"""Seconds that the end of a program waits for a token to be saved."""


class SharedTokenSource(Builtin, NotPickled):
    """A token source for any number of callers, tasks and sessions in one event loop at a time.

    A token that works is returned without waiting, and renewed in the background when it is about
    to expire. Without one the store is read, because another process may have saved one; then, if
    `acquire` is given, one login takes place for all callers. It continues when they are cancelled:
    until it ends, its event loop is closed, or `aclose` ends it.

    Of several processes that share a token file, one at a time logs in; the others wait for its
    token, but for 300 s at most. With another store each process logs in.
    """

    def __init__(
        self,
        store: TokenStore,
        acquire: Callable[[], Awaitable[Token]] | None = None,
        *,
        leeway: float = DEFAULT_LEEWAY,
        hold: float = DEFAULT_HOLD,
        acquire_timeout: float | None = DEFAULT_ACQUIRE_TIMEOUT,
    ) -> None:
        """Check the arguments; nothing is read.

        Args:
            store: Where the token is kept.
            acquire: Logs in, such as `lambda: login(flow)`. None for a process without a user:
                then LoginRequiredError says what to do.
            leeway: Seconds before its expiry from which a token is renewed, but at most a tenth of
                its lifetime.
            hold: Seconds without a new login after one failed, or after the gateway refused the
                tokens of two. Without `acquire` a refused token is tried again after 1 s, 2 s and
                so on, up to these seconds; a reply to another call with it ends the pause. After
                each further LoginTimeoutError in a row it is twice as long, up to an hour; after
                eight no login is started until the store has a token, as nobody seems to be there.
            acquire_timeout: Seconds after which an `acquire` that has not returned is ended, with a
                LoginTimeoutError; None for no limit.

        Raises:
            ConfigurationError: an argument is invalid; the message names it.
        """
        methods = [getattr(store, name, None) for name in ("load", "save", "delete")]
        if inspect.isclass(store) or not all(map(callable, methods)):
            problem = "must be a token store, such as PrivateFileStore(key)"
            raise ConfigurationError(problem, setting="store")
        if not isinstance(getattr(store, "key", None), TokenKey | None):
            raise ConfigurationError("the key of store must be a TokenKey, or None")
        if acquire is not None and not (callable(acquire) and accepts(acquire)):
            problem = "must be callable without arguments, such as lambda: login(flow)"
            raise ConfigurationError(problem, setting="acquire")
        self._store = store
        self._acquire = acquire
        self._leeway = check_wait("leeway", leeway)
        self._hold = check_wait("hold", hold)
        self._acquire_timeout = check_seconds("acquire_timeout", acquire_timeout)
        self._cached: CachedToken | None = None
        self._refused: dict[str, tuple[float, float]] = {}  # the end of the pause, and its length
        self._renewal = SingleFlight(self._renew)
        self._unsaved: tuple[Token, ExitStack] | None = None  # and the lock of its login
        self._saving = SingleFlight(self._save)  # beside the callers, who go on
        # The last login: until when it counts, its token, and the error that is raised in place of
        # a further login while it counts: if it failed, or if the gateway refuses its token too.
        self._counts_until = -math.inf
        self._obtained: Token | None = None
        self._failure: GatewayError | None = None
        self._unanswered = 0  # logins in a row that no user has finished

    @property
    def gateway(self) -> str | None:
        """The origin of the gateway that the token is for; None if the store has no key."""
        key: TokenKey | None = getattr(self._store, "key", None)
        return key.gateway if key else None

    async def token(self, rejected: Any = None) -> Token:
        """Return a token that has not expired and is not the rejected one.

        Args:
            rejected: None, or the token to which the gateway has just answered 401. If it was
                replaced in the meantime, the new one is returned at once.

        Raises:
            LoginRequiredError: there is none, and no `acquire` to get one.
            LoginError: the login failed, now or less than `hold` seconds ago.
            TokenRejectedError: the gateway refused the tokens of the last two logins.
            TokenStoreError: the store cannot be read.
        """
        if rejected is not None:
            self.reject(rejected)
        for _ in range(_ROUNDS):
            if (token := self.ready()) is not None:
                return token
            try:
                await self._renewal.join()
            except (GatewayError, asyncio.CancelledError) as error:
                raise_if_cancelled(error)
                if (token := self.ready()) is not None:
                    return token  # it was renewed in another event loop, or has worked
                if not isinstance(error, GatewayError):
                    raise LoginError("the login was ended") from None
                # A copy for each caller, which sets the operation on it.
                raise copy.copy(error) from None
        if (token := self.ready()) is not None:
            return token
        raise TokenRejectedError("the gateway refused each new access token at once", status=401)

    async def aclose(self) -> None:
        """End the login that this event loop has open, if any, and wait until its port is closed.

        Callers that wait for it get a LoginError. The source can still be used.
        """
        await self._renewal.end()
        await self._saving.end()

    def reject(self, token: AccessToken) -> None:
        """Note that the gateway refused a token; the next call of `token` returns another one."""
        text, now = text_of(token), time.monotonic()
        until, pause = self._refused.pop(text, (-math.inf, _FIRST_PAUSE / 2))
        if now >= until:
            pause = min(self._hold, 2 * pause)
            until = now + pause
        self._refused[text] = until, pause
        if len(self._refused) > _MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def note_success(self, token: AccessToken) -> None:
        """Note that the gateway accepted a token: if it was refused before, that was a mistake."""
        if self._refused:
            self._refused.pop(text_of(token), None)

    def ready(self) -> Token | None:
        """Return the token that is in memory and works; None if it has to be waited for."""
        if not self._works(cached := self._cached):
            return None
        if cached.is_due():
            self._renewal.start()
        return cached.token

    def _is_refused(self, token: Token) -> bool:
        # Without `acquire`, a refused token is tried again after a pause: there is no other, and
        # the fault may have been the gateway's.
        refusal = self._refused.get(text_of(token)) if self._refused else None
        if refusal is None:
            return False
        return self._acquire is not None or time.monotonic() < refusal[0]

    async def _renew(self) -> None:
        if self._is_fresh(self._cached):
            return  # the gateway has just accepted it after all
        found = None
        try:
            found = await self._load()
        except TokenRecordError:
            if self._acquire is None:
                raise  # else the login's token replaces it
        if self._is_fresh(found) or (self._works(found) and not self._works(self._cached)):
            self._cached = found
            if self._unanswered:
                self._unanswered, self._counts_until = 0, -math.inf
        elif self._acquire is not None:
            await self._log_in(self._acquire)
        elif not self._works(self._cached):
            reason = "there is no access token"
            if found is not None:
                reason = f"the access token expired at {found.token.ends}"
                if self._is_refused(found.token):
                    reason = "the gateway refused the access token"
            raise LoginRequiredError(f"{reason}: log in with `gateway login`")

    async def _log_in(self, acquire: Callable[[], Awaitable[Token]]) -> None:
        # A login is useless if it failed, or if it is the second in a row whose token the gateway
        # refused. Without a pause after it, many callers, or a gateway that refuses all tokens,
        # would open one browser window after another.
        is_recent = time.monotonic() < self._counts_until
        is_useless = is_recent and (self._obtained is None or self._is_refused(self._obtained))
        if is_useless and self._failure is not None:
            raise copy.copy(self._failure)
        try:
            with ExitStack() as held:
                token = await self._found_by_others(held)
                if token is None:
                    token = await self._acquired(acquire)
                    self._unsaved = token, held.pop_all()
            self.note_success(token)  # a server may issue the same token again
            self._cached = self._cached_of(token)
        except GatewayError as error:
            if isinstance(error, ConfigurationError) and error.setting != "acquire":
                raise  # it opened no window
            # A copy without the traceback, whose frames hold the login's secrets.
            self._end_login(None, copy.copy(error))
            raise
        # Not after a cancellation: it says nothing about the next login.
        text = "the gateway refuses the access tokens of the latest logins"
        self._end_login(token, TokenRejectedError(text, status=401) if is_useless else None)
        if self._unsaved is not None:
            await asyncio.wait([self._saving.start()], timeout=_QUICK)

    async def _acquired(self, acquire: Callable[[], Awaitable[Token]]) -> Token:
        seconds, told = self._acquire_timeout, "the login failed: "
        token = await _result_of("acquire", acquire, seconds, LoginError, told)
        if not isinstance(token, Token):
            raise LoginError("acquire must return a Token")
        if token.expired(time.time(), leeway=0.0):
            raise LoginError("the login returned a token that has already expired")
        try:
            return self._cached_of(token).token
        except ConfigurationError as error:  # of a class of the user's that is made of Token
            problem = f"returned what cannot be sent: {error.problem}"
            raise ConfigurationError(problem, setting="acquire") from None

    def _end_login(self, token: Token | None, failure: GatewayError | None) -> None:
        is_unanswered = isinstance(failure, LoginTimeoutError)
        self._unanswered = self._unanswered + 1 if is_unanswered else 0
        hold = min(2 ** max(0, self._unanswered - 1) * self._hold, max(self._hold, _LONGEST_HOLD))
        if self._unanswered >= _MOST_UNANSWERED:
            hold, failure = math.inf, LoginTimeoutError(_NOBODY_THERE)
        self._obtained, self._failure = token, failure
        self._counts_until = time.monotonic() + hold

    async def _found_by_others(self, held: ExitStack) -> Token | None:
        """Wait while others that share a token file log in; return their token, if any."""
        if not isinstance(self._store, PrivateFileStore):
            return None
        # A lock of this login alone: another event loop, or a fork, has this source too.
        lock = LockFile(self._store.path.with_suffix(".lock"))
        held.callback(lock.release)
        # Where there is no such lock, each process logs in: a second window is better than none.
        with suppress(OSError, TokenStoreError):  # TimeoutError is an OSError
            async with asyncio.timeout(DEFAULT_LOGIN_TIMEOUT):
                await prepare_folder_of(self._store.path)
                # Not in a thread, where a cancelled task would leave the lock behind.
                while not (lock.acquire() or await self._find()):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_POLL)
        return await self._find()  # another process may have logged in before the lock was free

    async def _find(self) -> Token | None:
        with suppress(GatewayError):  # the login's token replaces what cannot be read
            if self._is_fresh(found := await self._load()):
                return found.token
        return None

    async def _load(self) -> CachedToken | None:
        """Read the store; TokenStoreError whatever it raises, or if it hangs."""
        told = "the access token cannot be read: "
        loaded = await _result_of("store.load", self._store.load, _TIMEOUT, TokenStoreError, told)
        if not isinstance(loaded, Token | None):
            raise TokenStoreError(f"{told}its store returned no Token")
        return None if loaded is None else self._cached_of(loaded)

    async def _save(self) -> None:
        """Save what logins have returned, and give their locks back."""
        while (unsaved := self._unsaved) is not None:
            self._unsaved = None
            with unsaved[1]:
                try:
                    await self._try_to_save(unsaved[0], _TIMEOUT)
                except asyncio.CancelledError:  # often at a program's end: it has its token
                    last, self._unsaved = self._unsaved or unsaved, None
                    with last[1]:
                        await self._try_to_save(last[0], _LAST_SAVE)
                    raise

    async def _try_to_save(self, token: Token, seconds: float) -> None:
        save = partial(self._store.save, token)
        try:
            await _result_of("store.save", save, seconds, TokenStoreError)
        except GatewayError as error:  # the token can be used
            _logger.warning("the access token is not saved for other processes: %s", str(error))

    def _cached_of(self, token: Token) -> CachedToken:
        cached, can_log_in = self._cached, self._acquire is not None
        if cached is not None and cached.token == token and (cached.lasts() or can_log_in):
            return cached  # its clock has run since the token was received
        # Without a login it is looked at anew: the clock was ahead, and may be right now.
        return CachedToken(token, self._leeway)

    def _works(self, cached: CachedToken | None) -> TypeGuard[CachedToken]:
        return cached is not None and cached.lasts() and not self._is_refused(cached.token)

    def _is_fresh(self, cached: CachedToken | None) -> TypeGuard[CachedToken]:
        return cached is not None and cached.is_fresh() and not self._is_refused(cached.token)

    @safe_repr
    def __repr__(self) -> str:
        return f"<SharedTokenSource in {self._store!r}>"


async def _result_of(
    name: str,
    work: Callable[[], Awaitable[Any]],
    seconds: float | None,
    kind: type[GatewayError],
    told: str = "",
) -> Any:
    """Await the caller's code; of its errors only the type is told, their texts may be secret."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await promised(name, work)
    except GatewayError:
        raise
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - callers raise both
        raise_if_cancelled(error)
        if limit.expired() and kind is LoginError:
            raise LoginTimeoutError(f"{told}it has not ended within {seconds:g} s") from None
        raise kind(f"{told}{type(error).__name__}") from None
