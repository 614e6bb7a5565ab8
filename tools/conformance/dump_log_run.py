"""The files run: Kafka's own dump-log judges every file that a broker leaves behind.

    dump_log_run.py [--corelog PATH | --kafka] [--records 1000000] [--shards 2]
                    [--set KEY=VALUE]...

Mixed records (every codec, keys, headers, nulls, idempotent and not, 10 MB ones) go into several
topics with small segments. Then, each step a line:

    after SIGTERM, and after kill -9 + start + SIGTERM: every .log, .index, .timeindex and
    .snapshot is whole, and the counts are those acknowledged; `corelog log verify` agrees;
    a bit flipped in a sealed segment: exactly that batch is refused (error 2), the rest is served;
    every index deleted, zeroed, filled with noise: answers stay right, and the files are rebuilt.
"""

import argparse
import base64
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from harness import clients, raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.clients import CODECS, Delivery
from harness.dump_judge import judge_indexes, judge_logs, judge_snapshots
from harness.kafka_tools import run, run_any
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.raw import Connection, FetchFrom
from harness.report import Report, Skipped, expect, expect_equal
from harness.scratch import scratch_directory

PARTITIONS = 2
SEGMENT_BYTES = 1 << 20  # The smallest that Kafka allows since 4.0.
SEGMENTS_MIN = 3
LARGE_RECORDS = 4
LARGE_BYTES = 10_000_000
# The number. Fewer records get larger values, so that SEGMENTS_MIN segments are filled too.
RECORDS_FULL = 1_000_000
# The exit code of `corelog log verify` that says "damage", and not "no such directory".
VERIFY_DAMAGED = 5
INDEX_KINDS = ("*.index", "*.timeindex")


@dataclass
class World:
    """The broker, what was acknowledged per (topic, partition), and the randomness."""

    broker: Broker
    value_scale: int
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(5))

    @property
    def record_count(self) -> int:
        """All acknowledged records."""
        return sum(self.counts.values())

    def directory(self, topic: str, partition: int) -> Path:
        """A partition's directory."""
        return self.broker.topics_dir / f"{topic}-{partition}"

    def files(self, *patterns: str) -> list[Path]:
        """Files of the test's topics (the reference keeps topics of its own beside them)."""
        return sorted(
            path
            for topic, partition in self.counts
            for pattern in patterns
            for path in self.directory(topic, partition).glob(pattern)
        )


def mixed_topics() -> list[tuple[str, str, bool]]:
    """(topic, codec, idempotent) of the mix."""
    return [(f"{c}-{'idem' if i else 'plain'}", c, i) for c in CODECS for i in (False, True)]


def create_topics(world: World) -> None:
    """The mix, and one topic for 10 MB records."""
    for topic, _, _ in mixed_topics():
        config = {"segment.bytes": str(SEGMENT_BYTES)}
        clients.create_topic(world.broker.bootstrap, topic, PARTITIONS, config)
    config = {"segment.bytes": str(12 << 20), "max.message.bytes": "11000000"}
    clients.create_topic(world.broker.bootstrap, "large", 1, config)


def produce_mix(world: World, records: int) -> None:
    """`records` over all topics and partitions; counts what was acknowledged."""
    # Base64 of noise: it compresses a little, so that every codec is worth its while.
    pool = base64.b64encode(os.urandom(1 << 20))
    share = records // len(mixed_topics())
    for topic, codec, idempotent in mixed_topics():
        client = clients.producer(
            world.broker.bootstrap,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
            batch_num_messages=1_000,
        )
        delivery = Counted()
        for n in range(share):
            value_bytes = (60 + n % 100) * world.value_scale
            start = world.rng.randrange(len(pool) - value_bytes)
            value = None if n % 53 == 0 else pool[start : start + value_bytes]
            key = b"key-%d" % (n % 997) if n % 3 else None
            optional: dict[str, Any] = (
                {"headers": [("n", b"%d" % n), ("null", None)]} if n % 10 == 0 else {}
            )
            while True:
                try:
                    client.produce(
                        topic, value, key, n % PARTITIONS, on_delivery=delivery, **optional
                    )
                    break
                except BufferError:
                    client.poll(0.02)
            if n % 500 == 0:
                client.poll(0)
        delivery.finish(client, share)
        for partition in range(PARTITIONS):
            size = share // PARTITIONS + (partition < share % PARTITIONS)
            world.counts[topic, partition] = world.counts.get((topic, partition), 0) + size


class Counted(Delivery):
    """Counts deliveries and keeps no values: a million of them would cost more than the run."""

    def __call__(self, error: object, message: object) -> None:
        if error is not None:
            self.error = self.error or error  # type: ignore[assignment]
        else:
            self.count += 1


