"""The kill run: does an acknowledgement survive a killed process?

    kill_run.py [--corelog PATH | --kafka] [--records 1000000] [--kills 20] [--shards 2]
                [--set KEY=VALUE]...
    kill_run.py --self-test

One librdkafka producer with acks=all writes numbered records while the broker is killed with
SIGKILL and started again: idempotent, without that (then with one request in flight), and to a
topic whose acknowledgements wait for the write and not for the sync (ours only). Afterwards every
partition is read and compared with the acknowledgements: harness/log_checker.py has the rules.
Prints `acked=N missing=0 reordered=0 duplicated=0` for each; duplicates count only under
idempotence. Every restart must be ready within a second (ours; the JVM is only measured); the start
that took longest is printed when it is not.

SIGKILL leaves the page cache alone: this says nothing about fsync, the simulator's disk does.
"""

import argparse
import os
import struct
import sys
import threading
import time
from array import array
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError, Message, TopicPartition
from harness import clients
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.log_checker import NOT_ACKED, OFFSET_UNKNOWN, Verdict, check_partition, self_test
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.report import CheckFailed, Report, expect
from harness.scratch import scratch_directory

PARTITIONS = 4
VALUE_BYTES = 100
RESTART_SECONDS_MAX = 1.0
RUN_SECONDS_MAX = 900.0
READ_SECONDS_MAX = 300.0
NUMBER = struct.Struct(">q")


@dataclass(frozen=True)
class Mode:
    """A way to produce."""

    name: str
    producer: dict[str, object]
    topic: dict[str, str] = field(default_factory=dict)
    is_idempotent: bool = True


MODES = [
    Mode("idempotent", {"enable_idempotence": True}),
    Mode("one-in-flight", {"max_in_flight_requests_per_connection": 1}, is_idempotent=False),
    Mode("write-caching", {"enable_idempotence": True}, {"write.caching": "true"}),
]


