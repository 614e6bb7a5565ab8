"""The many partitions run: what 10,000 partitions cost one node that may open 4,096 files.

    many_partitions_run.py [--corelog PATH] [--partitions 10000] [--topics 10] [--open-files 4096]
                           [--set KEY=VALUE]...

Creates the partitions, kills the node while all of them are empty, writes to every one of them, kills it
again, stops it in order, and prints a line a figure: how long the creation took, how long each start took
from exec to `ready`, how much memory was resident, how many files were open, how many lines a start
logged. After each start every partition's log end is what was acknowledged, and a sample is read back.

Bounds are for 10,000 partitions and scaled with --partitions, above a floor for what a start costs without
any: creation 30 s, start after a clean stop 2 s, after kill -9 5 s, 400 MB. They are for a machine that does
nothing else: what is beside it needs a higher floor (--seconds-floor, --p99-floor-ms). A start logs a bounded
number of lines, whatever the number of partitions: nobody reads 10,000.
"""

import argparse
import multiprocessing
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from harness import clients, raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.report import Report, expect, expect_equal
from harness.scratch import scratch_directory

PARTITIONS_FULL = 10_000
OPEN_FILES_MAX = 4_096
# For PARTITIONS_FULL.
CREATE_SECONDS_MAX = 30.0
CLEAN_START_SECONDS_MAX = 2.0
KILLED_START_SECONDS_MAX = 5.0
RESIDENT_BYTES_MAX = 400_000_000
# What a start, or an idle node, may cost without a partition, on a machine that has other work too.
SECONDS_FLOOR = 2.0
RESIDENT_BYTES_FLOOR = 150_000_000
LINES_MAX = 100
# Partitions that are read back, and how many lists of offsets one request asks for.
SAMPLE = 200
ANSWER_SECONDS_MAX = 120
# Clients that ask for every topic each second, and how long (P68).
ASKERS = 50
ASK_SECONDS = 4.0
ALL_TOPICS = struct.pack(">i", -1)
# In a Metadata answer: error, index, leader, one replica, one in sync.
PARTITION_ANSWER_BYTES = 26
# A producer may notice them so much: this many times its 99th percentile without them, above a floor for a busy machine.
NOTICED_TIMES_MAX = 3.0
NOTICED_SECONDS_FLOOR = 0.05


# Whole answers, and what went wrong.
Asked = tuple[int, list[str]]