def produce_large(world: World) -> None:
    """10 MB records, plain and compressed by turns."""
    for n in range(LARGE_RECORDS):
        codec = CODECS[n % len(CODECS)]
        client = clients.producer(
            world.broker.bootstrap, compression_type=codec, message_max_bytes=12_000_000
        )
        delivery = Counted()
        client.produce("large", os.urandom(LARGE_BYTES), on_delivery=delivery)
        delivery.finish(client, 1)
    world.counts["large", 0] = world.counts.get(("large", 0), 0) + LARGE_RECORDS


def fill(world: World, records: int) -> str:
    """Creates and fills the topics; every partition gets several segments."""
    create_topics(world)
    produce_mix(world, records)
    produce_large(world)
    for topic, partition in world.counts:
        segments = len(list(world.directory(topic, partition).glob("*.log")))
        enough = segments >= SEGMENTS_MIN
        expect(enough, f"{topic}-{partition} has {segments} segments, {SEGMENTS_MIN} wanted")
    return f"{world.record_count} records, {len(world.counts)} partitions"


def stop_cleanly(world: World) -> None:
    """SIGTERM, and the exit code that says it was clean."""
    expected = 0 if world.broker.launch.is_corelog else 143
    expect_equal("exit code", world.broker.terminate(), expected)


def judge_files(world: World) -> str:
    """Everything Kafka's tool can read, read; counts as acknowledged."""
    logs = world.files("*.log")
    judged = judge_logs(logs)
    expect_equal("records in the files", judged.record_count, world.record_count)
    # A codec's topic holds that codec, or a small last batch that it could not shrink.
    for topic, codec, _ in mixed_topics():
        found = {
            name
            for file in world.files("*.log")
            if file.parent.name.startswith(f"{topic}-")
            for name in judged.codecs[file]
        }
        expect(codec in found and found <= {codec, "none"}, f"{topic} holds {found}")
    indexes = judge_indexes(world.files(*INDEX_KINDS))
    snapshots = judge_snapshots(world.files("*.snapshot"))
    expect(indexes >= 2 * len(logs), f"{indexes} indexes for {len(logs)} segments")
    expect(snapshots > 0, "no producer snapshot")
    return (
        f"{judged.record_count} records, {judged.batch_count} batches, {len(logs)} segments, "
        f"{indexes} indexes, {snapshots} snapshots"
    )


def crash(world: World, records: int) -> str:
    """Start, more records, kill -9, start, SIGTERM."""
    world.broker.start()
    produce_mix(world, records)
    world.broker.kill()
    seconds = world.broker.start()
    stop_cleanly(world)
    return f"{records} more records; ready {1000 * seconds:.0f} ms after the kill"


def verify(world: World, wrong: bool) -> str:
    """`corelog log verify` on the stopped directory; returns what it said."""
    if not world.broker.launch.is_corelog:
        raise Skipped("our own tool")
    command = [str(world.broker.launch.binary), "log", "verify", str(world.broker.data_dir)]
    if not wrong:
        return run(command, seconds=300).strip().splitlines()[-1]
    done = run_any(command, seconds=300)
    expect_equal("log verify's exit code for damage", done.returncode, VERIFY_DAMAGED)
    return (done.stdout + done.stderr).decode(errors="replace")


@dataclass(frozen=True)
class Damage:
    """One batch to damage: its file, and where it lies."""

    file: Path
    batch: raw.BatchAt

    def flip(self) -> None:
        """Flips one bit of the batch's records; a second call mends it."""
        position = self.batch.position + raw.BATCH_HEADER_BYTES + self.batch.size // 3
        with self.file.open("r+b") as handle:
            handle.seek(position)
            byte = handle.read(1)[0]
            handle.seek(position)
            handle.write(bytes([byte ^ 0x10]))


