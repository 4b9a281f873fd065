"""The job of the workers, and its broker; the environment says where everything is.

Variables:
    FLEET_JOB: The name of the job.
    FLEET_STORE: The DSN of PostgreSQL.
    FLEET_BROKER: The address of RabbitMQ (amqp://) or NATS (nats://).
    FLEET_RATE: Requests per second of each worker; 0 for no limit.
    FLEET_LEASE: Seconds after which NATS delivers a chunk again.
    FLEET_STARTS: How often a chunk is started before it is put away.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from taskiq import AsyncBroker

from gateway_sdk import GatewaySession, RateLimit, fleet

CONCURRENCY = 50
CURRENCIES = ("USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF")


def items(number: int, once: int, *, poison: int | None = None) -> list[dict[str, Any]]:
    """Return different items: some must not be made twice, one may kill its worker."""
    every = number // once if once else number + 1
    made = [_customer(n) if n % every == every - 1 else _query(n) for n in range(number)]
    if poison is not None:
        made[poison] = {"kind": "poison", "number": poison}
    return made


def _customer(number: int) -> dict[str, Any]:
    return {"kind": "customer", "number": number}


def _query(number: int) -> dict[str, Any]:
    base, currency = divmod(number, len(CURRENCIES))
    return {"kind": "rates", "base": f"B{base:05}", "symbols": CURRENCIES[currency]}


async def call(gateway: GatewaySession, item: dict[str, Any]) -> Any:
    """Make the call of an item."""
    if item["kind"] == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    if item["kind"] == "customer":
        return await gateway.customer.create_customer(
            {"person": {"firstName": {"name": f"c{item['number']}"}}}
        )
    return await gateway.currency.exchange_rate_series(
        item["base"], item["symbols"], "2026-01-01", "2026-01-31"
    )


def make_job(function: Callable[..., Awaitable[Any]] = call) -> fleet.Job:
    """Return the job that the environment describes."""
    rate = int(os.environ["FLEET_RATE"])
    return fleet.Job(
        os.environ["FLEET_JOB"],
        function=function,
        store=fleet.PostgresStore(os.environ["FLEET_STORE"]),
        rate_limit=RateLimit(rate, seconds=1.0) if rate else None,
        concurrency=CONCURRENCY,
        max_starts=int(os.environ["FLEET_STARTS"]),
    )


def make_broker() -> AsyncBroker:
    """Return the broker that the environment describes."""
    # Imported here: each worker needs one of the two, and starts sooner without the other.
    if os.environ["FLEET_BROKER"].startswith("amqp"):
        from taskiq_aio_pika import AioPikaBroker  # noqa: PLC0415
        from taskiq_aio_pika.queue import Queue  # noqa: PLC0415

        # Its own: a plan that is submitted twice leaves messages that other jobs would give back.
        queue = Queue(name=os.environ["FLEET_JOB"], arguments={"x-delivery-limit": 20})
        return AioPikaBroker(
            os.environ["FLEET_BROKER"], qos=2, task_queues=[queue], reconnect_interval=0.5
        )
    return _nats_broker(os.environ["FLEET_BROKER"], os.environ["FLEET_JOB"])


def _nats_broker(url: str, name: str) -> AsyncBroker:
    from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig  # noqa: PLC0415
    from taskiq_nats import PullBasedJetStreamBroker  # noqa: PLC0415

    return PullBasedJetStreamBroker(
        url,
        subject=name,
        stream_name=name,
        stream_config=StreamConfig(retention=RetentionPolicy.WORK_QUEUE),
        durable=name,
        consumer_config=ConsumerConfig(
            durable_name=name, ack_wait=float(os.environ["FLEET_LEASE"])
        ),
        pull_consume_timeout=1,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.5,
    )
