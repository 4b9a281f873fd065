"""Which brokers a fleet refuses, and what it sets on the others."""

import builtins
from typing import Any

import pytest
import taskiq_redis
from taskiq import AsyncBroker, InMemoryBroker
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue, QueueType
from taskiq_nats import NatsBroker, PushBasedJetStreamBroker

from gateway_sdk import ConfigurationError, InvalidArgumentError, MissingExtraError
from gateway_sdk.fleet import Job, on_taskiq
from gateway_sdk.fleet._brokers import check_broker
from gateway_sdk.fleet._sender import sender
from tests.support.memory_store import MemoryStore

RABBITMQ = "amqp://guest:guest@127.0.0.1/"


def redis_broker(name: str) -> AsyncBroker:
    kind = getattr(taskiq_redis, name)
    if "Sentinel" in name:
        broker = kind(sentinels=[("127.0.0.1", 6379)], master_name="primary")
    else:
        broker = kind("redis://127.0.0.1")
    assert isinstance(broker, AsyncBroker)
    return broker


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ListQueueBroker", "lost with the worker"),
        ("ListQueueClusterBroker", "lost with the worker"),
        ("ListQueueSentinelBroker", "lost with the worker"),
        ("PubSubBroker", "every worker gets every message"),
        ("PubSubSentinelBroker", "every worker gets every message"),
        ("RedisStreamBroker", "only after another message"),
        ("RedisStreamClusterBroker", "never delivered again"),
        ("RedisStreamSentinelBroker", "only after another message"),
    ],
)
def test_brokers_on_redis_are_refused(name: str, reason: str) -> None:
    """By name, with the reason, and with what to use."""
    with pytest.raises(
        ConfigurationError, match=f"{name} cannot carry a plan: .*{reason}.*AioPika"
    ):
        check_broker(redis_broker(name))


def test_nats_without_jetstream_is_refused() -> None:
    """It keeps nothing; with JetStream it is taken."""
    with pytest.raises(ConfigurationError, match="NatsBroker cannot carry a plan: every worker"):
        check_broker(NatsBroker("nats://127.0.0.1"))
    check_broker(PushBasedJetStreamBroker("nats://127.0.0.1"))


def test_a_broker_of_ones_own_class_is_the_same() -> None:
    """The name of a base class counts too."""

    class Mine(taskiq_redis.ListQueueBroker):
        pass

    with pytest.raises(ConfigurationError, match="ListQueueBroker cannot carry a plan"):
        check_broker(Mine("redis://127.0.0.1"))


def test_what_is_no_broker_is_refused() -> None:
    """Such as an address."""
    with pytest.raises(ConfigurationError, match="needs a broker of taskiq"):
        on_taskiq(RABBITMQ, make_job())


def test_rabbitmq_gets_a_queue_with_a_limit() -> None:
    """RabbitMQ 3.10 would deliver a chunk that ends its worker for ever."""
    broker = AioPikaBroker(RABBITMQ, qos=2)

    check_broker(broker)

    (queue,) = broker._task_queues
    assert queue.name == "gateway-fleet"
    assert queue.type is QueueType.QUORUM
    assert queue.arguments == {"x-delivery-limit": 20}


@pytest.mark.parametrize(
    "queue",
    [
        Queue(name="plans"),
        Queue(name="plans", type=QueueType.CLASSIC, arguments={"x-delivery-limit": 5}),
    ],
)
def test_a_queue_without_a_limit_is_refused(queue: Queue) -> None:
    """A classic queue knows no limit."""
    broker = AioPikaBroker(RABBITMQ, task_queues=[queue])

    with pytest.raises(ConfigurationError, match="the queue 'plans' has no delivery limit"):
        check_broker(broker)


def test_a_queue_that_somebody_else_declares_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """What it is set to cannot be seen; how many chunks a worker would keep can."""
    check_broker(AioPikaBroker(RABBITMQ, qos=2, task_queues=[Queue(name="plans", declare=False)]))
    before = caplog.text
    check_broker(AioPikaBroker(RABBITMQ, task_queues=[Queue(name="plans", declare=False)]))

    assert not before
    assert "give it qos=2" in caplog.text


def test_an_old_release_is_refused() -> None:
    """Its queues cannot be checked."""
    broker = AioPikaBroker(RABBITMQ)
    del broker._task_queues

    with pytest.raises(ConfigurationError, match=r"taskiq-aio-pika 0\.6 or a later"):
        check_broker(broker)


def make_job() -> Job:
    return Job("rates", operation="exchange_rate_series", store=MemoryStore())


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra."""
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if name == "taskiq":
            raise ModuleNotFoundError(name)
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'gateway-sdk\[fleet\]'"):
        on_taskiq(InMemoryBroker(), make_job())


def test_a_broker_has_to_know_the_job() -> None:
    """The message says what to call first."""
    with pytest.raises(InvalidArgumentError, match=r"'rates': call fleet.on_taskiq"):
        sender(InMemoryBroker(), "rates")
