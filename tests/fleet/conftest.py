import pytest

from gateway_sdk.fleet import Job
from tests.fleet import gateways
from tests.fleet.gateways import CountingGateway


@pytest.fixture
def gateway() -> CountingGateway:
    return CountingGateway()


@pytest.fixture
async def job(gateway: CountingGateway, dsn: str) -> Job:
    made = gateways.job(gateway, dsn)
    await made.init()
    return made
