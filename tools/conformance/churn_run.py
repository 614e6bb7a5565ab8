"""The churn run: do a model and the node agree after every kill, while topics come, change and go?

    churn_run.py [--corelog PATH] [--seed N] [--kills 20] [--shards 2] [--set KEY=VALUE]...
    churn_run.py --self-test

    churn/self-test The comparison sees what was changed on purpose, and a client that a living node
                    drops is told from one that the kill cut off.
    churn/kills     Three clients, each with topics of its own, create, delete, re-create, grow,
                    alter, trim and fill them at random. The node is killed with SIGKILL amid their
                    requests, again and again. After every restart the node's names, topic ids,
                    partitions, configurations, log starts and records are those of the model. A
                    request that was under way has been carried out as a whole, or not at all.
    churn/shards    The same directory with other numbers of cores, 1, 2 and 1: every byte of every
                    file stays where it is, every record is served, and records are taken.

The seed fixes what each client asks for; where a kill falls is up to the machine. There is no
`--kafka`: Kafka makes log starts lasting once a minute, and answers before a topic's files exist.
"""

import argparse
import dataclasses
import hashlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from differential.schema import Fields
from differential.side import ZERO_ID, Side
from harness import raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.report import CheckFailed, Report, expect, expect_equal
from harness.scratch import scratch_directory
from harness.topic_model import (
    PartitionModel,
    TopicModel,
    differences,
    digest_of,
    stored_in,
)
from harness.topic_model import self_test as model_self_test
from harness.waiting import wait_while

CLIENTS = 3
TOPICS_A_CLIENT = 5
PARTITIONS_MAX = 4
RECORDS_A_BATCH_MAX = 5
SMALL_BYTES_MAX, LARGE_BYTES = 300, 120_000
# Answers between two kills: each kill falls into another state of affairs.
ANSWERS_BETWEEN_KILLS = (10, 60)
ROUND_SECONDS_MAX = 60.0
SWEEP_SECONDS_MAX = 20.0
TIMEOUT_MS = 30_000
EARLIEST, LATEST = -2, -1
OF_TOPIC = 2  # ConfigResource.Type
DYNAMIC_TOPIC_CONFIG = 1
SET, DELETE = 0, 1
# Values that change no record and let none go.
CONFIGS = {
    "segment.bytes": ("1048576", "2097152"),
    "segment.ms": ("3600000", "86400000"),
    "retention.ms": ("-1", "86400000", "604800000"),
    "retention.bytes": ("-1", "10737418240"),
    "max.message.bytes": ("1000000", "2000000"),
    "index.interval.bytes": ("1024", "4096"),
    "file.delete.delay.ms": ("1000", "60000"),
    "flush.messages": ("1", "1000"),
}
GONE = (raw.Closed, ConnectionError, TimeoutError)


def expect_done(what: str, error: int) -> None:
    """Every request of these clients is one that must succeed."""
    expect_equal(f"error of {what}", error, 0)


@dataclass
class Operation:
    """One request: how it is sent, and what the topic is once it has been carried out."""

    what: str
    topic: str
    after: TopicModel | None
    send: Callable[[Side], None]


