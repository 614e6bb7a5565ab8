"""The disk-full run: a node on a small file system of its own, filled until it refuses.

    disk_full_run.py [--corelog PATH] [--mib 1024] [--shards 2]

Makes an ext4 file system in a file, mounts it through a loop device and runs the node on it; needs
root, and is skipped without. Twice:

    disk/floor   disk.floor.bytes is set. Producing is refused at the floor; fetches, changes of
                 configuration and deletions go on; what they free lets producing go on.
    disk/full    no floor: the device itself refuses, records and metadata alike, down to its last
                 block. When a file beside the data directory goes, the logs that met the end are
                 recovered and go on, that of metadata among them.

In both the process stays the same one, and every record that was acknowledged is there at the end,
and again after a kill and a restart.
"""

import argparse
import errno
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from harness import clients, raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import target_binary
from harness.report import CheckFailed, Report, Skipped, expect, expect_equal
from harness.scratch import scratch_directory

KAFKA_STORAGE_ERROR = 56
MIB = 1 << 20
FLOOR_BYTES = 128 * MIB
BALLAST_BYTES = 96 * MIB
BULK_BATCH_BYTES = 900_000  # Below max.message.bytes.
SEGMENT_BYTES = 16 * MIB
# Space is looked at every second, and a slow disk has to remove files first.
RESUME_SECONDS_MAX = 30.0
# Two looks.
SETTLE_SECONDS = 2.5
NUMBER = struct.Struct(">q")
TOPIC_KEEP, TOPIC_BULK = "keep", "bulk"
# A block of the metadata log holds fewer creations than that: one of them needs another block.
CREATIONS_MAX = 150


@contextmanager
def small_disk(scratch: Path, mib: int) -> Iterator[Path]:
    """A file system of `mib` MiB, mounted; it is gone on return."""
    image, mount = scratch / "disk.img", scratch / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(mib * MIB)
    # No blocks kept for root: the node may run as root, and would use them.
    run_quietly("mkfs.ext4", "-q", "-m", "0", str(image))
    try:
        run_quietly("mount", "-o", "loop", str(image), str(mount))
    except CheckFailed as error:
        raise Skipped(f"no loop device can be mounted here: {error}") from error
    try:
        yield mount
    finally:
        run_quietly("umount", str(mount))
        image.unlink()