def flip_bit(world: World) -> str:
    """A flipped bit in a sealed segment: that batch is refused, everything else is served."""
    if not world.broker.launch.is_corelog:
        raise Skipped("Kafka sends stored bytes unchecked")
    topic, partition = "none-plain", 0
    file = sorted(world.directory(topic, partition).glob("*.log"))[1]
    batches = list(raw.batches(file.read_bytes()))
    damage = Damage(file, batches[len(batches) // 2])
    batch = damage.batch
    damage.flip()
    said = verify(world, wrong=True)
    reports = [line for line in said.splitlines() if file.name in line]
    expect(len(reports) == 1, f"log verify names {file.name} in {len(reports)} lines: {said[:600]}")
    expect(str(batch.position) in reports[0], f"not byte {batch.position}: {reports[0]}")
    world.broker.start()
    served = refused = 0
    with Connection(world.broker.port) as connection:
        for inside in (batch.base_offset, batch.last_offset):
            got = connection.fetch(FetchFrom(topic, partition, inside))
            expect_equal(f"fetch at {inside}: error, records", (got.error, got.records), (2, b""))
        offset, end = 0, world.counts[topic, partition]
        while offset < end:
            got = connection.fetch(FetchFrom(topic, partition, offset))
            if got.error == raw.CORRUPT_MESSAGE:
                expect_equal("refused at", offset, batch.base_offset)
                offset, refused = batch.last_offset + 1, refused + batch.count
                continue
            expect_equal(f"fetch at {offset}", got.error, 0)
            found = list(raw.batches(got.records))
            expect(bool(found), f"nothing at offset {offset}")
            for one in found:
                expect_equal("next offset", one.base_offset, offset)
                expect(one.base_offset != batch.base_offset, "the damaged batch was served")
                offset, served = one.last_offset + 1, served + one.count
    expect_equal("served and refused", (served + refused, refused), (end, batch.count))
    stop_cleanly(world)
    damage.flip()
    return f"{refused} records of one batch refused, {served} served"


def break_indexes(world: World, name: str) -> str:
    """Every index and time index broken one way; reads by offset and by time stay right."""
    ours = world.broker.launch.is_corelog
    if not ours and name != "deleted":
        raise Skipped("Kafka trusts the content of an index after a clean stop")
    files = world.files(*INDEX_KINDS)
    for file in files:
        if name == "deleted":
            file.unlink()
        elif name == "zeroed":
            file.write_bytes(bytes(max(file.stat().st_size, 16)))
        else:
            file.write_bytes(os.urandom(max(file.stat().st_size, 24)))
    world.broker.start()
    probes = sum(probe_partition(world, topic, partition) for topic, partition in world.counts)
    stop_cleanly(world)
    judge_indexes(world.files(*INDEX_KINDS))
    expect_equal("index files", len(world.files(*INDEX_KINDS)), len(files))
    return f"{len(files)} files; {probes} reads by offset and time"


def probe_partition(world: World, topic: str, partition: int) -> int:
    """Reads in the middle of every segment by offset and by time, against the segment files."""
    probes = 0
    reader = clients.consumer(world.broker.bootstrap)
    stamps = first_stamps(world, topic, partition)
    with Connection(world.broker.port) as connection:
        for file in sorted(world.directory(topic, partition).glob("*.log")):
            batches = list(raw.batches(file.read_bytes()))
            if not batches:
                continue
            for batch in {batches[len(batches) // 2], batches[-1]}:
                got = connection.fetch(FetchFrom(topic, partition, batch.last_offset, 12 << 20))
                first = next(iter(raw.batches(got.records)), None)
                found = first.base_offset if first else f"error {got.error}"
                expect_equal(
                    f"{topic}-{partition} at {batch.last_offset}", found, batch.base_offset
                )
                stamp = stamps[batch.base_offset]
                wanted = TopicPartition(topic, partition, stamp)
                answer = reader.offsets_for_times([wanted], timeout=20)[0].offset
                # The first batch that reaches this time holds the answer.
                best = min(base for base, largest in stamps.items() if largest >= stamp)
                inside = best <= answer <= batch.last_offset
                expect(
                    inside, f"{topic}-{partition} at time {stamp}: offset {answer}, not ≥ {best}"
                )
                probes += 2
    reader.close()
    return probes


def first_stamps(world: World, topic: str, partition: int) -> dict[int, int]:
    """Base offset → largest timestamp, of every batch of a partition."""
    stamps = {}
    for file in sorted(world.directory(topic, partition).glob("*.log")):
        data = file.read_bytes()
        for batch in raw.batches(data):
            stamps[batch.base_offset] = raw.BATCH_HEADER.unpack_from(data, batch.position)[8]
    return stamps


def main() -> int:
    """Runs all steps in order; a later step needs the files of the earlier ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    add_binary(which)
    which.add_argument("--kafka", action="store_true", help="run against the reference broker")
    parser.add_argument("--records", type=int, default=RECORDS_FULL)
    parser.add_argument("--shards", type=int, default=2)
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    kind = "kafka" if options.kafka else "corelog"
    binary = options.corelog or target_binary("corelog")
    launch = Launch(kind, binary, options.shards, settings_of(options))
    with scratch_directory("dump-log-run-", report) as scratch:
        broker = Broker(launch, scratch / "data")
        world = World(broker, max(1, RECORDS_FULL // options.records))
        more = options.records // 20
        steps = {
            "start": lambda: f"ready after {1000 * broker.start():.0f} ms",
            "fill": lambda: fill(world, options.records),
            "stop": lambda: stop_cleanly(world),
            "files-after-stop": lambda: judge_files(world),
            "verify-after-stop": lambda: verify(world, wrong=False),
            "crash": lambda: crash(world, more),
            "files-after-crash": lambda: judge_files(world),
            "verify-after-crash": lambda: verify(world, wrong=False),
            "bit-flip": lambda: flip_bit(world),
            "indexes-deleted": lambda: break_indexes(world, "deleted"),
            "indexes-zeroed": lambda: break_indexes(world, "zeroed"),
            "indexes-random": lambda: break_indexes(world, "random"),
        }
        try:
            for name, step in steps.items():
                if not report.run(f"files/{name}", step) and name in ("start", "fill", "stop"):
                    break
        finally:
            broker.close()
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
