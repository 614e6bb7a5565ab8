"""Two shards, one port: the core that accepted a connection need not own the partition.

Connections land on a core by the kernel's hash of their ports, so twenty-four of them miss one of
two cores once in eight million runs. With one shard the same requests must give the same bytes and
nothing may be forwarded.
"""

import os
import time

from harness import raw
from harness.raw import FETCH, PRODUCE, Connection, FetchFrom
from harness.report import expect, expect_equal

from . import Check, Context

CONNECTIONS = 24
PARTITIONS = 4
FORWARDED = "corelog_forwarded_requests_total"
FETCHED = "corelog_fetched_bytes_total"
COPIED = "corelog_fetch_copied_bytes_total"


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def forwarded(context: Context) -> float:
    """How many sub-requests went over the mesh so far."""
    metrics = context.broker.metrics()
    expect(FORWARDED in metrics, f"{FORWARDED} is not among the metrics")
    return metrics[FORWARDED]


def expect_forwarding(context: Context, before: float) -> str:
    """Something was forwarded with several shards, nothing with one."""
    count = forwarded(context) - before
    if context.broker.launch.shards > 1:
        expect(count > 0, f"{CONNECTIONS} connections, and nothing was forwarded")
    else:
        expect_equal("forwarded with one shard", count, 0)
    return f"{count:.0f} forwarded"


def produce_anywhere(context: Context) -> str:
    """A batch produced through any core is stored as it was sent, at the offset answered."""
    context.only_corelog("metrics of ours")
    topic = context.topic("shards-produce", PARTITIONS)
    before = forwarded(context)
    sent: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
    for n in range(CONNECTIONS):
        with Connection(context.broker.port) as connection:
            for partition, stored in sent.items():
                records = [(b"key", b"%d-%d-%d" % (n, partition, r)) for r in range(3)]
                batch = raw.batch(records, now_ms())
                answer = connection.produce(topic, partition, batch)
                expect_equal("produce error", answer.error, raw.NONE)
                stored[answer.base_offset] = batch
    with Connection(context.broker.port) as connection:
        for partition, stored in sent.items():
            data = connection.fetch(FetchFrom(topic, partition, 0)).records
            found = {
                b.base_offset: raw.without_offset(data[b.position : b.position + b.size])
                for b in raw.batches(data)
            }
            expected = {base: raw.without_offset(batch) for base, batch in stored.items()}
            expect_equal(f"batches of {partition}", found, expected)
            expect_equal("base offsets", sorted(found), [3 * n for n in range(CONNECTIONS)])
    return expect_forwarding(context, before)


def fetch_anywhere(context: Context) -> str:
    """Every connection, whatever its core, gets the same bytes from every partition."""
    context.only_corelog("metrics of ours")
    topic = context.topic("shards-fetch", PARTITIONS)
    with Connection(context.broker.port) as connection:
        for partition in range(PARTITIONS):
            for n in range(5):
                batch = raw.batch([(None, os.urandom(3_000)) for _ in range(4)], now_ms() + n)
                expect_equal("produce error", connection.produce(topic, partition, batch).error, 0)
    before = forwarded(context)
    answers: dict[int, set[bytes]] = {partition: set() for partition in range(PARTITIONS)}
    for _ in range(CONNECTIONS):
        with Connection(context.broker.port) as connection:
            for partition, seen in answers.items():
                got = connection.fetch(FetchFrom(topic, partition, 0))
                expect_equal(
                    "fetch error and high watermark", (got.error, got.high_watermark), (0, 20)
                )
                seen.add(got.records)
    for partition, seen in answers.items():
        expect_equal(f"different answers of {partition}", len(seen), 1)
        expect_equal(f"batches of {partition}", len(list(raw.batches(seen.pop()))), 5)
    return expect_forwarding(context, before)