def run_quietly(*command: str) -> None:
    """A command that must succeed; its output is shown where it does not."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}")


def free_bytes(mount: Path) -> int:
    """What the file system still has."""
    stat = os.statvfs(mount)
    return stat.f_bavail * stat.f_frsize


class Filler:
    """Fills the disk, writes a numbered record now and then, and knows what was acknowledged."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bulk = raw.batch([(None, b"x" * BULK_BATCH_BYTES)], int(1000 * time.time()))
        self.bulk_last = -1  # Offset of the last acknowledged large record.
        self.bulk_count = 0
        self.kept: dict[int, int] = {}  # The acknowledged number at each offset of TOPIC_KEEP.
        self.next_number = 0

    def write_bulk(self, connection: raw.Connection) -> int:
        """Writes a large record; returns the error code."""
        answer = connection.produce(TOPIC_BULK, 0, self.bulk)
        if answer.error == raw.NONE:
            expect(answer.base_offset > self.bulk_last, f"offset {answer.base_offset} again")
            self.bulk_last = answer.base_offset
            self.bulk_count += 1
        return answer.error

    def keep_one(self, connection: raw.Connection) -> int:
        """Writes the next number; returns the error code."""
        number = self.next_number
        self.next_number += 1
        records = raw.batch([(None, NUMBER.pack(number))], int(1000 * time.time()))
        answer = connection.produce(TOPIC_KEEP, 0, records)
        if answer.error == raw.NONE:
            # What was refused may hold an offset all the same: only the acknowledged ones count.
            last = max(self.kept, default=-1)
            expect(answer.base_offset > last, f"offset {answer.base_offset} after {last}")
            self.kept[answer.base_offset] = number
        return answer.error

    def fill(self, connection: raw.Connection, bytes_max: int) -> None:
        """Writes until a batch is refused, with the error that clients try again on."""
        for _ in range(bytes_max // BULK_BATCH_BYTES):
            error = self.write_bulk(connection)
            if error != raw.NONE:
                expect_equal("error on a full disk", error, KAFKA_STORAGE_ERROR)
                return
            error = self.keep_one(connection)
            expect(error in (raw.NONE, KAFKA_STORAGE_ERROR), f"error {error} on a kept record")
        expect(False, f"{bytes_max} bytes were taken and nothing was refused")

    def fill_for_good(self, connection: raw.Connection, bytes_max: int) -> None:
        """Fills until it stays full: a file that is closed gives back what it had in reserve."""
        self.fill(connection, bytes_max)
        refused_since = time.monotonic()
        while time.monotonic() - refused_since < SETTLE_SECONDS:
            time.sleep(0.1)
            if self.keep_one(connection) == raw.NONE:
                self.fill(connection, bytes_max)
                refused_since = time.monotonic()

    def verify(self) -> None:
        """Every acknowledged number is in its place; the last large record is whole."""
        messages = clients.read_topic(self.broker.bootstrap, TOPIC_KEEP)
        held = {
            clients.place_of(message)[1]: NUMBER.unpack(clients.value_of(message))[0]
            for message in messages
        }
        wrong = [at for at, number in self.kept.items() if held.get(at) != number]
        expect(not wrong, f"{len(wrong)} of {len(self.kept)} acknowledged missing: {wrong[:5]}")
        self.verify_bulk_end()

    def verify_bulk_end(self) -> None:
        """The last acknowledged large record can be read."""
        if self.bulk_last < 0:
            return
        with raw.Connection(self.broker.port) as connection:
            want = raw.FetchFrom(TOPIC_BULK, 0, self.bulk_last)
            fetched = connection.fetch(want)
        expect_equal("error of the last large record", fetched.error, raw.NONE)
        sent = raw.without_offset(self.bulk)
        first = next(raw.batches(fetched.records))
        expect(fetched.records[:8] == struct.pack(">q", self.bulk_last), "another offset")
        stored = fetched.records[: first.size]
        expect(raw.without_offset(stored) == sent, "the last large record differs")


def wait_until(what: str, is_so: Callable[[], bool]) -> float:
    """Waits with a bound; returns the seconds it took."""
    begin = time.monotonic()
    while not is_so():
        seconds = time.monotonic() - begin
        expect(seconds < RESUME_SECONDS_MAX, f"{what}: not within {RESUME_SECONDS_MAX} s")
        time.sleep(0.1)
    return time.monotonic() - begin


def set_config(broker: Broker, topic: str, name: str, value: str) -> None:
    """Sets one configuration of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    # A name of its own: a dropped client cancels its requests.
    client = clients.admin(broker.bootstrap)
    client.incremental_alter_configs([resource])[resource].result(30)


def delete_records(broker: Broker, topic: str, before: int) -> None:
    """Deletes what lies before an offset."""
    place = TopicPartition(topic, 0, before)
    client = clients.admin(broker.bootstrap)
    low = client.delete_records([place])[place].result(30).low_watermark
    expect_equal("low watermark", low, before)


def delete_topic(broker: Broker, topic: str) -> None:
    """Deletes a topic."""
    client = clients.admin(broker.bootstrap)
    client.delete_topics([topic])[topic].result(30)


def start(launch: Launch, data_dir: Path) -> tuple[Broker, Filler]:
    """A node with both topics."""
    broker = Broker(launch, data_dir)
    broker.start()
    clients.create_topic(broker.bootstrap, TOPIC_KEEP)
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    clients.create_topic(broker.bootstrap, TOPIC_BULK, config=config)
    return broker, Filler(broker)


def restart_and_verify(broker: Broker, filler: Filler) -> None:
    """What was acknowledged survives a kill too."""
    filler.verify()
    broker.kill()
    broker.start()
    filler.verify()


def at_the_floor(launch: Launch, options: argparse.Namespace) -> str:
    """Refused at the floor; everything else goes on; producing too, when there is room again."""
    with scratch_directory("disk-floor-") as scratch, small_disk(scratch, options.mib) as mount:
        broker, filler = start(launch, mount / "data")
        try:
            pid = broker.pid
            with raw.Connection(broker.port) as connection:
                filler.fill_for_good(connection, options.mib * MIB)
                free = free_bytes(mount)
                expect(0 < free < FLOOR_BYTES, f"{free} bytes free, floor {FLOOR_BYTES}")
                expect_equal("a kept record", filler.keep_one(connection), KAFKA_STORAGE_ERROR)
                expect_equal("metric", broker.metrics()["corelog_disk_below_floor"], launch.shards)
                filler.verify()  # Fetches.
                clients.create_topic(broker.bootstrap, "made-on-a-full-disk")
                seconds = [resume(filler, connection, lambda: by_records(broker, filler))]
                filler.fill_for_good(connection, options.mib * MIB)
                by_age = lambda: set_config(broker, TOPIC_BULK, "retention.bytes", "1")  # noqa: E731
                seconds.append(resume(filler, connection, by_age))
                set_config(broker, TOPIC_BULK, "retention.bytes", "-1")
                filler.fill_for_good(connection, options.mib * MIB)
                filler.bulk_last = -1  # Nothing of it is looked for any more.
                by_topic = lambda: delete_topic(broker, TOPIC_BULK)  # noqa: E731
                seconds.append(resume(filler, connection, by_topic))
            expect_equal("process", broker.pid, pid)
            restart_and_verify(broker, filler)
            restart_while_full(broker, filler, options.mib * MIB)
        finally:
            broker.close()
    times = ", ".join(f"{one:.1f}" for one in seconds)
    return f"large={filler.bulk_count} kept={len(filler.kept)} missing=0 resumed after s: {times}"


def restart_while_full(broker: Broker, filler: Filler, bytes_max: int) -> None:
    """A node that is killed on a full disk starts, serves what it holds and refuses records."""
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    clients.create_topic(broker.bootstrap, TOPIC_BULK, config=config)
    with raw.Connection(broker.port) as connection:
        filler.fill_for_good(connection, bytes_max)
    restart_and_verify(broker, filler)
    with raw.Connection(broker.port) as connection:
        expect_equal("a kept record", filler.keep_one(connection), KAFKA_STORAGE_ERROR)
        resume(filler, connection, lambda: delete_topic(broker, TOPIC_BULK))


def by_records(broker: Broker, filler: Filler) -> None:
    """Frees all but the last large record."""
    delete_records(broker, TOPIC_BULK, filler.bulk_last)


def resume(filler: Filler, connection: raw.Connection, give_space: Callable[[], None]) -> float:
    """Gives space, and waits until a record is taken; returns how long that took."""
    give_space()
    return wait_until("producing", lambda: filler.keep_one(connection) == raw.NONE)


def take_last_blocks(path: Path) -> None:
    """Writes a file until not one block is left."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                expect_equal("error of the last block", error.errno, errno.ENOSPC)


def is_created(broker: Broker, topic: str) -> bool:
    """Creates a topic; False where the disk is what keeps it from being there."""
    try:
        clients.create_topic(broker.bootstrap, topic)
    except KafkaException as error:
        code = error.args[0].code()
        expect(code in (KAFKA_STORAGE_ERROR, KafkaError.TOPIC_ALREADY_EXISTS), f"{topic}: {error}")
        return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def create_until_refused(broker: Broker) -> list[str]:
    """The topics that a full disk still lets be created, and the one that it does not."""
    topics = []
    for number in range(CREATIONS_MAX):
        topics.append(f"late-{number}")
        if not is_created(broker, topics[-1]):
            return topics
    raise CheckFailed(f"{CREATIONS_MAX} topics were created on a full disk")


def take_records(broker: Broker, topics: list[str]) -> None:
    """Every topic is there, and takes a record sooner or later."""
    records = raw.batch([(None, b"late")], int(1000 * time.time()))
    with raw.Connection(broker.port) as connection:
        for topic in topics:
            wait_until(f"creating {topic}", lambda topic=topic: is_created(broker, topic))

            def is_taken(topic: str = topic) -> bool:
                return connection.produce(topic, 0, records).error == raw.NONE

            wait_until(f"producing to {topic}", is_taken)


def at_the_end(launch: Launch, options: argparse.Namespace) -> str:
    """The device refuses; when it has room again, so do the logs."""
    with scratch_directory("disk-full-") as scratch, small_disk(scratch, options.mib) as mount:
        ballast, crumbs = mount / "ballast", mount / "crumbs"
        broker, filler = start(launch, mount / "data")
        try:
            pid = broker.pid
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
            with raw.Connection(broker.port) as connection:
                filler.fill(connection, options.mib * MIB)
                take_last_blocks(crumbs)
                late = create_until_refused(broker)
                filler.verify()
                ballast.unlink()
                crumbs.unlink()
                seconds = wait_until(
                    "large records", lambda: filler.write_bulk(connection) == raw.NONE
                )
                wait_until("kept records", lambda: filler.keep_one(connection) == raw.NONE)
            take_records(broker, late)
            expect_equal("process", broker.pid, pid)
            resumed = broker.metrics()["corelog_logs_resumed_total"]
            expect(resumed >= 1, f"corelog_logs_resumed_total = {resumed}: the end was never met")
            restart_and_verify(broker, filler)
            take_records(broker, late)
        finally:
            broker.close()
    kept = f"large={filler.bulk_count} kept={len(filler.kept)} missing=0"
    kept += f" topics created={len(late) - 1}"
    return f"{kept} logs resumed={resumed:.0f} after s: {seconds:.1f}"


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corelog", type=Path, help="our binary (default: release, else debug build)")
    parser.add_argument("--mib", type=int, default=1024, help="size of the device")
    parser.add_argument("--shards", type=int, default=2)
    options, report = parser.parse_args(), Report()
    binary = options.corelog or target_binary("corelog")

    def launch(floor_bytes: int) -> Launch:
        if os.geteuid() != 0:
            raise Skipped("needs root for the loop device")
        settings = (f"disk.floor.bytes={floor_bytes}", "log.retention.check.interval.ms=1000")
        return Launch("corelog", binary, options.shards, settings)

    report.run("disk/floor", lambda: at_the_floor(launch(FLOOR_BYTES), options))
    report.run("disk/full", lambda: at_the_end(launch(0), options))
    exit_code = report.close()
    # Who may not mount cannot run this, and that is no fault of the node.
    return 0 if report.skipped and not report.failed else exit_code


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
