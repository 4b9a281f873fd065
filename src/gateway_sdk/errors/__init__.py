"""Every error of this package.

    GatewayError
    ├── ConfigurationError            also ValueError: a wrong or missing setting
    ├── InvalidArgumentError          also ValueError: a wrong argument, before anything is sent
    ├── SessionStateError             also RuntimeError: closed, another event loop, after a fork
    ├── JournalError                  the journal of a bulk run cannot be used
    │   └── PlanStoreError            the store of a fleet's plan cannot be used
    ├── PoisonChunkError              a chunk of a fleet's plan was started too often
    ├── ConnectionFailedError         the last attempt was not sent
    ├── UploadFailedError             the content raised an error or changed while it was sent
    ├── ReplyLostError                sent, but no complete reply came
    │   └── ReplyTimeoutError         no reply within the time-out
    ├── DeadlineExceededError         also TimeoutError: the whole call took too long
    ├── StatusError                   the gateway answered with an error status
    │   ├── InvalidRequestError       400, 422
    │   ├── UnauthorizedError         401
    │   ├── ForbiddenError            403
    │   ├── NotFoundError             404
    │   ├── ConflictError             409
    │   ├── RateLimitedError          429
    │   ├── ServerError               5xx
    │   └── RedirectError             3xx
    ├── UnexpectedReplyError          the reply is not what the interface promises
    └── AuthError                     no usable access token
        ├── LoginRequiredError        this process cannot ask a user to log in
        ├── LoginError                a login failed
        │   ├── AuthorizationDeniedError   the user or the server refused
        │   ├── StateMismatchError         a response of another login
        │   ├── MalformedResponseError     a response that violates RFC 6749
        │   ├── LoginTimeoutError          also TimeoutError: not finished in time
        │   └── ReceiverUnavailableError   the redirect URI's port is in use
        ├── TokenStoreError           the store cannot be read or written
        └── TokenRejectedError        also UnauthorizedError: a renewed token was refused too

Messages and pickles hold no body, no text of the gateway, no path with values and no secret. The
reply of the gateway is in the attributes of the error, in its own process only.
"""

from gateway_sdk.errors.reply import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    RedirectError,
    ServerError,
    StatusError,
    TokenRejectedError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.errors.root import (
    AuthError,
    AuthorizationDeniedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    InvalidArgumentError,
    JournalError,
    LoginError,
    LoginRequiredError,
    LoginTimeoutError,
    MalformedResponseError,
    PlanStoreError,
    PoisonChunkError,
    ReceiverUnavailableError,
    ReplyLostError,
    ReplyTimeoutError,
    SessionStateError,
    StateMismatchError,
    TokenStoreError,
    UploadFailedError,
)

__all__ = [
    "AuthError",
    "AuthorizationDeniedError",
    "ConfigurationError",
    "ConflictError",
    "ConnectionFailedError",
    "DeadlineExceededError",
    "ForbiddenError",
    "GatewayError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "JournalError",
    "LoginError",
    "LoginRequiredError",
    "LoginTimeoutError",
    "MalformedResponseError",
    "NotFoundError",
    "PlanStoreError",
    "PoisonChunkError",
    "RateLimitedError",
    "ReceiverUnavailableError",
    "RedirectError",
    "ReplyLostError",
    "ReplyTimeoutError",
    "ServerError",
    "SessionStateError",
    "StateMismatchError",
    "StatusError",
    "TokenRejectedError",
    "TokenStoreError",
    "UnauthorizedError",
    "UnexpectedReplyError",
    "UploadFailedError",
]

for _name in __all__:
    # Tracebacks and pickles show the module that users import the error from.
    globals()[_name].__module__ = __name__
