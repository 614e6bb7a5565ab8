"""The same raw requests to Apache Kafka and to Corelog; the answers must be the same bytes.

    compare_run.py [--corelog PATH] [--shards 2]
    compare_run.py --kafka-twice       Kafka against itself: are the requests repeatable?

Both brokers get the same topic with the same batches at the same timestamps, then one request after
the other, over one connection each (a request that closes the connection gets a new one next). What
must differ is masked: port, cluster id, topic id, and the text of error messages.
"""

import argparse
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import clients, raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import target_binary
from harness.raw import FETCH, METADATA, PRODUCE, Closed, Connection, FetchFrom, string
from harness.report import Report, Skipped, expect, expect_equal

LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 2, 19, 20, 22
# Of today: Kafka deletes what is older than a week, some time after the start.
STAMP_MS = time.time_ns() // 1_000_000
TOPIC, ABSENT = "compare", "compare-absent"
INIT_BODY = struct.pack(">hi", -1, 60_000)  # No transactional id.
MASKED = b"<masked>"


@dataclass(frozen=True)
class Ask:
    """One request, and how much of its answer must be equal."""

    api_key: int
    version: int
    body: bytes
    mask: Callable[[bytes], bytes] = bytes


def int8(*values: int) -> bytes:
    """Signed bytes."""
    return struct.pack(f">{len(values)}b", *values)


def int32(*values: int) -> bytes:
    """Big-endian 32-bit numbers."""
    return struct.pack(f">{len(values)}i", *values)


def batch(first: int, count: int = 3) -> bytes:
    """A batch that is the same in every run."""
    records = [(b"k%d" % n, b"v%d" % n) for n in range(first, first + count)]
    return raw.batch(records, STAMP_MS + first)


def with_attributes(attributes: int) -> bytes:
    """A batch whose attributes say what they like, with a right checksum."""
    tail = struct.pack(">h", attributes) + batch(0)[23:]
    return batch(0)[:17] + struct.pack(">I", raw.crc32c(tail)) + tail


def zstd_batch() -> bytes:
    """A batch in a zstd frame of one raw block."""
    records = batch(0)[raw.BATCH_HEADER_BYTES :]
    block = struct.pack("<I", len(records) << 3 | 1)[:3] + records
    frame = bytes.fromhex("28b52ffd20") + bytes([len(records)]) + block
    tail = struct.pack(">h", 4) + batch(0)[23 : raw.BATCH_HEADER_BYTES] + frame
    head = batch(0)[:8] + int32(9 + len(tail)) + batch(0)[12:17]
    return head + struct.pack(">I", raw.crc32c(tail)) + tail


def produce_asks() -> dict[str, Ask]:
    """Every way to be refused, and to be taken, at versions without message texts."""

    def ask(
        records: bytes, topic: str = TOPIC, partition: int = 1, acks: int = -1, v: int = 7
    ) -> Ask:
        return Ask(PRODUCE, v, raw.produce_body(topic, partition, records, acks))

    flipped = batch(0)[:-1] + bytes([batch(0)[-1] ^ 1])
    asks = {
        "produce-good": ask(batch(0)),
        "produce-good-acks-1": ask(batch(3), acks=1),
        "produce-unknown-topic": ask(batch(0), ABSENT),
        "produce-unknown-partition": ask(batch(0), partition=99),
        "produce-negative-partition": ask(batch(0), partition=-1),
        "produce-acks-2": ask(batch(0), acks=2),
        "produce-bad-crc": ask(flipped),
        "produce-two-batches": ask(batch(0) + batch(3)),
        "produce-control-batch": ask(with_attributes(0x20)),
        "produce-zstd-before-v7": ask(zstd_batch(), v=6),
        "produce-zstd": ask(zstd_batch()),
        "produce-no-zstd-inside": ask(with_attributes(0x04)),
        "produce-unknown-codec": ask(with_attributes(0x05)),
        "produce-too-large": ask(raw.batch([(None, bytes(1_100_000))], STAMP_MS)),
        "produce-future-offset": ask(struct.pack(">q", 77) + batch(6)[8:]),
    }
    for version in (3, 4, 5, 6, 7):
        asks[f"produce-v{version}"] = ask(batch(9), v=version)
    return asks


