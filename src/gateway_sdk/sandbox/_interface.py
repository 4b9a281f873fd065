"""The interface as data, which is in `_interface.json`, and what follows from it for every request.

Copied by hand from the interface's tables (Endpoints 1-12, Resources) and not from the SDK's
models, so that a misspelt name in the SDK fails against the sandbox. "?" marks what may be null,
"complete" the records that lack no field. Two records are not the interface's: Revisions is the
body of endpoint 2, and DocumentStatus the sandbox's own, because endpoint 8 leaves the body open.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from http.client import responses
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Scope


class OperationRoute(NamedTuple):
    """One row of the interface's table of endpoints: the SDK's name for it, method and path."""

    name: str
    method: str
    path: str


_DATA: Final = json.loads((files("gateway_sdk.sandbox") / "_interface.json").read_text("utf-8"))

# In the interface's order. The path of a document with the id "update" or "status" matches 8 and 9;
# the interface does not say which applies, here it is the earlier row.
OPERATIONS: Final = tuple(OperationRoute(*row) for row in _DATA["operations"])
RECORDS: Final[Mapping[str, Mapping[str, str]]] = _DATA["records"]


def _json(value: Any) -> Any:
    json.dumps(value, allow_nan=False)  # pydantic reads NaN and Infinity, which are no JSON
    return value


_SCALARS: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "int64": Annotated[int, Field(ge=-(2**63), lt=2**63)],
    "boolean": bool,
    "any": Annotated[Any, AfterValidator(_json)],
}


def check_operation(name: str) -> None:
    names = [operation.name for operation in OPERATIONS]
    if name not in names:
        raise ValueError(f"unknown operation {name!r}; the operations are {', '.join(names)}")


@cache
def _model_of(record: str) -> type[BaseModel]:
    missing = ... if record in _DATA["complete"] else None
    fields: dict[str, Any] = {
        name: (_type_of(kind), missing) for name, kind in RECORDS[record].items()
    }
    return create_model(record, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _type_of(kind: str) -> Any:
    if kind.startswith("["):
        return list[_type_of(kind[1:-1])]  # type: ignore[misc]
    if kind.endswith("?"):
        return _type_of(kind[:-1]) | None
    return _SCALARS[kind] if kind in _SCALARS else _model_of(kind)


def parse_json(body: bytes, record: str) -> Any:
    """Return the fields that a body has; the refusal names a field, never its value."""
    try:
        return _model_of(record).model_validate_json(body).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors()[0]
        steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"])
        raise HTTPException(400, f"${''.join(steps)}: {first['msg']}") from None


async def read_json(request: Request, record: str) -> Any:
    media_type = request.headers.get("Content-Type", "").partition(";")[0]
    if media_type.strip().lower() != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    return parse_json(await request.body(), record)


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
