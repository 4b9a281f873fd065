"""Serving one operation: note the call, let the faults have it, check the token, answer."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, MutableSequence
from dataclasses import dataclass, field
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway_sdk.sandbox.faults import Exchange, Fault
from gateway_sdk.sandbox.operations import Operation
from gateway_sdk.sandbox.replies import error_reply, reply_to_refusal
from gateway_sdk.sandbox.schedule import Faults
from gateway_sdk.sandbox.store import Tenant
from gateway_sdk.sandbox.tokens import TokenRegistry

DEFAULT_TENANT = "default"
MAX_RECEIVED = 10_000

Handler = Callable[[Request, Tenant], Awaitable[Response]]

_logger = logging.getLogger(__name__)


@dataclass
class Received:
    """A call that came in, without anything personal: *path* is the interface's, not the caller's.

    *status* is what the client was sent, None as long as nothing was; *applied* tells whether the
    operation itself succeeded, also where the client never heard of it.
    """

    operation: str
    method: str
    path: str
    status: int | None = None
    applied: bool = False


@dataclass
class State:
    """What all endpoints share; *tenants* makes a missing one, *received* has the oldest first."""

    tokens: TokenRegistry
    tenants: dict[str, Tenant]
    faults: Faults
    received: MutableSequence[Received] = field(
        default_factory=lambda: deque[Received](maxlen=MAX_RECEIVED)
    )


class Endpoint:
    """The ASGI app of one operation."""

    def __init__(self, operation: Operation, handler: Handler, state: State) -> None:
        self._operation = operation
        self._handler = handler
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call, faults included; the fault added first is the outermost."""
        call = Received(*self._operation)
        self._state.received.append(call)
        app: ASGIApp = partial(self._answer, call)
        for fault in reversed(self._state.faults.due(self._operation.name)):
            app = self._spoilt(app, fault)
        await app(scope, receive, _noting(call, send))

    def _spoilt(self, app: ASGIApp, fault: Fault) -> ASGIApp:
        async def spoilt(scope: Scope, receive: Receive, send: Send) -> None:
            await fault.play(Exchange(app, scope, receive, send, self._state.faults.sleep))

        return spoilt

    async def _answer(self, call: Received, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(Request(scope, receive))
        except ClientDisconnect:
            return  # nobody is left to be answered, and nothing was applied
        call.applied = response.status_code < 400  # noqa: PLR2004 - what errors are
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            self._check_bearer(request)
            return await self._handler(request, self._tenant(request))
        except HTTPException as refusal:
            return await reply_to_refusal(request, refusal)
        except ClientDisconnect:
            raise
        except Exception:
            _logger.exception("%s failed", self._operation.name)
            return error_reply(request.scope, 500, "the sandbox failed; its log says why")

    def _check_bearer(self, request: Request) -> None:
        # Interface: Authentication 1. The challenges are those of RFC 6750, section 3.
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            challenge = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "the header Authorization: Bearer is required", challenge)
        complaint = self._state.tokens.check(token.strip())
        if complaint is not None:
            described = (
                f'Bearer error="invalid_token", error_description="The access token {complaint}"'
            )
            challenge = {"WWW-Authenticate": described}
            raise HTTPException(401, f"the access token {complaint}", challenge)

    def _tenant(self, request: Request) -> Tenant:
        name = request.headers.get("tenantId", "").strip()
        return self._state.tenants[name or DEFAULT_TENANT]


def _noting(call: Received, send: Send) -> Send:
    async def note(message: Message) -> None:
        call.status = message.get("status", call.status)
        await send(message)

    return note
