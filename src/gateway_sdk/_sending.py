"""The one way down: every coroutine method of every area is a line on top of `send`."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeVar, overload

from gateway_sdk._call.call import Call
from gateway_sdk._call.client import Core
from gateway_sdk._call.options import Options
from gateway_sdk._config import origin_of
from gateway_sdk._http.body import OnProgress
from gateway_sdk.areas import Areas, Send
from gateway_sdk.errors import InvalidArgumentError
from gateway_sdk.operations import Operation
from gateway_sdk.reply import Reply

T = TypeVar("T")


class Sending(Areas):
    """What can make calls: through the areas, or directly."""

    _core: Core
    _options: Options

    @overload
    async def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: None = ...,
    ) -> Reply[T]: ...

    @overload
    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: type[T],
    ) -> Reply[T]: ...

    @overload
    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] = ...,
        body: object = ...,
        content_type: str | None = ...,
        on_progress: OnProgress | None = ...,
        into: Any,
    ) -> Reply[Any]: ...

    async def send(
        self,
        operation: Operation[Any],
        *,
        path: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        into: Any = None,
    ) -> Reply[Any]:
        """Make one call and return its reply; every coroutine method is a line on top of this.

        Args:
            operation: One of `gateway_sdk.operations`.
            path: Values for the placeholders of its path, under their names there.
            body: A model or JSON value, or for the operations that take any type of entity body
                what `BodyContent` lists. None sends no body.
            content_type: The media type of such a body, in place of the one that follows from it.
            on_progress: Called with the bytes sent so far and the total; what it raises is logged.
            into: A type that pydantic knows, to validate the reply's JSON into, for those who
                know their gateway's shapes.

        Raises:
            InvalidArgumentError: an argument is wrong; nothing was sent.
            SessionStateError: the session is closed, or belongs elsewhere.
            GatewayError: its `outcome` says what became of the call.
        """
        if not isinstance(operation, Operation):
            raise InvalidArgumentError("operation must be one of gateway_sdk.operations")
        call = Call(self._core, self._options, operation, into)
        return await call.run(path or {}, body, content_type, on_progress)

    def _gateway_name(self) -> str:
        base_url = self._core.base_url
        address = origin_of(base_url) + base_url.raw_path.decode("ascii").rstrip("/")
        tenant_id = self._options.tenant_id
        if tenant_id is None:
            return address
        # A tenant may be a person, so the name of a file's job shows a digest of it.
        digest = blake2b(tenant_id.encode(), digest_size=8).hexdigest()
        return f"{address} for the tenant {digest}"

    @property
    def _sender(self) -> Send:
        return self.send
