"""Sessions whose requests are kept, and answered with an empty list."""

from typing import Any

import httpx

from gateway_sdk import GatewaySession


class Recorder(httpx.MockTransport):
    def __init__(self) -> None:
        self.sent: list[httpx.Request] = []
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        return httpx.Response(200, json=[])

    def session(self, base_url: str = "https://gateway.test", **settings: Any) -> GatewaySession:
        given = {"access_token": "token-1", "transport": self}
        return GatewaySession(base_url, **{**given, **settings})