def fetch_asks() -> dict[str, Ask]:
    """Offsets inside and outside, bounds of bytes, epochs, isolation."""

    def ask(
        offset: int, partition: int = 0, topic: str = TOPIC, epoch: int = -1, **bounds: int
    ) -> Ask:
        bytes_max = bounds.get("bytes_max", 1 << 20)
        head = int32(-1, 0, bounds.get("bytes_min", 1), bytes_max)
        head += int8(bounds.get("isolation", 0)) + int32(0, -1)
        one = int32(partition, epoch) + struct.pack(">qq", offset, -1) + int32(bytes_max)
        body = head + int32(1) + string(topic) + int32(1) + one + int32(0) + string("")
        return Ask(FETCH, 11, body)

    return {
        "fetch-from-start": ask(0),
        "fetch-inside-batch": ask(4),
        "fetch-at-end": ask(9),
        "fetch-past-end": ask(10),
        "fetch-negative": ask(-1),
        "fetch-one-byte": ask(0, bytes_max=1),
        "fetch-nothing": ask(0, bytes_max=0),
        "fetch-committed": ask(0, isolation=1),
        "fetch-bad-isolation": ask(0, isolation=7),
        "fetch-unknown-partition": ask(0, partition=99),
        "fetch-unknown-topic": ask(0, topic=ABSENT),
        "fetch-current-epoch": ask(0, epoch=0),
        "fetch-future-epoch": ask(0, epoch=7),
        "fetch-min-bytes": ask(9, bytes_min=100),
        "fetch-v4": Ask(
            FETCH,
            4,
            int32(-1, 0, 1, 1 << 20)
            + int8(0)
            + int32(1)
            + string(TOPIC)
            + int32(1, 0)
            + struct.pack(">q", 3)
            + int32(1 << 20),
        ),
    }


def list_offsets_asks() -> dict[str, Ask]:
    """Every special and some times, in old and newer versions."""
    asks = {}
    times = {
        "earliest": -2,
        "latest": -1,
        "max": -3,
        "exact": STAMP_MS + 3,
        "between": STAMP_MS + 1,
        "zero": 0,
        "future": STAMP_MS * 2,
    }
    for name, time_ms in times.items():
        one = int32(1) + string(TOPIC) + int32(1)
        if name != "max":
            asks[f"offsets-{name}-v1"] = Ask(
                LIST_OFFSETS, 1, int32(-1) + one + int32(0) + struct.pack(">q", time_ms)
            )
        if name != "max":
            asks[f"offsets-{name}-v5"] = Ask(
                LIST_OFFSETS,
                5,
                int32(-1) + int8(0) + one + int32(0, -1) + struct.pack(">q", time_ms),
            )
        compact = b"\x02" + bytes([len(TOPIC) + 1]) + TOPIC.encode() + b"\x02" + int32(0, -1)
        compact += struct.pack(">q", time_ms) + b"\0\0"
        asks[f"offsets-{name}-v7"] = Ask(
            LIST_OFFSETS, 7, b"\0" + int32(-1) + int8(0) + compact + b"\0"
        )
    unknown = int32(-1, 1) + string(ABSENT) + int32(1, 0) + struct.pack(">q", -1)
    asks["offsets-unknown-topic"] = Ask(LIST_OFFSETS, 1, unknown)
    return asks


def metadata_asks() -> dict[str, Ask]:
    """A topic that is there and one that is not, without creating it."""
    asks = {}
    for version in range(1, 9):
        for name, topic in (("known", TOPIC), ("unknown", ABSENT), ("bad-name", "a/b")):
            body = int32(1) + string(topic)
            if version >= 4:
                body += int8(0)
            if version >= 8:
                body += int8(0, 0)
            # Below version 4 a question creates the topic where the broker may.
            if version >= 4 or name == "known":
                asks[f"metadata-{name}-v{version}"] = Ask(METADATA, version, body)
    return asks


def admin_asks() -> dict[str, Ask]:
    """Creating and deleting: the codes, not the words."""

    def create(name: str, partitions: int = 1, replicas: int = 1, config: str = "") -> Ask:
        configs = int32(1) + string("segment.bytes") + string(config) if config else int32(0)
        one = string(name) + int32(partitions) + struct.pack(">h", replicas) + int32(0) + configs
        return Ask(CREATE_TOPICS, 2, int32(1) + one + int32(10_000) + int8(0), without_messages)

    def delete(name: str, version: int) -> Ask:
        return Ask(DELETE_TOPICS, version, int32(1) + string(name) + int32(10_000))

    return {
        "create": create("compare-new"),
        "create-again": create("compare-new"),
        "create-bad-name": create("a/b"),
        "create-dots": create(".."),
        "create-long-name": create("x" * 250),
        "create-no-name": create(""),
        "create-zero-partitions": create("compare-zero", 0),
        "create-too-many-replicas": create("compare-wide", 1, 3),
        "create-bad-config": create("compare-odd", 1, 1, "-1"),
        "create-no-number": create("compare-odd", 1, 1, "7d"),
        "delete": delete("compare-new", 1),
        "delete-again": delete("compare-new", 3),
        "init-producer-id": Ask(
            INIT_PRODUCER_ID,
            0,
            INIT_BODY,
            lambda answer: answer[:6] + answer[14:],
        ),
    }


