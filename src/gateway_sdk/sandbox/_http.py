"""HTTP as the handlers need it: request bodies, error replies, closed connections."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import httpx
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope

from gateway_sdk.sandbox._interface import ShapeError, check

MAX_BODY_BYTES = 1024 * 1024


class StoredContent(NamedTuple):
    """What is stored of an uploaded document; its bytes are not."""

    size: int
    sha256: str
    content_type: str | None


async def read_json(request: Request, kind: str) -> Any:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    return parse_json(await read_text(request), kind)


async def read_text(request: Request, limit: int = MAX_BODY_BYTES) -> str:
    """Read a body of UTF-8 text, stripped of the white space of JSON."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"the body is longer than {limit} bytes")
    try:
        return body.decode().strip(" \t\r\n")
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8") from None


def parse_json(text: str, kind: str) -> Any:
    try:
        value = json.loads(text)
        # Python's parser accepts what is not JSON: NaN, 1e999 (infinity) and lone surrogates.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        check(value, kind)
    except ShapeError as error:
        raise HTTPException(400, str(error)) from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    return value


async def read_content(request: Request) -> StoredContent:
    """Read a body of any size, and keep only its size and digest."""
    size, digest = 0, hashlib.sha256()
    async for chunk in request.stream():
        size += len(chunk)
        digest.update(chunk)
    return StoredContent(size, digest.hexdigest(), request.headers.get("content-type"))


async def drain(request: Request) -> None:
    async for _ in request.stream():
        pass


def error_reply(
    scope: Scope, status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    # Interface: Resources, Error payload; Errors 1 and 3
    payload = {
        "reason": _reason(status),
        "path": scope["path"],
        "method": scope["method"],
        "message": message,
        "timestamp": timestamp(datetime.now(UTC)),
        "status": status,
    }
    return JSONResponse(payload, status, headers)


async def http_exception_reply(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    return error_reply(request.scope, error.status_code, error.detail, error.headers)


def timestamp(moment: datetime) -> str:
    """Format a time in UTC as ISO 8601 with milliseconds and a Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown Status"


# The key of the scope's extensions under which the server passes its function that closes the
# connection; in process it is missing.
CLOSE_CONNECTION = "gateway_sdk.sandbox.close_connection"


async def close_connection(
    scope: Scope, receive: Receive, in_process: httpx.TransportError
) -> None:
    """Close the connection and return when it is closed; without one, raise *in_process*."""
    close = cast("Callable[[], None] | None", scope.get("extensions", {}).get(CLOSE_CONNECTION))
    if close is None:
        raise in_process
    close()
    # If the app returned before the server noticed, the server would send its own reply.
    while (await receive())["type"] != "http.disconnect":
        pass


class BodyCutError(httpx.RemoteProtocolError):
    """The connection was closed within the body; *body* is the part that was sent."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        super().__init__("peer closed connection without sending complete message body")
        self.status = status
        self.headers = headers
        self.body = body


class InProcessTransport(httpx.ASGITransport):
    """An ASGITransport that cuts a body as a socket does: status and headers, then the error."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except BodyCutError as cut:
            # httpx returns a response only when the app has ended, so the status would be lost.
            return httpx.Response(cut.status, headers=cut.headers, stream=_CutStream(cut))


class _CutStream(httpx.AsyncByteStream):
    def __init__(self, cut: BodyCutError) -> None:
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._cut.body
        raise self._cut
