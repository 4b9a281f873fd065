"""Reading request bodies: never more in memory than a sandbox should hold."""

import hashlib
import json
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from gateway_sdk.sandbox.shapes import Record, ShapeError, check

MAX_HELD_BYTES = 1024 * 1024


class Content(NamedTuple):
    """What is kept of an uploaded document: never the bytes themselves."""

    size: int
    sha256: str
    content_type: str | None


async def read_json(request: Request, shape: Record) -> Any:
    """Read a JSON body of this shape.

    Raises:
        HTTPException: 415 for another media type, 413 above MAX_HELD_BYTES, 400 for what is not
            JSON or not of this shape.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    return parse_json(await read_text(request), shape)


async def read_text(request: Request, limit: int = MAX_HELD_BYTES) -> str:
    """Read a body of UTF-8 text, without the white space around it; the empty one is "".

    Raises:
        HTTPException: 413 above *limit* bytes, 400 for what is not UTF-8.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(413, f"the body is longer than {limit} bytes")
    try:
        return body.decode().strip()
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8") from None


def parse_json(text: str, shape: Record) -> Any:
    """Parse JSON text of this shape.

    Raises:
        HTTPException: 400 for what is not JSON, or not of this shape.
    """
    try:
        value = json.loads(text)
        # Python's parser lets through what JSON cannot say again: NaN, 1e999 and lone surrogates.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        check(value, shape)
    except ShapeError as error:
        raise HTTPException(400, str(error)) from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    return value


async def read_content(request: Request) -> Content:
    """Read a body of any size and kind, keeping its size and digest only.

    Raises:
        HTTPException: 400 if it is empty.
    """
    size, digest = 0, hashlib.sha256()
    async for chunk in request.stream():
        size += len(chunk)
        digest.update(chunk)
    if not size:
        raise HTTPException(400, "the body is empty")
    return Content(size, digest.hexdigest(), request.headers.get("content-type"))


async def drain(request: Request) -> None:
    """Read a body to its end, if there is one, and keep nothing of it."""
    async for _ in request.stream():
        pass
