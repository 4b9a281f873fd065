"""The suite runs on the engine that it was told to run on."""

from gateway_sdk import GatewaySession
from tests.http.uploads.servers import Taker
from tests.support.calls import CALLS
from tests.support.raw_server import raw_server


async def test_a_session_that_names_no_engine_has_the_one_of_this_run(usual_engine: str) -> None:
    """What `--engine` says is what sends the requests of every test that names none."""
    async with (
        raw_server(Taker().handle) as url,
        GatewaySession(url, access_token="t") as gateway,
    ):
        await CALLS["order_history"](gateway)
        kind = type(gateway._caller.client._transport)

    assert kind.__name__ == f"{usual_engine.capitalize()}Engine"