@dataclass
class Churner:
    """One client: its topics as the node must hold them, and what it asks for next."""

    number: int
    choice: random.Random
    topics: dict[str, TopicModel] = field(default_factory=dict)
    ids_seen: set[str] = field(default_factory=set)
    # What was sent and not answered: done or not done.
    pending: Operation | None = None
    counts: dict[str, int] = field(default_factory=dict)
    answered: int = 0
    error: BaseException | None = None

    @property
    def names(self) -> list[str]:
        """The names that it uses, again and again."""
        return [f"churn-{self.number}-{n}" for n in range(TOPICS_A_CLIENT)]

    def apply(self, operation: Operation) -> None:
        """The operation has been carried out."""
        if operation.after is None:
            del self.topics[operation.topic]
        else:
            self.topics[operation.topic] = operation.after
            if operation.after.topic_id is not None:
                self.ids_seen.add(operation.after.topic_id)
        self.counts[operation.what] = self.counts.get(operation.what, 0) + 1

    def next(self) -> Operation:
        """What it asks for now."""
        free = [name for name in self.names if name not in self.topics]
        if not self.topics or (free and self.choice.random() < 0.15):
            return self.create(self.choice.choice(free))
        topic = self.topics[self.choice.choice(sorted(self.topics))]
        makers = [self.produce, self.trim, self.alter, self.replace, self.grow, self.delete]
        (make,) = self.choice.choices(makers, weights=(60, 15, 8, 4, 4, 9))
        return make(topic)

    def some_configs(self) -> dict[str, str]:
        """Up to three configurations."""
        names = self.choice.sample(sorted(CONFIGS), self.choice.randint(0, 3))
        return {name: self.choice.choice(CONFIGS[name]) for name in names}

    def create(self, name: str) -> Operation:
        """A topic that is not there now; it may have been."""
        count, configs = self.choice.randint(1, PARTITIONS_MAX), self.some_configs()
        after = TopicModel(name, None, [PartitionModel() for _ in range(count)], configs)
        listed = [{"Name": key, "Value": value} for key, value in configs.items()]
        topic = {"Name": name, "NumPartitions": count, "ReplicationFactor": 1, "Configs": listed}

        def send(side: Side) -> None:
            answer = side.call("CreateTopics", 7, {"Topics": [topic], "TimeoutMs": TIMEOUT_MS})
            (created,) = answer["Topics"]
            expect_done(f"creating {name}", created["ErrorCode"])
            expect(created["TopicId"] not in self.ids_seen, f"{name}: an id that was given before")
            after.topic_id = created["TopicId"]

        return Operation("create", name, after, send)

    def delete(self, topic: TopicModel) -> Operation:
        """By name or by id."""
        by_id = {"Name": None, "TopicId": topic.topic_id}
        by_name = {"Name": topic.name, "TopicId": ZERO_ID}
        body = {"Topics": [self.choice.choice([by_id, by_name])], "TimeoutMs": TIMEOUT_MS}

        def send(side: Side) -> None:
            (deleted,) = side.call("DeleteTopics", 6, body)["Responses"]
            expect_done(f"deleting {topic.name}", deleted["ErrorCode"])

        return Operation("delete", topic.name, None, send)

    def grow(self, topic: TopicModel) -> Operation:
        """More partitions, where there may be more."""
        if len(topic.partitions) >= PARTITIONS_MAX:
            return self.produce(topic)
        after = topic.copy()
        after.partitions.append(PartitionModel())
        wanted = {"Name": topic.name, "Count": len(after.partitions), "Assignments": None}

        def send(side: Side) -> None:
            body = {"Topics": [wanted], "TimeoutMs": TIMEOUT_MS}
            (grown,) = side.call("CreatePartitions", 3, body)["Results"]
            expect_done(f"growing {topic.name}", grown["ErrorCode"])

        return Operation("grow", topic.name, after, send)

    def alter(self, topic: TopicModel) -> Operation:
        """Sets some configurations and takes others away, together."""
        after, changes = topic.copy(), []
        for name, value in (self.some_configs() or {"retention.ms": "-1"}).items():
            if name in after.configs and self.choice.random() < 0.5:
                del after.configs[name]
                changes.append({"Name": name, "ConfigOperation": DELETE, "Value": None})
            else:
                after.configs[name] = value
                changes.append({"Name": name, "ConfigOperation": SET, "Value": value})
        return self.alteration("IncrementalAlterConfigs", 1, after, changes)

    def replace(self, topic: TopicModel) -> Operation:
        """All configurations by others."""
        after = topic.copy()
        after.configs = self.some_configs()
        listed: list[Fields] = [{"Name": name, "Value": v} for name, v in after.configs.items()]
        return self.alteration("AlterConfigs", 2, after, listed)

    @staticmethod
    def alteration(api: str, version: int, after: TopicModel, changes: list[Fields]) -> Operation:
        """A request that changes configurations."""
        resource = {"ResourceType": OF_TOPIC, "ResourceName": after.name, "Configs": changes}

        def send(side: Side) -> None:
            (altered,) = side.call(api, version, {"Resources": [resource]})["Responses"]
            expect_done(f"{api} of {after.name}", altered["ErrorCode"])

        return Operation("alter", after.name, after, send)

    def trim(self, topic: TopicModel) -> Operation:
        """Deletes records from the front of a partition."""
        after, index = topic.copy(), self.choice.randrange(len(topic.partitions))
        log = after.partitions[index]
        offset = self.choice.randint(log.log_start, log.end_offset)
        log.trim(offset)
        entry = {"PartitionIndex": index, "Offset": offset}
        wanted = {"Name": topic.name, "Partitions": [entry]}

        def send(side: Side) -> None:
            body = {"Topics": [wanted], "TimeoutMs": TIMEOUT_MS}
            (trimmed,) = side.call("DeleteRecords", 2, body)["Topics"][0]["Partitions"]
            expect_done(f"trimming {topic.name}-{index}", trimmed["ErrorCode"])
            expect_equal("low watermark", trimmed["LowWatermark"], log.log_start)

        return Operation("trim", topic.name, after, send)

    def produce(self, topic: TopicModel) -> Operation:
        """One batch to one partition."""
        index = self.choice.randrange(len(topic.partitions))
        is_large = self.choice.random() < 0.1
        count = 1 if is_large else self.choice.randint(1, RECORDS_A_BATCH_MAX)
        size = LARGE_BYTES if is_large else self.choice.randint(0, SMALL_BYTES_MAX)
        stamp = self.choice.randbytes(8)  # No two batches are equal.
        values: list[tuple[bytes | None, bytes | None]] = [(stamp, b"v" * size)] * count
        return production(topic, index, values)


