"""A call that ends before its request: it opens a connection for the next one."""

import logging
import time
from dataclasses import replace
from typing import Final

import httpx

from gateway_sdk._call.call import Call, Caller
from gateway_sdk._call.deadline import CallScope
from gateway_sdk._call.failure import raise_failure
from gateway_sdk._http.request import NO_VALUES, prepare
from gateway_sdk._transport.transmission import hide_frames
from gateway_sdk.auth.source import ready_token
from gateway_sdk.errors import GatewayError
from gateway_sdk.operations import LIST_COUNTRIES
from gateway_sdk.outcome import Outcome

_logger = logging.getLogger("gateway_sdk")

_CONNECT: Final = replace(LIST_COUNTRIES, name="connect")  # which errors name; it is never sent


class Connecting(Call):
    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.shared, caller.options, _CONNECT)

    async def connect(self) -> None:
        try:
            self._transport = self._shared.open()
            with CallScope(self._shared.calls, self._options.deadline) as self._scope:
                await self._shared.prepare()
                template = self._template()
                self._request = prepare(template, template.target(NO_VALUES), None, None, None)
                await self._send(template)
        except BaseException as error:
            self._end(error)
            raise

    async def _with_token(self) -> None:
        if ready_token(self._options.access_token) is None:
            await self._fetch_token()
        await self._attempt()

    async def _attempt(self) -> None:
        request, began = self._request_with_token(), time.monotonic()
        how = request.transmission
        try:
            try:
                if not await self._transport.connect(request):
                    _logger.info("connect: a token only: httpx opens the connections")
            except (GatewayError, httpx.HTTPError) as error:
                raise_failure(error, request, None, is_ours=True)
        except BaseException as error:
            hide_frames(error)
            self._scope.phase, name = how.phase, type(error).__name__
            self._add_attempt(Outcome.NOT_SENT, name, how, time.monotonic() - began)
            raise
