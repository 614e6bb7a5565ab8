"""Cores as brokers, and another number of them after a restart: unmodified clients find their way.

Each check starts a broker of its own: the one of the run shows its clients one broker.
"""

import re
from dataclasses import replace
from pathlib import Path

from confluent_kafka import TopicPartition

from harness import clients
from harness.broker import Broker
from harness.clients import Delivery
from harness.kafka_tools import KafkaTools
from harness.report import expect, expect_equal

from . import Check, Context

PARTITIONS = 4
RECORDS = 2_000
TOPIC = "over-cores"
FORWARDED = "corelog_forwarded_requests_total"
# DESIGN section 8: id `core * 10000 + node.id`.
SECOND_ID = 10_001


def produce(broker: Broker, start: int) -> None:
    """Appends `RECORDS` numbered values, to each partition in turn."""
    client, delivery = clients.producer(broker.bootstrap), Delivery()
    for n in range(start, start + RECORDS):
        client.produce(TOPIC, b"%d" % n, None, n % PARTITIONS, on_delivery=delivery)
        client.poll(0)
    delivery.finish(client, RECORDS)


def expect_values(broker: Broker, count: int) -> None:
    """Every value produced so far is there, each once and in its partition's order."""
    starts = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]
    got = clients.read_to_end(broker.bootstrap, starts)
    for partition in range(PARTITIONS):
        found = [int(clients.value_of(m)) for m in got if m.partition() == partition]
        expect_equal(f"values of {partition}", found, list(range(partition, count, PARTITIONS)))


def brokers_of_librdkafka(broker: Broker) -> tuple[dict[int, int], set[int]]:
    """The brokers that librdkafka sees, id → port, and the leaders of the topic."""
    client = clients.admin(broker.bootstrap)
    metadata = client.list_topics(TOPIC, timeout=30)
    ports = {found.id: found.port for found in metadata.brokers.values()}
    leaders = {found.leader for found in metadata.topics[TOPIC].partitions.values()}
    return ports, leaders


def cores_as_brokers(context: Context) -> str:
    """librdkafka and kafka-topics see two brokers, go to the right one, and nothing is forwarded."""
    context.only_corelog("a mode of ours")
    settings = (*context.broker.launch.settings, "advertise=core")
    launch = replace(context.broker.launch, shards=2, settings=settings)
    broker = Broker(launch, context.scratch / "cores")
    broker.start()
    try:
        clients.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        ports, leaders = brokers_of_librdkafka(broker)
        expect_equal("brokers", ports, {1: broker.port, SECOND_ID: broker.port + 1})
        expect_equal("leaders", leaders, {1, SECOND_ID})
        tools = KafkaTools(broker.bootstrap)
        described = tools.tool("topics", "--describe", "--topic", TOPIC)
        seen = {int(found) for found in re.findall(r"Leader: (\d+)", described)}
        expect_equal("leaders of kafka-topics", seen, {1, SECOND_ID})
        produce(broker, 0)
        expect_values(broker, RECORDS)
        metrics = broker.metrics()
        expect_equal("forwarded", metrics[FORWARDED], 0)
        expect(metrics["corelog_appended_records_total"] >= RECORDS, "nothing was counted")
    finally:
        broker.close()
    return f"{RECORDS} records over 2 brokers, 0 forwarded"


def files_of(broker: Broker) -> dict[Path, tuple[int, int]]:
    """Every segment with its inode and size: what moved is another file."""
    found = broker.topics_dir.rglob("*.log")
    return {file: (file.stat().st_ino, file.stat().st_size) for file in found}


def shards_change(context: Context) -> str:
    """1 → 2 → 1 data cores: no segment moves or changes, and all of it is served and goes on."""
    context.only_corelog("a mode of ours")
    broker = Broker(replace(context.broker.launch, shards=1), context.scratch / "shards")
    count = 0
    try:
        for shards in (1, 2, 1):
            broker.launch = replace(broker.launch, shards=shards)
            before = files_of(broker) if count else {}
            broker.start()
            if count:
                expect_equal(f"segments with {shards} shards", files_of(broker), before)
                expect_values(broker, count)
            else:
                clients.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
            produce(broker, count)
            count += RECORDS
            expect_values(broker, count)
            expect_equal("exit code", broker.terminate(), 0)
    finally:
        broker.close()
    return f"{count} records over 3 runs"


CHECKS: dict[str, Check] = {
    "cores-brokers": cores_as_brokers,
    "cores-change": shards_change,
}
