"""The AML area with its documents, and the KYC area with its webhook."""

from typing import Any, TypeAlias, Unpack, overload

from gateway_sdk import _content, operations
from gateway_sdk._call.options import PerCall, Unchecked
from gateway_sdk._http.request import OnProgress
from gateway_sdk.areas import Area, IntoAny, IntoType, T
from gateway_sdk.errors import InvalidArgumentError

BodyContent: TypeAlias = "_content.body.BodyContent"  # which is loaded late


class AmlArea(Area):
    """Uploads documents, updates them and changes their status.

    The type of the content decides what is sent: bytes as they are, a `str` as text (as a document
    only with a `content_type`), a `pathlib.Path`, an open binary file or a web framework's
    `UploadFile` as that file, a `Multipart` as a form, a dictionary or list as JSON, an async
    iterable of bytes as a stream, which is never sent a second time.
    `content_type` replaces the media type that follows from the content. `on_progress` is called
    in the event loop with the bytes sent so far and the total (None if unknown); its first
    error is logged.

    Raises:
        InvalidArgumentError: the content is missing, of no such type or cannot be read.
        UploadFailedError: the content could not be read to its end, or changed meanwhile.
    """

    @overload
    async def change_document_status(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        **call: Unpack[IntoType[T]],
    ) -> T: ...

    @overload
    async def change_document_status(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        **call: Unpack[IntoAny],
    ) -> Any: ...

    async def change_document_status(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        **call: Unpack[IntoAny],
    ) -> Any:
        """Change the status of a document.

        The interface leaves the reply open (see `Area`); that of the sandbox is the document, as
        `upload_document` has it.

        Args:
            document_id: The gateway's id of the document.
            content: The new status, in whatever shape your gateway takes it; see `AmlArea`.

        Raises:
            NotFoundError: there is no such document.
            GatewayError: its `outcome` says whether the status may have changed.
        """
        # Interface: Endpoints 8
        return await self._caller.call(
            operations.CHANGE_DOCUMENT_STATUS,
            call,
            path={"documentId": document_id},
            body=Unchecked(_present, content),
            content_type=content_type,
        )

    @overload
    async def update_document(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoType[T]],
    ) -> T: ...

    @overload
    async def update_document(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoAny],
    ) -> Any: ...

    async def update_document(
        self,
        document_id: str,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoAny],
    ) -> Any:
        """Replace the content of a document.

        The interface leaves the reply open (see `Area`); that of the sandbox is the document, as
        `upload_document` has it.

        Args:
            document_id: The gateway's id of the document.
            content: The document; `AmlArea` describes this and the other arguments.

        Raises:
            NotFoundError: there is no such document.
            GatewayError: its `outcome` says whether the document may have been replaced.
        """
        # Interface: Endpoints 9, whose placeholder is named docid
        return await self._caller.call(
            operations.UPDATE_DOCUMENT,
            call,
            path={"docid": document_id},
            body=Unchecked(_present, content),
            content_type=content_type,
            on_progress=on_progress,
        )

    @overload
    async def upload_document(
        self,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoType[T]],
    ) -> T: ...

    @overload
    async def upload_document(
        self,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoAny],
    ) -> Any: ...

    async def upload_document(
        self,
        content: "BodyContent",
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        **call: Unpack[IntoAny],
    ) -> Any:
        """Upload a document; a second call uploads a second one, so it is never repeated for you.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"documentId": "document-0001", "size": 4, "sha256": "59ad1b2fc742...",
         "contentType": "image/png", "status": "uploaded"}
        ```

        Args:
            content: The document; `AmlArea` describes this and the other arguments.

        Raises:
            GatewayError: its `outcome` says whether the document may have been taken in.
        """
        # Interface: Endpoints 10
        return await self._caller.call(
            operations.UPLOAD_DOCUMENT,
            call,
            body=Unchecked(_present, content),
            content_type=content_type,
            on_progress=on_progress,
        )


class KycArea(Area):
    """Calls the webhook."""

    async def send_webhook(
        self,
        content: "_content.body.BodyContent | None" = None,
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


def _present(content: object) -> object:
    """Refuse None, which would send no body at all."""
    if content is None:
        raise InvalidArgumentError("is missing; an empty document is b''", field="content")
    return content