def order_over_cores(context: Context) -> None:
    """Answers leave in the order of the requests, though owners and waits differ."""
    topic = context.topic("shards-order", PARTITIONS)
    for _ in range(8):
        with Connection(context.broker.port) as connection:
            expected = []
            for n in range(100):
                partition = n % PARTITIONS
                if n % 7 == 3:
                    # A long poll at the end of an empty read must hold back what follows it.
                    want = FetchFrom(topic, partition, 0, wait_ms=20, bytes_min=1 << 20)
                    expected.append((connection.send(FETCH, 11, raw.fetch_body(want)), FETCH))
                else:
                    body = raw.produce_body(
                        topic, partition, raw.batch([(None, b"%d" % n)], now_ms())
                    )
                    expected.append((connection.send(PRODUCE, 7, body), PRODUCE))
            last = dict.fromkeys(range(PARTITIONS), -1)
            for n, (correlation, kind) in enumerate(expected):
                got, answer = connection.receive()
                expect_equal("correlation id", got, correlation)
                if kind == PRODUCE:
                    produced = raw.parse_produced(answer)
                    expect_equal("error", produced.error, 0)
                    grows = produced.base_offset > last[n % PARTITIONS]
                    expect(grows, f"request {n} got offset {produced.base_offset} after {last}")
                    last[n % PARTITIONS] = produced.base_offset


def copies(context: Context) -> str:
    """The owning core copies no record byte: hot right after the write, cold after a restart."""
    context.only_corelog("metrics of ours")
    topic = context.topic("shards-copies", segment_bytes=str(256 << 20))
    batch = raw.batch([(None, os.urandom(1_000_000))], now_ms())
    plain, count = raw.without_offset(batch), 1_100 if context.full else 130
    begin = context.broker.metrics()
    expect(COPIED in begin, f"{COPIED} is not among the metrics")
    with Connection(context.broker.port) as connection:
        for n in range(count):
            expect_equal("produced", connection.produce(topic, 0, batch), raw.Produced(0, n))
            got = connection.fetch(FetchFrom(topic, 0, n))
            expect(raw.without_offset(got.records) == plain, f"hot: other bytes at offset {n}")
    metrics, total = context.broker.metrics(), count * len(batch)
    # Without this a counter that nobody advances would pass.
    fetched = metrics[FETCHED] - begin[FETCHED]
    expect(fetched >= total, f"{FETCHED} grew by {fetched:.0f} of {total}")
    expect_equal("copied bytes, hot", metrics[COPIED] - begin[COPIED], 0)
    expect_equal("exit code", context.broker.terminate(), 0)
    context.broker.start()
    with Connection(context.broker.port) as connection:
        offset = 0
        while offset < count:
            got = connection.fetch(FetchFrom(topic, 0, offset))
            found = list(raw.batches(got.records))
            expect(bool(found), f"cold: no batch at offset {offset}, error {got.error}")
            for b in found:
                expect_equal("cold offset", b.base_offset, offset)
                same = raw.without_offset(got.records[b.position : b.position + b.size]) == plain
                expect(same, f"cold: other bytes at offset {offset}")
                offset += 1
    metrics = context.broker.metrics()
    expect(metrics[FETCHED] >= total, f"{FETCHED} is {metrics[FETCHED]:.0f} of {total}")
    expect_equal("copied bytes, cold", metrics[COPIED], 0)
    return f"{total / 1e9:.2f} GB hot and cold"


def pipelined_far_partition(context: Context) -> None:
    """More than 64 requests in a row for one partition: a connection may move, no answer may."""
    topic = context.topic("shards-move", PARTITIONS)
    for partition in range(PARTITIONS):
        with Connection(context.broker.port) as connection:
            records = raw.batch([(None, b"value")], now_ms())
            body = raw.produce_body(topic, partition, records)
            sent = [connection.send(PRODUCE, 7, body) for _ in range(300)]
            answers = [connection.receive() for _ in sent]
            expect_equal("correlation ids", [correlation for correlation, _ in answers], sent)
            offsets = [raw.parse_produced(answer).base_offset for _, answer in answers]
            expect_equal("offsets", offsets, list(range(300)))


CHECKS: dict[str, Check] = {
    "shards-produce": produce_anywhere,
    "shards-fetch": fetch_anywhere,
    "shards-order": order_over_cores,
    "shards-move": pipelined_far_partition,
    "shards-copies": copies,
}