@dataclass
class World:
    """The node under test and what it acknowledged."""

    broker: Broker
    topics: list[str]
    partitions_per_topic: int
    records_per_partition: int
    scale: float
    open_files_max: int
    noticed_floor: float
    seconds_floor: float
    # Log end by (topic, partition), as acknowledged.
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    # Partitions that hold other records as well.
    alien: set[tuple[str, int]] = field(default_factory=set)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every partition."""
        return [TopicPartition(t, p) for t in self.topics for p in range(self.partitions_per_topic)]

    def seconds_max(self, bound: float) -> float:
        """The bound in seconds for this number of partitions."""
        return max(bound * self.scale, self.seconds_floor)

    def admin(self) -> AdminClient:
        """A client that waits: the figure is how long an answer takes, not that it is late."""
        milliseconds = 1000 * ANSWER_SECONDS_MAX
        settings = {"bootstrap.servers": self.broker.bootstrap, "socket.timeout.ms": milliseconds}
        return AdminClient({**settings, **clients.QUIET})

    def create(self) -> str:
        """Creates the topics, one after the other."""
        self.ends = dict.fromkeys(((tp.topic, tp.partition) for tp in self.partitions), 0)
        begin = time.monotonic()
        client = self.admin()
        for topic in self.topics:
            new = NewTopic(topic, num_partitions=self.partitions_per_topic)
            made = client.create_topics([new], request_timeout=ANSWER_SECONDS_MAX)
            made[topic].result(ANSWER_SECONDS_MAX)
        seconds = time.monotonic() - begin
        return within(("seconds", seconds, self.seconds_max(CREATE_SECONDS_MAX)))

    def write(self) -> str:
        """Writes the same number of records to every partition."""
        begin = time.monotonic()
        acks = self.produce(self.partitions)
        for message in acks:
            self.ends[clients_place(message)] += 1
        count = len(self.partitions) * self.records_per_partition
        expect_equal("acknowledged", len(acks), count)
        return f"records={count} seconds={time.monotonic() - begin:.1f}"

    def produce(self, partitions: list[TopicPartition]) -> list[Message]:
        """Writes to the partitions; every record must be acknowledged."""
        acks: list[Message] = []
        errors: list[str] = []

        def reported(error: object, message: Message) -> None:
            if error is None:
                acks.append(message)
            else:
                errors.append(str(error))

        producer = clients.producer(
            self.broker.bootstrap, linger_ms=50, message_timeout_ms=1000 * ANSWER_SECONDS_MAX
        )
        for number in range(self.records_per_partition):
            for place in partitions:
                value = f"{place.topic}-{place.partition}-{number}".encode()
                while True:
                    try:
                        producer.produce(
                            place.topic, value, partition=place.partition, on_delivery=reported
                        )
                        break
                    except BufferError:
                        producer.poll(0.05)
                producer.poll(0)
        left = producer.flush(ANSWER_SECONDS_MAX)
        expect(not errors and not left, f"{left} left, {len(errors)} failed: {errors[:1]}")
        return acks

    def start(self, bound: float) -> str:
        """Starts the node; says how long it took and how much it said."""
        seconds = self.broker.start()
        cpu_seconds = self.broker.cpu_seconds()
        figures = within(
            ("seconds", seconds, self.seconds_max(bound)),
            ("log_lines", self.broker.line_count, LINES_MAX),
        )
        return f"{figures} cpu_seconds={cpu_seconds:.2f}"

    def ends_are_acknowledged(self) -> str:
        """Every partition is there and ends where the acknowledgements say."""
        client = self.admin()
        asked: dict[TopicPartition, Future] = {}
        for topic in self.topics:
            of_topic = [tp for tp in self.partitions if tp.topic == topic]
            asked |= client.list_offsets(
                {tp: OffsetSpec.latest() for tp in of_topic}, request_timeout=ANSWER_SECONDS_MAX
            )
        found = {(tp.topic, tp.partition): f.result().offset for tp, f in asked.items()}
        wrong = {place: end for place, end in found.items() if end != self.ends[place]}
        expect(len(found) == len(self.ends), f"{len(found)} of {len(self.ends)} partitions")
        expect(not wrong, f"{len(wrong)} partitions end elsewhere: {dict(list(wrong.items())[:3])}")
        return f"partitions={len(found)}"

    def sample_reads_back(self) -> str:
        """A sample of the partitions holds what was written, in order."""
        step = max(1, len(self.partitions) // SAMPLE)
        sample = [TopicPartition(tp.topic, tp.partition, 0) for tp in self.partitions[::step]]
        held: dict[tuple[str, int], list[bytes]] = {}
        for message in clients.read_to_end(self.broker.bootstrap, sample):
            held.setdefault(clients_place(message), []).append(clients.value_of(message))
        for tp in sample:
            if (tp.topic, tp.partition) in self.alien:
                continue
            rounds = self.ends[tp.topic, tp.partition] // self.records_per_partition
            numbers = list(range(self.records_per_partition)) * rounds
            expected = [f"{tp.topic}-{tp.partition}-{number}".encode() for number in numbers]
            found = held.get((tp.topic, tp.partition), [])
            expect_equal(f"{tp.topic}-{tp.partition}", found, expected)
        return f"partitions={len(sample)}"

    def producers_do_not_notice_metadata_of_all(self) -> str:
        """P68: clients that ask for all topics again and again delay nobody's records."""
        alone, _ = self.produce_latency(ASK_SECONDS)
        answers = multiprocessing.Queue()
        asking = multiprocessing.Process(
            target=ask_for_all, args=(self.broker.port, len(self.ends), answers), daemon=True
        )
        asking.start()
        among, count = self.produce_latency(ASK_SECONDS)
        answered, errors = answers.get(timeout=ANSWER_SECONDS_MAX)
        asking.join()
        expect(not errors, f"{len(errors)} of {ASKERS} clients were let down: {errors[:3]}")
        expect(answered >= ASKERS, f"{answered} whole answers to {ASKERS} clients")
        bound = max(NOTICED_TIMES_MAX * alone, self.noticed_floor)
        figures = within(("p99_ms", 1000 * among, 1000 * bound))
        return f"{figures} alone={1000 * alone:.1f} records={count} answers={answered}"

    def produce_latency(self, seconds: float) -> tuple[float, int]:
        """The 99th percentile of one record at a time, and how many there were."""
        topic = self.topics[0]
        value = f"{topic}-0-0".encode()
        records = raw.batch([(None, value)], 1)
        taken: list[float] = []
        end = time.monotonic() + seconds
        with raw.Connection(self.broker.port) as connection:
            while (begin := time.monotonic()) < end:
                expect_equal("error", connection.produce(topic, 0, records).error, raw.NONE)
                taken.append(time.monotonic() - begin)
                time.sleep(0.005)
        self.ends[topic, 0] += len(taken)
        self.alien.add((topic, 0))
        return sorted(taken)[len(taken) * 99 // 100], len(taken)

    def footprint(self) -> str:
        """What the process holds now."""
        bound = max(RESIDENT_BYTES_MAX * self.scale, RESIDENT_BYTES_FLOOR)
        files = len(list(Path(f"/proc/{self.broker.pid}/fd").iterdir()))
        return within(
            ("resident_mb", self.broker.rss_bytes() / 1e6, bound / 1e6),
            ("open_files", files, self.open_files_max),
        )


def ask_for_all(port: int, partitions: int, answers: "multiprocessing.Queue[Asked]") -> None:
    """In a process of its own: many clients, each asks for every topic once a second."""
    counts = [0] * ASKERS
    errors: list[str] = []
    end = time.monotonic() + ASK_SECONDS

    def ask(number: int) -> None:
        time.sleep(number / ASKERS)
        with raw.Connection(port) as connection:
            while (begin := time.monotonic()) < end:
                answer = connection.call(raw.METADATA, 1, ALL_TOPICS)
                counts[number] += len(answer) >= partitions * PARTITION_ANSWER_BYTES
                time.sleep(max(0.0, begin + 1.0 - time.monotonic()))

    def asker(number: int) -> None:
        try:
            ask(number)
        except Exception as error:  # A client that is let down must not look like one that asks less.
            errors.append(repr(error))

    threads = [threading.Thread(target=asker, args=(number,)) for number in range(ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((sum(counts), errors))


def clients_place(message: Message) -> tuple[str, int]:
    """A record's topic and partition."""
    return (message.topic() or "", clients.place_of(message)[0])


def within(*figures: tuple[str, float, float]) -> str:
    """Figures as text, each with its bound; one that is broken fails the check, and all of them are shown."""
    shown = [f"{what}={found:.2f}".removesuffix(".00") for what, found, _ in figures]
    bounds = [f"(bound {bound:g})" for _, _, bound in figures]
    text = " ".join(f"{figure} {bound}" for figure, bound in zip(shown, bounds, strict=True))
    broken = [what for what, found, bound in figures if found > bound]
    expect(not broken, f"{text}: {', '.join(broken)} above the bound")
    return text


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--partitions", type=int, default=PARTITIONS_FULL)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--open-files", type=int, default=OPEN_FILES_MAX, help="nofile of the node")
    parser.add_argument("--records", type=int, default=3, help="written to each partition")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument(
        "--p99-floor-ms",
        type=float,
        default=1000 * NOTICED_SECONDS_FLOOR,
        help="a producer's p99 below it is never too slow: more on a machine that has other work",
    )
    parser.add_argument(
        "--seconds-floor",
        type=float,
        default=SECONDS_FLOOR,
        help="what takes less is never too slow: more on a machine that has other work",
    )
    parser.add_argument("--keep", type=Path, help="use this directory, and leave it behind")
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    limited = ("prlimit", f"--nofile={options.open_files}:{options.open_files}")
    binary = options.corelog or target_binary("corelog")
    launch = Launch("corelog", binary, options.shards, settings_of(options), prefix=limited)
    if options.keep:
        run(report, launch, options, options.keep)
    else:
        with scratch_directory("many-partitions-", report) as scratch:
            run(report, launch, options, scratch)
    return report.close()


def run(report: Report, launch: Launch, options: argparse.Namespace, scratch: Path) -> None:
    """The whole run. A step that breaks its bound does not end it: the figures of the others are worth having."""
    broker = Broker(launch, scratch / "data")
    each = options.partitions // options.topics
    scale = options.partitions / PARTITIONS_FULL
    topics = [f"many-{number}" for number in range(options.topics)]
    floor = options.p99_floor_ms / 1000
    world = World(
        broker,
        topics,
        each,
        options.records,
        scale,
        options.open_files,
        noticed_floor=floor,
        seconds_floor=options.seconds_floor,
    )

    def killed() -> str:
        broker.kill()
        return world.start(KILLED_START_SECONDS_MAX)

    def stopped() -> str:
        begin = time.monotonic()
        expect_equal("exit code", broker.terminate(), 0)
        seconds = time.monotonic() - begin
        return f"{world.start(CLEAN_START_SECONDS_MAX)} stop_seconds={seconds:.2f}"

    def steps(name: str, *checks: Callable[[], str]) -> None:
        for check in checks:
            report.run(f"many/{name}/{check.__name__.replace('_', '-')}", check)

    try:
        broker.start()
        report.run("many/create", world.create)
        steps("created", world.footprint, world.ends_are_acknowledged)
        steps("empty", killed, world.ends_are_acknowledged)
        steps("empty", stopped, world.ends_are_acknowledged)
        report.run("many/write", world.write)
        steps("written", world.footprint)
        steps("written", killed, world.ends_are_acknowledged, world.footprint)
        # Two restarts, not one: what recovery itself wrote is read by the next start.
        steps("killed-again", killed, world.ends_are_acknowledged, world.sample_reads_back)
        steps("asked", world.producers_do_not_notice_metadata_of_all)
        report.run("many/write-again", world.write)
        steps("written-again", stopped, world.ends_are_acknowledged, world.sample_reads_back)
        steps("stopped-again", stopped, world.footprint)
    finally:
        broker.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
