"""The one shape of every error reply."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope


def error_reply(
    scope: Scope, status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Answer the request of *scope* with an ErrorPayload."""
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


async def reply_to_refusal(request: Request, refusal: Exception) -> JSONResponse:
    """Answer with what an HTTPException says: Starlette's signature for a handler of exceptions."""
    assert isinstance(refusal, HTTPException)  # noqa: S101 - registered for this class alone
    return error_reply(request.scope, refusal.status_code, refusal.detail, refusal.headers)


def timestamp(moment: datetime) -> str:
    """Write a moment in UTC as ISO 8601 with milliseconds and a Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown Status"
