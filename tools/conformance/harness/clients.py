"""confluent-kafka (librdkafka) with the settings that every check shares."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from .report import CheckFailed

READ_SECONDS_MAX = 60.0
# A shared disk under other people's load syncs a few times a second: slow is not lost.
FLUSH_SECONDS_MAX = 240.0
# librdkafka tells on stderr about every lost connection; checks look at the errors they are given.
QUIET = {"log_level": 2}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def admin(bootstrap: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Creates a topic and waits for the broker's answer; an error fails the check."""
    new = NewTopic(
        topic, num_partitions=partitions, replication_factor=1, config=dict(config or {})
    )
    client = admin(bootstrap)  # A name of its own: a dropped client cancels its requests.
    client.create_topics([new], request_timeout=20)[topic].result(30)


def dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword names as librdkafka's: `.` for `_`, except in the one name that has a `_`."""
    return {
        name if name in QUIET else name.replace("_", "."): value for name, value in config.items()
    }


def producer(bootstrap: str, **config: Any) -> Producer:
    """A producer; keyword names use `_` for librdkafka's `.`."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", **QUIET}
    settings.update(dotted(config))
    return Producer(settings)


def consumer(bootstrap: str, **config: Any) -> Consumer:
    """A consumer for `assign`; it never commits and treats a bad offset as an error."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "conformance",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "fetch.wait.max.ms": 50,
        **QUIET,
    }
    settings.update(dotted(config))
    return Consumer(settings)


def value_of(message: Message) -> bytes:
    """A record's value, where the check wrote one."""
    value = message.value()
    if value is None:
        raise CheckFailed(f"null value at {place_of(message)}")
    return value


def place_of(message: Message) -> tuple[int, int]:
    """A record's partition and offset; -1 where the client was not told."""
    partition, offset = message.partition(), message.offset()
    return (-1 if partition is None else partition, -1 if offset is None else offset)


class Delivery:
    """Collects delivery reports: offsets by (partition, value), and the first error."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[int, bytes | None], int] = {}  # By partition and value.
        self.count = 0
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = self.error or error
            return
        self.count += 1
        partition, offset = place_of(message)
        self.offsets[partition, message.value()] = offset

    def finish(self, client: Producer, expected_count: int) -> None:
        """Flushes and fails the check unless every record was acknowledged."""
        left = client.flush(FLUSH_SECONDS_MAX)
        if self.error is not None:
            raise CheckFailed(f"delivery failed: {self.error}")
        if left or self.count != expected_count:
            raise CheckFailed(f"{self.count} of {expected_count} acknowledged, {left} in the queue")


def read_to_end(bootstrap: str, starts: Iterable[TopicPartition], **config: Any) -> list[Message]:
    """Reads every assigned partition from its offset to its end, in the order delivered."""
    starts = list(starts)
    client = consumer(bootstrap, **config)
    client.assign(starts)
    messages: list[Message] = []
    at_end: set[tuple[str | None, int | None]] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while len(at_end) < len(starts):
            if time.monotonic() > deadline:
                raise CheckFailed(f"no end of partition after {READ_SECONDS_MAX} s")
            for message in client.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add((message.topic(), message.partition()))
                else:
                    raise CheckFailed(f"consumer: {error}")
    finally:
        client.close()
    return messages


def read_topic(bootstrap: str, topic: str, partitions: int = 1, **config: Any) -> list[Message]:
    """Reads a whole topic from offset 0."""
    return read_to_end(
        bootstrap, [TopicPartition(topic, p, 0) for p in range(partitions)], **config
    )
