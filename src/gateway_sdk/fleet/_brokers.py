"""Which brokers of taskiq a fleet can use, and what they must be set to."""

import logging
from typing import Any, Final, cast

from gateway_sdk.errors import ConfigurationError

AHEAD: Final = 2
"""Chunks that a worker process takes: while the last calls of one end, the next one has begun."""

_DELIVERIES: Final = 20
"""How often RabbitMQ delivers a chunk; version 4 has the same default, version 3.10 has none."""

_LOGGER: Final = logging.getLogger("gateway_sdk")

_LOSES: Final = "a message is lost with the worker that took it"
_STALLS: Final = (
    "the chunks of a worker that was killed are delivered again only after another message "
    "arrives: the last ones never"
)
_BROADCASTS: Final = "every worker gets every message, and a message that no worker hears is lost"

_REFUSED: Final = {
    "ListQueueBroker": _LOSES,
    "ListQueueClusterBroker": _LOSES,
    "ListQueueSentinelBroker": _LOSES,
    "PubSubBroker": _BROADCASTS,
    "PubSubSentinelBroker": _BROADCASTS,
    "NatsBroker": _BROADCASTS,
    "ZeroMQBroker": _BROADCASTS,
    "RedisStreamBroker": _STALLS,
    "RedisStreamClusterBroker": "the chunks of a worker that was killed are never delivered again",
    "RedisStreamSentinelBroker": _STALLS,
}

IN_MEMORY: Final = "InMemoryBroker"


def names_of(broker: object) -> set[str]:
    return {kind.__name__ for kind in type(broker).__mro__}


def check_broker(broker: Any) -> None:
    """Refuse brokers that lose chunks, and set what is missing for the others."""
    names = names_of(broker)
    if not hasattr(broker, "register_task"):
        raise ConfigurationError("on_taskiq needs a broker of taskiq")
    for name in sorted(names & _REFUSED.keys()):
        raise ConfigurationError(
            f"{name} cannot carry a plan: {_REFUSED[name]}. Use AioPikaBroker of taskiq-aio-pika "
            "(RabbitMQ), or PullBasedJetStreamBroker of taskiq-nats"
        )
    if "AioPikaBroker" in names:
        _check_rabbitmq(broker)


def _check_rabbitmq(broker: Any) -> None:
    """Give a broker without queues a queue, and check the queues of others."""
    from taskiq_aio_pika.queue import Queue, QueueType  # noqa: PLC0415 - the broker is of it

    limit: Any = {"x-delivery-limit": _DELIVERIES}
    given = cast("dict[str, Any]", vars(broker))
    if "_task_queues" not in given:  # the broker has no public name for them
        raise ConfigurationError("on_taskiq needs taskiq-aio-pika 0.6 or a later release")
    queues = cast("list[Queue]", given["_task_queues"])
    if not queues:
        broker.with_queues(Queue(name="gateway-fleet", arguments=limit))
    for queue in queues:
        has_limit = queue.type is QueueType.QUORUM and "x-delivery-limit" in queue.arguments
        if queue.declare and not has_limit:
            raise ConfigurationError(
                f"the queue {queue.name!r} has no delivery limit: a chunk that ends its worker "
                "would be delivered for ever. Give the broker "
                f"Queue(name={queue.name!r}, arguments={limit!r}), or no queue at all"
            )
    if given["_qos"] > AHEAD:
        _LOGGER.warning(
            "this AioPikaBroker keeps up to %s chunks in each worker, where the other workers "
            "cannot take them: give it qos=%s",
            given["_qos"],
            AHEAD,
        )
