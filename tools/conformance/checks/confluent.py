"""confluent-kafka: the newest librdkafka, with explicit assignment."""

import hashlib
import os
import random
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic
from harness import clients
from harness.clients import CODECS, Delivery
from harness.report import CheckFailed, expect, expect_equal

from . import Check, Context

LARGE_VALUE_BYTES = 10_000_000


def explicit_offsets(context: Context) -> str:
    """Keys, headers, nulls and timestamps come back; assignment at any offset starts there."""
    topic = context.topic("confluent-assign", 3)
    client, delivery = clients.producer(context.bootstrap), Delivery()
    sent: dict[int, list[tuple[object, ...]]] = {0: [], 1: [], 2: []}
    for n in range(3_000):
        key = None if n % 5 == 0 else b"key-%d" % n
        value = None if n % 11 == 0 else b"value-%d" % n
        headers = (
            [("h", b"%d" % n), ("empty", b""), ("null", None), ("h", b"again")] if n % 3 else None
        )
        stamp = 1_600_000_000_000 + n
        sent[n % 3].append((key, value, headers, (1, stamp)))
        optional: dict[str, Any] = (
            {"headers": headers} if headers else {}
        )  # The binding takes no None here.
        client.produce(topic, value, key, n % 3, on_delivery=delivery, timestamp=stamp, **optional)
        client.poll(0)
    delivery.finish(client, 3_000)
    starts = [(0, 0), (1, 7), (2, 999)]
    got = clients.read_to_end(context.bootstrap, [TopicPartition(topic, p, o) for p, o in starts])
    for partition, start in starts:
        found = [m for m in got if m.partition() == partition]
        expect_equal(
            f"offsets of {partition}", [m.offset() for m in found], list(range(start, 1_000))
        )
        content = [(m.key(), m.value(), m.headers(), m.timestamp()) for m in found]
        expect_equal(f"records of {partition}", content, sent[partition][start:])
    return "3000 records, 3 partitions"


def codec(name: str) -> Check:
    """Produces with one codec; reads back from the start and from inside a batch."""

    def check(context: Context) -> str:
        topic = context.topic(f"confluent-{name}")
        context.codecs[topic] = name
        client = clients.producer(context.bootstrap, compression_type=name, linger_ms=100)
        delivery = Delivery()
        values = [b"compressible " * 5 + b"%d" % n for n in range(2_000)]
        for value in values:
            client.produce(topic, value, on_delivery=delivery)
        delivery.finish(client, len(values))
        for start in (0, 1, 1_234, 1_999):
            got = clients.read_to_end(context.bootstrap, [TopicPartition(topic, 0, start)])
            expect_equal(f"values from {start}", [m.value() for m in got], values[start:])
        return "2000 records"

    return check


def large_records(context: Context) -> str:
    """10 MB records on a topic created for them, uncompressed and compressed."""
    topic = context.topic("confluent-large", max_message_bytes="11000000")
    values = [os.urandom(LARGE_VALUE_BYTES), b"x" * 100, os.urandom(LARGE_VALUE_BYTES)]
    for name in ("none", "zstd"):
        client, delivery = (
            clients.producer(
                context.bootstrap, message_max_bytes=12_000_000, compression_type=name
            ),
            Delivery(),
        )
        for value in values:
            client.produce(topic, value, on_delivery=delivery)
        delivery.finish(client, len(values))
    got = clients.read_topic(
        context.bootstrap,
        topic,
        fetch_message_max_bytes=1_000_000,
        receive_message_max_bytes=64_000_000,
    )
    found = [hashlib.sha256(clients.value_of(message)).hexdigest() for message in got]
    expect_equal("digests", found, [hashlib.sha256(value).hexdigest() for value in values] * 2)
    return f"{len(got)} records, the largest {LARGE_VALUE_BYTES} bytes"


def too_large(context: Context) -> None:
    """A batch above max.message.bytes is refused for its partition only."""
    small = context.topic("confluent-small", max_message_bytes="50000")
    other = context.topic("confluent-other")
    client = clients.producer(context.bootstrap, message_max_bytes=12_000_000)
    refused, fine = Delivery(), Delivery()
    client.produce(small, os.urandom(200_000), on_delivery=refused)
    client.produce(other, os.urandom(200_000), on_delivery=fine)
    fine.finish(client, 1)
    expect(refused.error is not None, "200 kB went into a topic of 50 kB")
    assert refused.error is not None
    expect_equal("error", refused.error.code(), KafkaError.MSG_SIZE_TOO_LARGE)
    expect_equal("records", len(clients.read_topic(context.bootstrap, small)), 0)