def production(
    topic: TopicModel, index: int, values: list[tuple[bytes | None, bytes | None]]
) -> Operation:
    """A batch of these records for a partition."""
    records = raw.batch(values, int(1000 * time.time()))
    after = topic.copy()
    base_offset = after.partitions[index].end_offset
    after.partitions[index].append(digest_of(records), len(values))
    data = {"Name": topic.name, "PartitionData": [{"Index": index, "Records": records}]}

    def send(side: Side) -> None:
        body = {"Acks": -1, "TimeoutMs": TIMEOUT_MS, "TopicData": [data]}
        (stored,) = side.call("Produce", 9, body)["Responses"][0]["PartitionResponses"]
        expect_done(f"producing to {topic.name}-{index}", stored["ErrorCode"])
        expect_equal(f"offset in {topic.name}-{index}", stored["BaseOffset"], base_offset)

    return Operation("produce", topic.name, after, send)


def read_node(broker: Broker) -> dict[str, TopicModel]:
    """Every topic as the node tells it, its records included."""
    side = Side(broker)
    with closing(side), raw.Connection(broker.port) as connection:
        found = {}
        for told in side.call("Metadata", 12, {"Topics": None})["Topics"]:
            expect_done(f"metadata of {told['Name']}", told["ErrorCode"])
            errors = [one["ErrorCode"] for one in told["Partitions"] if one["ErrorCode"]]
            expect_equal(f"errors of partitions of {told['Name']}", errors, [])
            name, count = told["Name"], len(told["Partitions"])
            logs = [read_log(side, connection, name, index) for index in range(count)]
            found[name] = TopicModel(name, told["TopicId"], logs, read_configs(side, name))
        return found


def read_configs(side: Side, topic: str) -> dict[str, str]:
    """What the topic itself says."""
    resource = {"ResourceType": OF_TOPIC, "ResourceName": topic, "ConfigurationKeys": None}
    (described,) = side.call("DescribeConfigs", 4, {"Resources": [resource]})["Results"]
    expect_done(f"configs of {topic}", described["ErrorCode"])
    of_topic = (c for c in described["Configs"] if c["ConfigSource"] == DYNAMIC_TOPIC_CONFIG)
    return {config["Name"]: config["Value"] for config in of_topic}