def without_messages(answer: bytes) -> bytes:
    """CreateTopics v2's answer for one topic, without the text."""
    name_bytes = struct.unpack_from(">h", answer, 8)[0]
    return answer[: 10 + name_bytes + 2]


@dataclass
class Side:
    """One of the two brokers."""

    broker: Broker
    masks: list[bytes]
    connection: Connection

    @classmethod
    def prepare(cls, broker: Broker) -> "Side":
        """Makes the topic, fills it, and finds out what to mask."""
        clients.create_topic(broker.bootstrap, TOPIC, 2)
        connection = Connection(broker.port)
        wait_for_leaders(connection)
        wait_for_producer_ids(connection)
        for first in (0, 3, 6):
            expect_equal("produce error", connection.produce(TOPIC, 0, batch(first)).error, 0)
        cluster = clients.admin(broker.bootstrap).list_topics(timeout=20).cluster_id
        masks = [int32(broker.port)] + ([cluster.encode()] if cluster else [])
        return cls(broker, masks, connection)

    def answer(self, ask: Ask) -> bytes:
        """The masked answer, or the word "closed"."""
        try:
            answer = self.connection.call(ask.api_key, ask.version, ask.body)
        except (Closed, ConnectionError):
            self.connection = Connection(self.broker.port)
            return b"closed"
        for mask in self.masks:
            answer = answer.replace(mask, MASKED)
        return ask.mask(answer)


def wait_for_leaders(connection: Connection) -> None:
    """Kafka answers CreateTopics before the partitions are led."""
    deadline = time.monotonic() + 60
    for partition in (0, 1):
        while connection.fetch(FetchFrom(TOPIC, partition, 0, wait_ms=0)).error:
            expect(time.monotonic() < deadline, f"{TOPIC}-{partition} gets no leader")
            time.sleep(0.02)


def wait_for_producer_ids(connection: Connection) -> None:
    """Kafka says "loading" (14) until its controller has given the node a block of ids."""
    deadline = time.monotonic() + 60
    while struct.unpack_from(">h", connection.call(INIT_PRODUCER_ID, 0, INIT_BODY), 4)[0]:
        expect(time.monotonic() < deadline, "no producer id")
        time.sleep(0.05)


def main() -> int:
    """Starts both, asks everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corelog", type=Path, help="our binary (default: the newest build)")
    parser.add_argument("--kafka-twice", action="store_true", help="compare Kafka with itself")
    parser.add_argument("--shards", type=int, default=2)
    options, report = parser.parse_args(), Report()
    kind = "kafka" if options.kafka_twice else "corelog"
    ours = Launch(kind, options.corelog or target_binary("corelog"), options.shards)
    asks = {
        **produce_asks(),
        **fetch_asks(),
        **list_offsets_asks(),
        **metadata_asks(),
        **admin_asks(),
    }
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch, ExitStack() as stack:
        sides = []
        settings = ("auto.create.topics.enable=false",)
        for name, launch in (("reference", Launch("kafka", Path())), ("ours", ours)):
            launch = Launch(launch.kind, launch.binary, launch.shards, settings)
            broker = Broker(launch, Path(scratch) / name)
            stack.callback(broker.close)
            broker.start()
            sides.append(Side.prepare(broker))
        reference, tested = sides
        for name, ask in asks.items():
            report.run(f"compare/{name}", partial(compare, reference, tested, ask, name))
    return report.close()


# Where we answer otherwise on purpose, or where nobody looks.
DEVIATIONS = {
    "produce-control-batch": "log_start_offset beside a refusal: -1, Kafka says 0; nobody reads it",
    "produce-future-offset": "log_start_offset beside a refusal: -1, Kafka says 0; nobody reads it",
    "produce-no-zstd-inside": "INVALID_RECORD; Kafka's own slip is UNKNOWN_SERVER_ERROR",
    "produce-unknown-codec": "INVALID_RECORD; Kafka's own slip is UNKNOWN_SERVER_ERROR",
    "fetch-unknown-partition": "aborted transactions beside an error: null, Kafka says empty",
    "fetch-unknown-topic": "aborted transactions beside an error: null, Kafka says empty",
    "fetch-bad-isolation": "an unknown isolation level reads uncommitted; Kafka fails with -1",
}


def compare(reference: Side, tested: Side, ask: Ask, name: str) -> str:
    """Both answers, equal."""
    expected, found = reference.answer(ask), tested.answer(ask)
    if found != expected and name in DEVIATIONS and tested.broker.launch.is_corelog:
        raise Skipped(DEVIATIONS[name])
    expect_equal("answer", found.hex(" ", 4), expected.hex(" ", 4))
    return f"{len(found)} bytes"


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
