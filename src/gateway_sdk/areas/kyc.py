"""The KYC area: its webhook."""

from typing import TYPE_CHECKING, Unpack

from gateway_sdk import operations
from gateway_sdk._call.options import PerCall
from gateway_sdk.areas import Area

if TYPE_CHECKING:
    from gateway_sdk._http.body import BodyContent


class KycArea(Area):
    """Calls the webhook."""

    async def send_webhook(
        self,
        content: "BodyContent | None" = None,
        content_type: str | None = None,
        **call: Unpack[PerCall],
    ) -> None:
        """Call the webhook and return when the gateway has acknowledged it.

        Args:
            content: The event; the interface does not describe events. None sends no body.
            content_type: The media type, in place of the one that follows from the content.
            call: `headers`, more headers for this call, and `deadline`, seconds for it in place
                of the session's.

        Raises:
            InvalidArgumentError: the content is of no such type or cannot be read.
            UploadFailedError: the content could not be read to its end, or changed meanwhile.
            ConfigurationError: `verify` or `cert` cannot be read, at the first call.
            SessionStateError: the session is closed, or belongs to another event loop or process.
            AuthError: there is no usable access token, or a renewed one was refused too.
            ConnectionFailedError: the last attempt was not sent.
            ReplyLostError: it was sent, and no complete reply came.
            DeadlineExceededError: the whole call took longer than its deadline.
            UnexpectedReplyError: a web page came, from a proxy or a portal.
            StatusError: any other error status: `InvalidRequestError` (400, 422),
                `UnauthorizedError`, `ForbiddenError`, `NotFoundError`, `ConflictError`,
                `RateLimitedError`, `ServerError`, `RedirectError`.
            GatewayError: its `outcome` says whether the gateway may have received it.
        """
        # Interface: Endpoints 11; Events
        await self._caller.value(
            operations.SEND_WEBHOOK, body=content, content_type=content_type, **call
        )