def read_log(side: Side, connection: raw.Connection, topic: str, index: int) -> PartitionModel:
    """Both ends of a partition and every batch in between."""
    log = PartitionModel(*(offset_at(side, topic, index, at) for at in (EARLIEST, LATEST)))
    position = log.log_start
    while position < log.end_offset:
        fetched = connection.fetch(raw.FetchFrom(topic, index, position))
        expect_done(f"fetching {topic}-{index} at {position}", fetched.error)
        found = stored_in(fetched.records)
        expect(bool(found), f"{topic}-{index}: nothing at {position} of {log.end_offset}")
        log.batches += found
        position = found[-1].end_offset
    return log


def offset_at(side: Side, topic: str, index: int, timestamp: int) -> int:
    """An end of a partition."""
    entry = {"PartitionIndex": index, "Timestamp": timestamp}
    topics = [{"Name": topic, "Partitions": [entry]}]
    answer = side.call("ListOffsets", 7, {"ReplicaId": -1, "Topics": topics})
    (listed,) = answer["Topics"][0]["Partitions"]
    expect_done(f"offset {timestamp} of {topic}-{index}", listed["ErrorCode"])
    offset: int = listed["Offset"]
    return offset


@dataclass
class World:
    """A node and the clients that churn it."""

    broker: Broker
    churners: list[Churner]
    resolved: dict[str, int] = field(default_factory=lambda: {"done": 0, "not done": 0})
    # From here on a connection may end; before, only the node itself can have ended it.
    is_killed: threading.Event = field(default_factory=threading.Event)

    @property
    def answered(self) -> int:
        """Answers in all."""
        return sum(one.answered for one in self.churners)

    def verify(self) -> None:
        """Node and model agree; what was under way is from now on as it was found."""
        found = read_node(self.broker)
        known = {name for churner in self.churners for name in churner.names}
        expect_equal("topics of nobody", sorted(found.keys() - known), [])
        for churner in self.churners:
            for name in churner.names:
                self.verify_topic(churner, name, found.get(name))
            churner.pending = None
        self.verify_files(found)

    def verify_topic(self, churner: Churner, name: str, found: TopicModel | None) -> None:
        """One topic is as it must be, or as the unanswered request would have left it."""
        said = differences(churner.topics.get(name), found, churner.ids_seen)
        pending = churner.pending
        if pending is None or pending.topic != name:
            expect(not said, f"{name}: {'; '.join(said)}")
            return
        if not said:
            self.resolved["not done"] += 1
            return
        other = differences(pending.after, found, churner.ids_seen)
        both = f"without: {'; '.join(said)}; with: {'; '.join(other)}"
        expect(not other, f"{name}, {pending.what} unanswered: {both}")
        if pending.after is not None and found is not None:
            pending.after.topic_id = found.topic_id
        churner.apply(pending)
        self.resolved["done"] += 1

    def verify_files(self, found: dict[str, TopicModel]) -> None:
        """A directory for every partition there is, and no other."""
        wanted = {f"{t.name}-{n}" for t in found.values() for n in range(len(t.partitions))}
        there = {path.name for path in self.broker.topics_dir.iterdir()}
        expect_equal("directories of no partition", sorted(there - wanted), [])
        expect_equal("partitions without a directory", sorted(wanted - there), [])

    def churn_until_killed(self, answers: int, delay: float) -> None:
        """Lets the clients go, kills the node after so many answers, and waits for the clients."""
        self.is_killed.clear()
        threads = [threading.Thread(target=self.churn, args=(one,)) for one in self.churners]
        for thread in threads:
            thread.start()
        try:
            self.wait_for_answers(self.answered + answers)
            expect_equal("panics", self.broker.metrics()["corelog_panics_total"], 0)
            time.sleep(delay)
        finally:
            self.is_killed.set()
            self.broker.kill()
            for thread in threads:
                thread.join(ROUND_SECONDS_MAX)
        self.raise_errors()
        # One that still runs would change the model while it is compared.
        left = sum(thread.is_alive() for thread in threads)
        expect(not left, f"{left} clients go on {ROUND_SECONDS_MAX} s after the kill")

    def wait_for_answers(self, target: int) -> None:
        """Until there are so many, and one more for each client after them.

        Without that a request which the node never answers would pass for one that the kill cut off.
        """
        self.wait_while("answers", lambda: self.answered < target)
        had = [one.answered for one in self.churners]
        pairs = list(zip(self.churners, had, strict=True))
        self.wait_while("every client's answer", lambda: any(o.answered <= n for o, n in pairs))

    def wait_while(self, what: str, is_missing: Callable[[], bool]) -> None:
        """Waits, finely since a kill is to fall amid a request, and only as long as no client has failed."""
        deadline = time.monotonic() + ROUND_SECONDS_MAX
        while is_missing():
            self.raise_errors()
            expect(time.monotonic() < deadline, f"{what}: not within {ROUND_SECONDS_MAX} s")
            time.sleep(0.001)

    def raise_errors(self) -> None:
        """Fails with what a client has met."""
        for churner in self.churners:
            if churner.error:
                raise churner.error

    def churn(self, churner: Churner) -> None:
        """One client, until the node is gone."""
        side = Side(self.broker)
        try:
            with closing(side):
                while True:
                    churner.pending = operation = churner.next()
                    operation.send(side)
                    churner.apply(operation)
                    churner.pending = None
                    churner.answered += 1
        except GONE as error:
            if not self.is_killed.is_set():
                what = churner.pending.what if churner.pending else "nothing"
                churner.error = CheckFailed(f"{what}: the living node let go of it: {error!r}")
        except BaseException as error:  # Handed to the main thread.
            churner.error = error

    def append_everywhere(self) -> None:
        """A record to every partition."""
        side = Side(self.broker)
        with closing(side):
            for churner in self.churners:
                for name in sorted(churner.topics):
                    for index in range(len(churner.topics[name].partitions)):
                        stamp = churner.choice.randbytes(8)
                        operation = production(churner.topics[name], index, [(stamp, b"moved")])
                        operation.send(side)
                        churner.apply(operation)

    def start_with(self, shards: int) -> None:
        """Starts the node with so many cores."""
        self.broker.launch = dataclasses.replace(self.broker.launch, shards=shards)
        self.broker.start()

    def stop(self) -> None:
        """Stops the node cleanly."""
        expect_equal("exit code", self.broker.terminate(), 0)


