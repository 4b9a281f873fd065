"""What every error has: what it knows of its call, its text, what helps, and how it is pickled."""

from collections.abc import Mapping
from typing import Any, Final, Self, TypeAlias

from gateway_sdk.outcome import OUTCOME_TEXT, Advice, Attempt, Outcome, Repeatability, outcome_of

# Names, statuses, times and words of ours: nothing that the gateway wrote, no path and no secret.
_PICKLED: Final = frozenset((
    "operation", "outcome", "attempts", "repeatability", "no_retry", "token_is_static", "_advice",
    "_hints", "writes", "status", "retry_after", "reason", "phase", "refused", "extra", "setting",
    "field", "problem",
))  # fmt: skip

Hints: TypeAlias = tuple[str, str]
"""What helps after an error, in Python and at the command line: each has its own names only. That
for Python follows the message, and is empty where the message says it."""

# By the reason of a failed connection.
AUTHORITY: Final = (
    "verify= or SSL_CERT_FILE names an authority to trust",
    "Set SSL_CERT_FILE to a file with the authority that signed it, or SSL_CERT_DIR to a folder.",
)
CLIENT: Final = "cert= gives one", "The command line has none: a program can show one."
HOST: Final = "is base_url right?", "Is the host of GATEWAY_BASE_URL right?"
PATH: Final = (
    "is base_url right?",
    "Check the spelling, GATEWAY_BASE_URL and GATEWAY_TENANT_ID.",
)
SCHEME: Final = "is https right?", "Is https:// of GATEWAY_BASE_URL right?"
SLOTS: Final = "max_connections= is their number", "Make fewer calls at a time."
PROXY: Final = (
    "proxy= or HTTPS_PROXY, HTTP_PROXY, ALL_PROXY names it, and NO_PROXY what goes past it",
    "Is HTTPS_PROXY, HTTP_PROXY or ALL_PROXY right? NO_PROXY names hosts that need no proxy.",
)


def _at_the_command_line(texts: Mapping[str, str]) -> Mapping[str, Hints]:
    return {name: ("", text) for name, text in texts.items()}


OF_SETTING: Final = _at_the_command_line({
    "GATEWAY_BASE_URL": "Set it to the gateway's address, or give --base-url. With --sandbox most"
    " commands need none.",
    "GATEWAY_ACCESS_TOKEN": "Set it, or run `gateway login`.",
    "GATEWAY_TENANT_ID": "Set it to the tenant of the customer, or give --tenant.",
    "GATEWAY_AUTH_URL": "Set it to the address of the login page, or give --auth-url.",
    "GATEWAY_TOKEN_STORE": "",  # the message says all
    "GATEWAY_CLIENT_ID": "Set it to the client id of the login, or give --client-id.",
    "SSL_CERT_FILE": "It names a file of CA certificates in PEM.",
    "SSL_CERT_DIR": "It names folders of CA certificates in PEM, as `openssl rehash` makes them.",
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "It is written http://user:password@host:port."
    ),
    **dict.fromkeys(("redirect_uri", "scope", "timeout"), "--help shows what the command takes."),
})  # fmt: skip

OF_KIND: Final = _at_the_command_line({
    "GatewayError": "Running it again does no harm; --debug shows where it happened.",
    "MissingExtraError": "",
    "JournalError": "",
    "OutageError": "The same command continues.",
    "ConfigurationError": "`gateway status` shows the settings in force, with their sources.",
    "InvalidArgumentError": "--help shows what the command takes.",
    "ConnectionFailedError": "Is it running, and is GATEWAY_BASE_URL right? `gateway sandbox`"
    " starts one here.",
    "TokenRejectedError": "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
    "UnauthorizedError": "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
    "ForbiddenError": "The access token does not allow this: use another one.",
    "NotFoundError": PATH[1],
    "ConflictError": "What is there already does not allow this: look at it first.",
    "InvalidRequestError": "The gateway did not understand it: change what you give.",
    "RateLimitedError": "Wait, or ask for less at once.",
    "RedirectError": "Is GATEWAY_BASE_URL right? Redirects are not followed.",
    "UnexpectedReplyError": "Is GATEWAY_BASE_URL the address of a gateway?",
    "AuthError": "Is GATEWAY_ACCESS_TOKEN set?",
    "LoginRequiredError": "Get a token with `gateway login`.",
    "LoginError": "Log in again.",
    "AuthorizationDeniedError": "Log in again, or ask who runs the authorization server.",
    "LoginTimeoutError": "Log in again, with a longer --timeout if you need one, or with --paste if"
    " your browser is on another machine.",
    "ReceiverUnavailableError": "Port 0 in --redirect-uri takes a free port.",
    "TokenStoreError": "Is GATEWAY_TOKEN_STORE right, and can it be used from here?",
})  # fmt: skip
"""By the class of an error, for it and for those below it."""

OF_CHECK: Final = "", "Look at the gateway before you repeat it: it may have been done."