class Acknowledgements:
    """What the producer was told, per partition and record number."""

    def __init__(self, record_count: int) -> None:
        per_partition = -(-record_count // PARTITIONS)
        self.offsets = [array("q", [NOT_ACKED]) * per_partition for _ in range(PARTITIONS)]
        self.count = 0
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = self.error or error
            return
        number = NUMBER.unpack_from(clients.value_of(message))[0]
        partition, offset = clients.place_of(message)
        self.offsets[partition][number] = offset if offset >= 0 else OFFSET_UNKNOWN
        self.count += 1


class Killer:
    """A thread that kills and restarts the broker each time another share of records is acked.

    By progress, not by time: every kill falls into traffic, however fast the machine is.
    """

    def __init__(self, broker: Broker, acks: Acknowledgements, records: int, kills: int) -> None:
        self.broker, self.acks, self.kills = broker, acks, kills
        self.marks = [records * (n + 1) // (kills + 1) for n in range(kills)]
        self.restarts: list[float] = []
        self.slowest_output: list[str] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for mark in self.marks:
                while self.acks.count < mark:
                    if self.stop.wait(0.002):
                        return
                self.broker.kill()
                self.restarts.append(self.broker.start())
                if self.restarts[-1] == max(self.restarts):
                    self.slowest_output = list(self.broker.output)
        except BaseException as error:  # Handed to the main thread.
            self.error = error


def produce(
    broker: Broker, mode: Mode, records: int, kills: int
) -> tuple[Acknowledgements, Killer]:
    """Writes all records through the kills; returns when every one is acknowledged."""
    acks = Acknowledgements(records)
    killer = Killer(broker, acks, records, kills)
    client = clients.producer(
        broker.bootstrap,
        linger_ms=2,
        message_timeout_ms=int(1000 * RUN_SECONDS_MAX),
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=200,
        retry_backoff_ms=20,
        # Small requests, so that a kill finds some half way: written and not yet answered.
        batch_num_messages=500,
        queue_buffering_max_messages=20_000,
        log_level=0,
        **mode.producer,
    )
    filler = b"x" * (VALUE_BYTES - NUMBER.size)
    deadline = time.monotonic() + RUN_SECONDS_MAX
    killer.thread.start()
    try:
        for n in range(records):
            value = NUMBER.pack(n // PARTITIONS) + filler
            while True:
                try:
                    client.produce(mode.name, value, partition=n % PARTITIONS, on_delivery=acks)
                    break
                except BufferError:
                    client.poll(0.01)
                    expect(killer.error is None, f"restart: {killer.error}")
                    expect(
                        time.monotonic() < deadline, f"{acks.count} acked after {RUN_SECONDS_MAX} s"
                    )
            if n % 256 == 0:
                client.poll(0)
        while client.flush(1.0):
            expect(killer.error is None, f"restart: {killer.error}")
            expect(time.monotonic() < deadline, f"{acks.count} acked after {RUN_SECONDS_MAX} s")
    finally:
        killer.stop.set()
        killer.thread.join(120)
    expect(acks.error is None, f"delivery failed: {acks.error}")
    expect(killer.error is None, f"restart: {killer.error}")
    expect(len(killer.restarts) == kills, f"{len(killer.restarts)} kills of {kills}")
    return acks, killer


def read_partition(broker: Broker, topic: str, partition: int) -> "array[int]":
    """The record numbers of a partition by offset; offsets must be 0, 1, 2, …"""
    client = clients.consumer(broker.bootstrap)
    client.assign([TopicPartition(topic, partition, 0)])
    held: array[int] = array("q")
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while True:
            expect(
                time.monotonic() < deadline,
                f"{topic}-{partition}: no end after {READ_SECONDS_MAX} s",
            )
            for message in client.consume(10_000, 0.5):
                error = message.error()
                if error is None:
                    if message.offset() != len(held):
                        raise CheckFailed(f"offset {message.offset()} follows {len(held) - 1}")
                    held.append(NUMBER.unpack_from(clients.value_of(message))[0])
                elif error.code() == KafkaError._PARTITION_EOF:
                    return held
                else:
                    raise CheckFailed(f"{topic}-{partition}: {error}")
    finally:
        client.close()


def judge(acks: Acknowledgements, logs: list["array[int]"]) -> Verdict:
    """The verdict over all partitions."""
    verdict = Verdict()
    for offsets, held in zip(acks.offsets, logs, strict=True):
        check_partition(offsets, held, verdict)
    return verdict


def run(launch: Launch, options: argparse.Namespace, mode: Mode) -> str:
    """One whole run; returns its line."""
    with scratch_directory("kill-run-") as scratch:
        broker = Broker(launch, scratch / "data")
        # A start syncs what it recovers, and that waits for all that the disk has been given: what
        # earlier runs and other programs left in the page cache must not be counted as ours.
        os.sync()
        try:
            broker.start()
            clients.create_topic(broker.bootstrap, mode.name, PARTITIONS, config=mode.topic)
            begin = time.monotonic()
            acks, killer = produce(broker, mode, options.records, options.kills)
            seconds = time.monotonic() - begin
            logs = [read_partition(broker, mode.name, partition) for partition in range(PARTITIONS)]
        finally:
            broker.close()
    verdict = judge(acks, logs)
    slowest = max(killer.restarts, default=0.0)
    line = f"{verdict.line()} kills={len(killer.restarts)}"
    line += f" restart_max_ms={1000 * slowest:.0f} seconds={seconds:.1f}"
    expect(verdict.acked == options.records, f"not every record was acked: {line}")
    expect(verdict.missing == verdict.reordered == verdict.invented == 0, line)
    expect(not mode.is_idempotent or verdict.duplicated == 0, line)
    expect(
        not launch.is_corelog or slowest <= RESTART_SECONDS_MAX,
        "\n  ".join([f"a restart took too long: {line}", *killer.slowest_output]),
    )
    # The same checker, on this very log with one acked record taken out: it must see it.
    victim = next(n for n, held in enumerate(logs) if len(held))
    logs[victim].pop(len(logs[victim]) // 2)
    expect(judge(acks, logs).missing > 0, "the checker does not see a record removed on purpose")
    return line


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    add_binary(which)
    which.add_argument("--kafka", action="store_true", help="run against the reference broker")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument(
        "--self-test", action="store_true", help="only try the checker on damaged logs"
    )
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    report.run("kill/self-test", lambda: expect(not self_test(), "; ".join(self_test())))
    if not options.self_test:
        kind = "kafka" if options.kafka else "corelog"
        binary = options.corelog or target_binary("corelog")
        launch = Launch(kind, binary, options.shards, settings_of(options))
        for mode in MODES:
            if launch.is_corelog or not mode.topic:
                report.run(f"kill/{mode.name}", partial(run, launch, options, mode))
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
