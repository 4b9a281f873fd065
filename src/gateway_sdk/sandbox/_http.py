"""HTTP as the operations need it: bodies of requests, error replies."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import responses
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope

from gateway_sdk.sandbox._interface import ShapeError, check

MAX_BODY_BYTES = 1024 * 1024


async def read_json(request: Request, kind: str) -> Any:
    if media_type(request) != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    return parse_json(await read_text(request), kind)


def media_type(request: Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


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


async def read_content(request: Request) -> dict[str, int | str | None]:
    """Read a body of any size, and return what is stored of it: its bytes are not."""
    size, digest = 0, hashlib.sha256()
    async for chunk in request.stream():
        size += len(chunk)
        digest.update(chunk)
    content_type = request.headers.get("Content-Type")
    return {"size": size, "sha256": digest.hexdigest(), "contentType": content_type}


def error_reply(
    scope: Scope, status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    # Interface: Resources, Error payload; Errors 1 and 3
    payload = {
        "reason": responses.get(status, "Unknown Status"),
        "path": scope["path"],
        "method": scope["method"],
        "message": message,
        "timestamp": timestamp(datetime.now(UTC)),
        "status": status,
    }
    return JSONResponse(payload, status, headers)


def timestamp(moment: datetime) -> str:
    """Format a time in UTC as ISO 8601 with milliseconds and a Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
