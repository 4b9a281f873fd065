"""The asyncio client SDK for the Gateway Service.

from gateway_sdk import GatewaySession

async with GatewaySession("https://gateway.example.com", access_token="...") as gateway:
    countries = await gateway.country_data.list_countries()

PYTEST_DONT_REWRITE: else pytest warns if the package was imported before its plugin.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk import auth as auth, bulk as bulk, models as models, operations as operations
    from gateway_sdk._content.files import Multipart as Multipart
    from gateway_sdk._transport.gateway_transport import GatewayTransport as GatewayTransport
    from gateway_sdk._version import __version__ as __version__
    from gateway_sdk.auth import Token as Token, TokenSource as TokenSource
    from gateway_sdk.errors import *
    from gateway_sdk.observer import CallInfo as CallInfo, Observer as Observer, RunInfo as RunInfo
    from gateway_sdk.outcome import (
        Advice as Advice,
        Attempt as Attempt,
        Outcome as Outcome,
        Repeatability as Repeatability,
        Reply as Reply,
    )
    from gateway_sdk.rate_limit import RateLimit as RateLimit
    from gateway_sdk.retry_policy import RetryBudget as RetryBudget, RetryPolicy as RetryPolicy
    from gateway_sdk.session import GatewaySession as GatewaySession
else:
    from gateway_sdk._python import lazy

    # The command line answers --version and --help without the SDK.
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "gateway_sdk.retry_policy": "RetryBudget RetryPolicy",
            "gateway_sdk._content.files": "Multipart",
            "gateway_sdk._transport.gateway_transport": "GatewayTransport",
            "gateway_sdk.rate_limit": "RateLimit",
            "gateway_sdk._version": "__version__",
            "gateway_sdk.auth": "",
            "gateway_sdk.auth.source": "TokenSource",
            "gateway_sdk.auth.token": "Token",
            "gateway_sdk.bulk": "",
            "gateway_sdk.errors": """
                AuthError AuthorizationDeniedError ConfigurationError ConflictError
                ConnectionFailedError DeadlineExceededError ForbiddenError GatewayError
                InvalidArgumentError InvalidRequestError JournalError LoginError
                LoginRequiredError LoginTimeoutError MalformedResponseError MissingExtraError
                NotFoundError OutageError RateLimitedError
                ReceiverUnavailableError RedirectError ReplyLostError ReplyTimeoutError
                ServerError SessionStateError StateMismatchError StatusError
                TokenRecordError TokenRejectedError TokenStoreError UnauthorizedError
                UnexpectedReplyError UploadFailedError""",
            "gateway_sdk.models": "",
            "gateway_sdk.observer": "CallInfo Observer RunInfo",
            "gateway_sdk.operations": "",
            "gateway_sdk.outcome": "Advice Attempt Outcome Repeatability Reply",
            "gateway_sdk.session": "GatewaySession",
        },
    )
    del TYPE_CHECKING, lazy  # every other name is public
