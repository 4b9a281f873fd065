"""The KYC area: its webhook."""

from typing import TYPE_CHECKING, Unpack

from gateway_sdk import operations
from gateway_sdk._call.options import PerCall
from gateway_sdk.areas import Area

if TYPE_CHECKING:
    from gateway_sdk._content.body import BodyContent


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

        Raises:
            InvalidArgumentError: the content is of no such type or cannot be read.
            UploadFailedError: the content could not be read to its end, or changed meanwhile.
            GatewayError: its `outcome` says whether the gateway may have received it.
        """
        # Interface: Endpoints 11; Events
        await self._caller.call(
            operations.SEND_WEBHOOK, call, body=content, content_type=content_type
        )