def offsets_by_time(context: Context) -> str:
    """The first record at or after a time, exact inside compressed batches, against a model."""
    topic = context.topic("confluent-times")
    rng = random.Random(7)
    stamps: list[int] = []
    for name in ("none", "zstd", "lz4"):
        client, delivery = clients.producer(context.bootstrap, compression_type=name), Delivery()
        for _ in range(500):
            # Out of order on purpose: a lookup may not assume sorted timestamps.
            stamps.append(1_650_000_000_000 + len(stamps) * 10 + rng.randrange(-200, 200))
            client.produce(topic, b"%d" % len(stamps), timestamp=stamps[-1], on_delivery=delivery)
        delivery.finish(client, 500)
    reader = clients.consumer(context.bootstrap)
    probes = [min(stamps) - 1, min(stamps), max(stamps), max(stamps) + 1]
    probes += [rng.choice(stamps) + rng.randrange(-1, 2) for _ in range(60)]
    for probe in probes:
        found = reader.offsets_for_times([TopicPartition(topic, 0, probe)], timeout=20)[0].offset
        # librdkafka answers the end (-1) where the broker knows no such record.
        expected = next((n for n, stamp in enumerate(stamps) if stamp >= probe), -1)
        expect_equal(f"offset for time {probe}", found, expected)
    reader.close()
    return f"{len(probes)} lookups over {len(stamps)} records"


def idempotent(context: Context) -> str:
    """An idempotent producer's records are there once, in order."""
    topic = context.topic("confluent-idempotent", 2)
    client = clients.producer(context.bootstrap, enable_idempotence=True, linger_ms=1)
    delivery, count = Delivery(), 50_000 if context.full else 10_000
    for n in range(count):
        while True:
            try:
                client.produce(topic, b"%d" % n, partition=n % 2, on_delivery=delivery)
                break
            except BufferError:
                client.poll(0.05)
        client.poll(0)
    delivery.finish(client, count)
    got = clients.read_topic(context.bootstrap, topic, 2)
    for partition in (0, 1):
        values = [int(clients.value_of(m)) for m in got if m.partition() == partition]
        expect_equal(f"values of {partition}", values, list(range(partition, count, 2)))
    for message in got:
        acked = delivery.offsets[clients.place_of(message)[0], message.value()]
        expect_equal("acked offset", message.offset(), acked)
    return f"{count} records"


def acks(context: Context) -> None:
    """acks 0, 1 and all are all served."""
    topic = context.topic("confluent-acks")
    for level in ("0", "1", "all"):
        client, delivery = clients.producer(context.bootstrap, acks=level), Delivery()
        for n in range(100):
            client.produce(topic, f"{level}-{n}".encode(), on_delivery=delivery)
        delivery.finish(client, 100)
        deadline = time.monotonic() + 10  # acks=0 may return before the broker has the records.
        count = 0
        while time.monotonic() < deadline:
            values = [clients.value_of(m) for m in clients.read_topic(context.bootstrap, topic)]
            count = sum(value.startswith(f"{level}-".encode()) for value in values)
            if count == 100:
                break
            time.sleep(0.05)
        expect_equal(f"records with acks={level}", count, 100)


def watermarks(context: Context) -> None:
    """Watermarks follow the log, and an offset past the end is an error to the consumer."""
    topic = context.topic("confluent-watermarks")
    client, delivery = clients.producer(context.bootstrap), Delivery()
    for n in range(10):
        client.produce(topic, b"%d" % n, on_delivery=delivery)
    delivery.finish(client, 10)
    reader = clients.consumer(context.bootstrap)
    expect_equal("watermarks", reader.get_watermark_offsets(TopicPartition(topic, 0), 20), (0, 10))
    reader.close()
    try:
        clients.read_to_end(context.bootstrap, [TopicPartition(topic, 0, 11)])
    except CheckFailed as failure:
        expect("range" in str(failure).lower(), f"offset 11 of 10 gave: {failure}")
    else:
        raise CheckFailed("offset 11 of 10 gave no error")