def hashes(directory: Path) -> dict[str, str]:
    """What is in every file below a directory, by its path; of records also which file it is."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            inode = path.stat().st_ino if path.suffix == ".log" else "any"
            found[str(path.relative_to(directory))] = f"{digest} inode {inode}"
    return found


@contextmanager
def world(options: argparse.Namespace, binary: Path, scratch: Path) -> Iterator[World]:
    """A running node with a model that is empty, like it."""
    choice = random.Random(options.seed)
    churners = [Churner(n, random.Random(choice.random())) for n in range(CLIENTS)]
    settings = settings_of(options, "auto.create.topics.enable=false")
    broker = Broker(Launch("corelog", binary, options.shards, settings), scratch / "data")
    try:
        broker.start()
        yield World(broker, churners)
    finally:
        broker.close()


def kills(world: World, options: argparse.Namespace) -> str:
    """Model and node agree after every kill, and after a clean stop."""
    choice, slowest = random.Random(options.seed + 1), 0.0
    for number in range(options.kills):
        answers = choice.randint(*ANSWERS_BETWEEN_KILLS)
        world.churn_until_killed(answers, choice.random() * 0.003)
        slowest = max(slowest, world.broker.start())
        try:
            world.verify()
        except CheckFailed as failure:
            raise CheckFailed(f"after kill {number + 1}: {failure}") from failure
    world.stop()
    world.broker.start()
    world.verify()
    # The files of what was deleted go in the background.
    deleted = world.broker.data_dir / "deleted"
    wait_while("deleted files", lambda: names_in(deleted), SWEEP_SECONDS_MAX)
    world.stop()
    verify_at_rest(world.broker)
    counts: dict[str, int] = {}
    for churner in world.churners:
        for what, count in churner.counts.items():
            counts[what] = counts.get(what, 0) + count
    missing = {"create", "delete", "grow", "alter", "trim", "produce"} - counts.keys()
    expect(not missing, f"never done in {world.answered} answers: {', '.join(missing)}")
    line = " ".join(f"{what}={count}" for what, count in sorted(counts.items()))
    amid = f"unanswered done={world.resolved['done']} not={world.resolved['not done']}"
    line += f" {amid} restart_max_ms={1000 * slowest:.0f}"
    return f"seed={options.seed} kills={options.kills} {line}"


def names_in(directory: Path) -> list[str]:
    """What lies there."""
    return [path.name for path in directory.iterdir()]


def verify_at_rest(broker: Broker) -> None:
    """`corelog log verify` finds nothing wrong in what the node left."""
    command = [str(broker.launch.binary), "log", "verify", str(broker.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, f"log verify: {(done.stdout + done.stderr)[-600:]}")


def is_superseded(path: str, now: Mapping[str, str]) -> bool:
    """A producer snapshot that is gone, while a newer one of its partition is there: it has all of it."""
    directory, _, name = path.rpartition("/")
    if path in now or not name.endswith(".snapshot"):
        return False
    newer = (other.rpartition("/") for other in now if other.endswith(".snapshot"))
    return any(where == directory and name < other for where, _, other in newer)


def shards(world: World, options: argparse.Namespace) -> str:
    """Other numbers of cores serve the same files: none of them is touched by a start and a stop.

    A snapshot that a newer one stands in for may go: it waits until both checkpoints are past it.
    """
    topics = world.broker.topics_dir
    before = hashes(topics)
    for count in (1, 2, 1):
        world.start_with(count)
        world.verify()
        world.stop()
        now = hashes(topics)
        paths = before.keys() | now.keys()
        changed = (path for path in paths if before.get(path) != now.get(path))
        moved = sorted(path for path in changed if not is_superseded(path, now))
        before = now
        expect_equal(f"files changed by {count} cores", moved, [])
        world.start_with(count)
        world.append_everywhere()
        world.verify()
        world.stop()
        before = hashes(topics)
    verify_at_rest(world.broker)
    return f"seed={options.seed} shards 1, 2, 1: {len(before)} files, each the same"


def self_test() -> list[str]:
    """What the run fails to see: a changed picture, and a client that the node drops."""
    now = {"t-0/3.snapshot": "", "t-1/9.log": ""}
    gone = ("t-0/2.snapshot", "t-0/4.snapshot", "t-1/2.snapshot", "t-0/2.log")
    taken = [path for path in gone if is_superseded(path, now)]
    wrong = [] if taken == ["t-0/2.snapshot"] else [f"snapshots that may go: {taken}"]
    return model_self_test() + [f"dropped: {said}" for said in drop_self_test()] + wrong


def drop_self_test() -> Iterator[str]:
    """A node that hangs up on its clients while it lives is at fault; one that was killed is not."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        broker = Broker(Launch("corelog", Path()), Path(), port=listener.getsockname()[1])
        for is_killed in (False, True):
            churner = Churner(0, random.Random(1))
            world = World(broker, [churner])
            if is_killed:
                world.is_killed.set()
            world.churn(churner)
            if (churner.error is None) != is_killed:
                yield f"killed: {is_killed}, told: {churner.error!r}"


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--self-test", action="store_true", help="only try the comparison")
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    report.run("churn/self-test", lambda: expect(not self_test(), "; ".join(self_test())))
    if not options.self_test:
        print(f"churn seed={options.seed}", flush=True)
        binary = options.corelog or target_binary("corelog")
        scratch = scratch_directory("churn-", report)
        with scratch as path, world(options, binary, path) as one:
            if report.run("churn/kills", lambda: kills(one, options)):
                report.run("churn/shards", lambda: shards(one, options))
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