class GatewayError(Exception):
    """The root of every error of this package.

    Any call may raise ConfigurationError, InvalidArgumentError, SessionStateError, AuthError,
    ConnectionFailedError, ReplyLostError, DeadlineExceededError and UnexpectedReplyError; by
    status also InvalidRequestError, UnauthorizedError, ForbiddenError, NotFoundError,
    ConflictError, RateLimitedError, ServerError, RedirectError or another StatusError.

    Attributes:
        operation: The operation's name, such as "cancel_order"; None outside of a call.
        outcome: What the gateway did, over all attempts of the call. An error that was made again
            from its class and text, as by a queue with JSON, says UNKNOWN if its class may end a
            call whose write was sent and must not be sent twice.
        attempts: Every attempt, oldest first; empty if none was made.
        repeatability: What sending the operation twice would do; None outside of a call. ONCE for
            an idempotent operation under `RetryPolicy(repeat_idempotent=False)`.
        no_retry: What ended the retries before `RetryPolicy.attempts` did: the deadline, the
            budget, or a long Retry-After; else "".
        token_is_static: Whether the session lacks a usable access token, and can have no other:
            it was given as a text or a `Token`.
        writes: What each write of a bulk item did, in words, if another call than the one that
            failed may have done something; else "". `outcome` is then that of the item.
    """

    operation: str | None = None
    outcome: Outcome = Outcome.NOT_SENT
    attempts: tuple[Attempt, ...] = ()
    repeatability: Repeatability | None = None
    no_retry: str = ""
    token_is_static: bool = False
    writes: str = ""
    _advice: Advice = Advice.FIX
    _hints: Hints | None = None  # None for those of the class
    __module__ = "gateway_sdk.errors"  # where it is public

    def of_call(
        self, operation: str, repeatability: Repeatability, attempts: tuple[Attempt, ...]
    ) -> Self:
        """Set the attributes that describe the call, and return the error."""
        self.operation = operation
        self.repeatability = repeatability
        self.attempts = attempts
        self.outcome = outcome_of(attempts, repeatability)
        return self

    @property
    def advice(self) -> Advice:
        """What to do next.

        CHECK if a write was done, or may have been done and must not be done twice; else what
        the cause of the error asks for. An error that your own code raises in a call (a token
        source, a document) can set it; CHECK still goes before.
        """
        is_set = self.repeatability is None and "_advice" in vars(self)  # and there is no call
        if is_set or self.writes:  # the run has decided, for the item
            return self._advice
        if self.repeatability is Repeatability.READ or self.outcome < Outcome.UNKNOWN:
            return self._advice
        if self.outcome is Outcome.UNKNOWN and self.repeatability is Repeatability.IDEMPOTENT:
            return self._advice
        return Advice.CHECK

    @advice.setter
    def advice(self, advice: Advice) -> None:
        self._advice = advice

    @property
    def hints(self) -> Hints:
        """What helps, in Python and at the command line; "" where the message says all."""
        kinds = (kind.__name__ for kind in type(self).__mro__)
        of_kind = next(OF_KIND[kind] for kind in kinds if kind in OF_KIND)
        return self._hints or (OF_CHECK if self.advice is Advice.CHECK else of_kind)

    @hints.setter
    def hints(self, hints: Hints) -> None:
        self._hints = hints

    @property
    def summary(self) -> str:
        """The text without hints that help in Python only, as for where the gateway's reason is."""
        return self._text()

    def __str__(self) -> str:
        return self._text(f"; {self.hints[0]}" if self.hints[0] else "")

    def _text(self, hint: str = "") -> str:
        message = super().__str__() + hint
        notes = [self.writes] if self.writes else []
        if self.operation is not None:
            message = f"{self.operation}: {message}"
            # An operation that only reads changes nothing, so its outcome is not shown.
            if not notes and self.repeatability is not Repeatability.READ:
                notes.append(OUTCOME_TEXT[self.outcome])
            if len(self.attempts) > 1:
                notes.append(f"{len(self.attempts)} attempts")
            if self.no_retry:
                notes.append(self.no_retry)
        return message + (f" ({'; '.join(notes)})" if notes else "")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __copy__(self) -> Self:
        """Return a copy for another caller, with all attributes (a pickle holds only some)."""
        kept = {"args": self.args, **vars(self)}
        if "__notes__" in kept:  # a list, to which add_note appends
            kept["__notes__"] = [*kept["__notes__"]]
        twin = type(self).__new__(type(self), *self.args)
        twin.__setstate__(kept)
        return twin

    def __deepcopy__(self, _: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in vars(self).items() if name in _PICKLED}
        if self.__suppress_context__:  # it may hold values, and tblib, of Dask, takes it after this
            self.__context__ = None
        # An OSError sets `args` in __init__ only, which a subclass may replace.
        kept["args"] = self.args
        return type(self).__new__, (type(self), *self.args), kept
