"""The asyncio client SDK for the Gateway Service.

from gateway_sdk import GatewaySession

async with GatewaySession("https://gateway.example.com", access_token="...") as gateway:
    countries = await gateway.country_data.list_countries()

PYTEST_DONT_REWRITE: else pytest warns if the package was imported before its plugin.
"""

from typing import TYPE_CHECKING

from gateway_sdk._python import lazy
from gateway_sdk._version import __version__

if TYPE_CHECKING:
    from gateway_sdk import auth, bulk, fleet, models, operations
    from gateway_sdk._call.retry import RetryBudget, RetryPolicy
    from gateway_sdk._http.multipart import Multipart
    from gateway_sdk._transport.public import GatewayTransport
    from gateway_sdk._transport.rate_limit import RateLimit
    from gateway_sdk.auth import Token, TokenSource
    from gateway_sdk.errors import (
        AuthError,
        AuthorizationDeniedError,
        ConfigurationError,
        ConflictError,
        ConnectionFailedError,
        DeadlineExceededError,
        ForbiddenError,
        GatewayError,
        InvalidArgumentError,
        InvalidRequestError,
        JournalError,
        LoginError,
        LoginRequiredError,
        LoginTimeoutError,
        MalformedResponseError,
        MissingExtraError,
        NotFoundError,
        PlanStoreError,
        PoisonChunkError,
        RateLimitedError,
        ReceiverUnavailableError,
        RedirectError,
        ReplyLostError,
        ReplyTimeoutError,
        ServerError,
        SessionStateError,
        StateMismatchError,
        StatusError,
        TokenRejectedError,
        TokenStoreError,
        UnauthorizedError,
        UnexpectedReplyError,
        UploadFailedError,
    )
    from gateway_sdk.observer import CallInfo, Observer, RunInfo
    from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability, Reply
    from gateway_sdk.session import GatewaySession
else:
    # The command line answers --version and --help without the SDK.
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "gateway_sdk._call.retry": ("RetryBudget", "RetryPolicy"),
            "gateway_sdk._http.multipart": ("Multipart",),
            "gateway_sdk._transport.public": ("GatewayTransport",),
            "gateway_sdk._transport.rate_limit": ("RateLimit",),
            "gateway_sdk.auth": (),
            "gateway_sdk.auth.source": ("TokenSource",),
            "gateway_sdk.auth.token": ("Token",),
            "gateway_sdk.bulk": (),
            "gateway_sdk.errors": (
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
                "MissingExtraError",
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
            ),
            "gateway_sdk.fleet": (),
            "gateway_sdk.models": (),
            "gateway_sdk.observer": ("CallInfo", "Observer", "RunInfo"),
            "gateway_sdk.operations": (),
            "gateway_sdk.outcome": ("Advice", "Attempt", "Outcome", "Repeatability", "Reply"),
            "gateway_sdk.session": ("GatewaySession",),
        },
    )

__all__ = [
    "Advice",
    "Attempt",
    "AuthError",
    "AuthorizationDeniedError",
    "CallInfo",
    "ConfigurationError",
    "ConflictError",
    "ConnectionFailedError",
    "DeadlineExceededError",
    "ForbiddenError",
    "GatewayError",
    "GatewaySession",
    "GatewayTransport",
    "InvalidArgumentError",
    "InvalidRequestError",
    "JournalError",
    "LoginError",
    "LoginRequiredError",
    "LoginTimeoutError",
    "MalformedResponseError",
    "MissingExtraError",
    "Multipart",
    "NotFoundError",
    "Observer",
    "Outcome",
    "PlanStoreError",
    "PoisonChunkError",
    "RateLimit",
    "RateLimitedError",
    "ReceiverUnavailableError",
    "RedirectError",
    "Repeatability",
    "Reply",
    "ReplyLostError",
    "ReplyTimeoutError",
    "RetryBudget",
    "RetryPolicy",
    "RunInfo",
    "ServerError",
    "SessionStateError",
    "StateMismatchError",
    "StatusError",
    "Token",
    "TokenRejectedError",
    "TokenSource",
    "TokenStoreError",
    "UnauthorizedError",
    "UnexpectedReplyError",
    "UploadFailedError",
    "__version__",
    "auth",
    "bulk",
    "fleet",
    "models",
    "operations",
]