def follow(context: Context) -> None:
    """A consumer waiting at the end gets a record as soon as it is there."""
    topic = context.topic("confluent-follow")
    reader = clients.consumer(
        context.bootstrap, fetch_wait_max_ms=5_000, enable_partition_eof=False
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    expect(reader.poll(1.0) is None, "an empty topic gave a record")
    client = clients.producer(context.bootstrap, linger_ms=0)
    slowest = 0.0
    for n in range(20):
        begin = time.monotonic()
        client.produce(topic, b"%d" % n)
        message = reader.poll(5.0)
        slowest = max(slowest, time.monotonic() - begin)
        expect(message is not None and message.error() is None, f"record {n} did not arrive")
        assert message is not None
        expect_equal("value", message.value(), b"%d" % n)
    reader.close()
    # A long poll that is not woken would end at its own timeout, five seconds.
    expect(slowest < 2.0, f"the slowest of 20 took {slowest:.2f} s: the long poll was not woken")


def administration(context: Context) -> None:
    """Create, describe, delete, and the errors that belong to them."""
    client = clients.admin(context.bootstrap)
    name = context.topic("confluent-admin", 4, segment_bytes="2097152")
    expect_equal("partitions", len(client.list_topics(name, 20).topics[name].partitions), 4)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    config = client.describe_configs([resource], request_timeout=20)[resource].result(30)
    expect_equal("segment.bytes", config["segment.bytes"].value, "2097152")
    expect_equal("is_default", config["max.message.bytes"].is_default, True)

    def code(future: object) -> int:
        try:
            future.result(30)  # type: ignore[attr-defined]
        except KafkaException as error:
            return error.args[0].code()
        return 0

    again = NewTopic(name, num_partitions=1, replication_factor=1)
    expect_equal(
        "create again", code(client.create_topics([again])[name]), KafkaError.TOPIC_ALREADY_EXISTS
    )
    bad = NewTopic("bad/name", num_partitions=1, replication_factor=1)
    expect_equal(
        "bad name", code(client.create_topics([bad])["bad/name"]), KafkaError.TOPIC_EXCEPTION
    )
    wide = NewTopic(name + "-rf", num_partitions=1, replication_factor=3)
    expect_equal(
        "replication factor 3 of 1",
        code(client.create_topics([wide])[name + "-rf"]),
        KafkaError.INVALID_REPLICATION_FACTOR,
    )
    odd = NewTopic(
        name + "-odd", num_partitions=1, replication_factor=1, config={"segment.bytes": "-1"}
    )
    expect_equal(
        "bad config", code(client.create_topics([odd])[name + "-odd"]), KafkaError.INVALID_CONFIG
    )
    expect_equal("delete", code(client.delete_topics([name])[name]), 0)
    expect_equal(
        "delete again", code(client.delete_topics([name])[name]), KafkaError.UNKNOWN_TOPIC_OR_PART
    )
    # The name is free at once, and the new topic is empty.
    expect_equal("create anew", code(client.create_topics([again])[name]), 0)
    expect_equal("records", len(clients.read_topic(context.bootstrap, name)), 0)


def auto_create(context: Context) -> None:
    """Producing to a topic that does not exist creates it."""
    topic = context.name("confluent-auto")
    client, delivery = clients.producer(context.bootstrap), Delivery()
    for n in range(100):
        client.produce(topic, b"%d" % n, on_delivery=delivery)
    delivery.finish(client, 100)
    expect_equal("records", len(clients.read_topic(context.bootstrap, topic)), 100)


CHECKS: dict[str, Check] = {
    "confluent-assign": explicit_offsets,
    **{f"confluent-codec-{name}": codec(name) for name in CODECS},
    "confluent-10MB": large_records,
    "confluent-too-large": too_large,
    "confluent-times": offsets_by_time,
    "confluent-idempotent": idempotent,
    "confluent-acks": acks,
    "confluent-watermarks": watermarks,
    "confluent-follow": follow,
    "confluent-admin": administration,
    "confluent-auto-create": auto_create,
}
