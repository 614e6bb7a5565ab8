"""The disk-full run: a node on a small file system of its own, filled until it refuses.

    disk_full_run.py [--corelog PATH] [--mib 1024] [--shards 2] [--set KEY=VALUE]...

Makes an ext4 file system in a file, mounts it through a loop device and runs the node on it. Who may
not do that (no root, a container without the right to mount or without loop devices) is told so, and
the run ends with exit code 77: nothing was checked. A mount that fails where it may be made is a failure. Twice:

    disk/floor   disk.floor.bytes is set. Producing is refused at the floor; fetches, changes of
                 configuration and deletions go on; what they free lets producing go on.
    disk/full    no floor: the device itself refuses, records and metadata alike, down to its last
                 block. When a file beside the data directory goes, the logs that met the end are
                 recovered and go on, that of metadata among them.

In both the process stays the same one, and every record that was acknowledged is there at the end,
and again after a kill and a restart. A run that failed keeps the image, with the node's directory in it.

    disk/nothing-left  no mount and no loop device of the two is left.
"""

import argparse
import errno
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
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
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.report import NOTHING_CHECKED, CheckFailed, Report, Skipped, expect, expect_equal
from harness.scratch import scratch_directory
from harness.waiting import wait_while

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
# A node that was just killed gives its files up within moments.
UNMOUNT_SECONDS_MAX = 10.0
CAP_SYS_ADMIN = 21
LOOP_CONTROL = "/dev/loop-control"
NUMBER = struct.Struct(">q")
TOPIC_KEEP, TOPIC_BULK = "keep", "bulk"
# A block of the metadata log holds fewer creations than that: one of them needs another block.
CREATIONS_MAX = 150


def why_not_mountable() -> str | None:
    """Why nobody may mount a loop device here; whatever else goes wrong is a failure of the run."""
    if os.geteuid() != 0:
        return "needs root for the loop device"
    if not has_capability(CAP_SYS_ADMIN):
        return "root may not mount here (no CAP_SYS_ADMIN)"
    try:
        os.close(os.open(LOOP_CONTROL, os.O_RDWR))
    except OSError as error:
        return f"no loop devices here: {error}"
    return None


def has_capability(number: int) -> bool:
    """Whether this process has a capability: root within a container may lack it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


@contextmanager
def small_disk(scratch: Path, mib: int, made: list[Path]) -> Iterator[Path]:
    """A file system of `mib` MiB, mounted; on return it no longer is. `made` learns of its image."""
    image, mount = scratch / "disk.img", scratch / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(mib * MIB)
    # No blocks kept for root: the node may run as root, and would use them.
    run_quietly("mkfs.ext4", "-q", "-m", "0", str(image))
    made.append(image)
    run_quietly("mount", "-o", "loop", str(image), str(mount))
    try:
        yield mount
    finally:
        unmount(mount)


def unmount(mount: Path) -> None:
    """Unmounts, in the end also what is still in use. Never raises: what ended the check is what must be told."""
    deadline = time.monotonic() + UNMOUNT_SECONDS_MAX
    while True:
        lazily = time.monotonic() > deadline
        command = ["umount", *(["--lazy"] if lazily else []), str(mount)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 or lazily:
            break
        time.sleep(0.2)
    if lazily:
        print(f"{mount}: busy, unmounted once it no longer is: {done.stderr.strip()}", flush=True)


def nothing_is_left(images: list[Path]) -> str:
    """No mount and no loop device outlives the checks: enough of them would keep the next run from its own."""
    mounts = Path("/proc/self/mounts").read_text()
    mounted = [image for image in images if f" {image.parent}/" in mounts]
    expect(not mounted, f"still mounted: {mounted}")
    wait_while("loop devices", lambda: loop_devices_of(images), RESUME_SECONDS_MAX)
    return f"images={len(images)}"


def loop_devices_of(images: list[Path]) -> list[str]:
    """The loop devices behind which one of these files is, or was before it was removed."""
    names = {str(image) for image in images}
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # A device that goes while we look.
            if backing.read_text().strip().removesuffix(" (deleted)") in names:
                found.append(backing.parts[3])
    return found


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


def start(broker: Broker) -> Filler:
    """Starts the node and makes both topics. Whoever made the broker closes it, also where this fails."""
    broker.start()
    clients.create_topic(broker.bootstrap, TOPIC_KEEP)
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    clients.create_topic(broker.bootstrap, TOPIC_BULK, config=config)
    return Filler(broker)


def restart_and_verify(broker: Broker, filler: Filler) -> None:
    """What was acknowledged survives a kill too."""
    filler.verify()
    broker.kill()
    broker.start()
    filler.verify()


@contextmanager
def node_on_small_disk(
    prefix: str, launch: Launch, mib: int, made: list[Path]
) -> Iterator[tuple[Broker, Path]]:
    """A node, not started yet, whose directory is on a disk of its own, and where that is mounted.

    The node ends before its disk is unmounted, and that before the directory around it goes.
    """
    with (
        scratch_directory(prefix) as scratch,
        small_disk(scratch, mib, made) as mount,
        closing(Broker(launch, mount / "data")) as broker,
    ):
        yield broker, mount


def at_the_floor(launch: Launch, mib: int, made: list[Path]) -> str:
    """Refused at the floor; everything else goes on; producing too, when there is room again."""
    with node_on_small_disk("disk-floor-", launch, mib, made) as (broker, mount):
        filler = start(broker)
        pid = broker.pid
        with raw.Connection(broker.port) as connection:
            filler.fill_for_good(connection, mib * MIB)
            free = free_bytes(mount)
            expect(0 < free < FLOOR_BYTES, f"{free} bytes free, floor {FLOOR_BYTES}")
            expect_equal("a kept record", filler.keep_one(connection), KAFKA_STORAGE_ERROR)
            expect_equal("metric", broker.metrics()["corelog_disk_below_floor"], launch.shards)
            filler.verify()  # Fetches.
            clients.create_topic(broker.bootstrap, "made-on-a-full-disk")
            seconds = [resume(filler, connection, lambda: by_records(broker, filler))]
            filler.fill_for_good(connection, mib * MIB)
            by_age = lambda: set_config(broker, TOPIC_BULK, "retention.bytes", "1")  # noqa: E731
            seconds.append(resume(filler, connection, by_age))
            set_config(broker, TOPIC_BULK, "retention.bytes", "-1")
            filler.fill_for_good(connection, mib * MIB)
            filler.bulk_last = -1  # Nothing of it is looked for any more.
            by_topic = lambda: delete_topic(broker, TOPIC_BULK)  # noqa: E731
            seconds.append(resume(filler, connection, by_topic))
        expect_equal("process", broker.pid, pid)
        restart_and_verify(broker, filler)
        restart_while_full(broker, filler, mib * MIB)
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
        # A start brings what a journal holds into the segments and gives its room back.
        filler.fill_for_good(connection, bytes_max)
        expect_equal("a kept record", filler.keep_one(connection), KAFKA_STORAGE_ERROR)
        resume(filler, connection, lambda: delete_topic(broker, TOPIC_BULK))


def by_records(broker: Broker, filler: Filler) -> None:
    """Frees all but the last large record."""
    delete_records(broker, TOPIC_BULK, filler.bulk_last)


def resume(filler: Filler, connection: raw.Connection, give_space: Callable[[], None]) -> float:
    """Gives space, and waits until a record is taken; returns how long that took."""
    give_space()
    return wait_while("producing", lambda: filler.keep_one(connection), RESUME_SECONDS_MAX)


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
            is_absent = lambda topic=topic: not is_created(broker, topic)  # noqa: E731
            wait_while(f"creating {topic}", is_absent, RESUME_SECONDS_MAX)
            error = lambda topic=topic: connection.produce(topic, 0, records).error  # noqa: E731
            wait_while(f"producing to {topic}", error, RESUME_SECONDS_MAX)


def at_the_end(launch: Launch, mib: int, made: list[Path]) -> str:
    """The device refuses; when it has room again, so do the logs."""
    with node_on_small_disk("disk-full-", launch, mib, made) as (broker, mount):
        filler = start(broker)
        ballast, crumbs = mount / "ballast", mount / "crumbs"
        pid = broker.pid
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
        with raw.Connection(broker.port) as connection:
            filler.fill(connection, mib * MIB)
            take_last_blocks(crumbs)
            late = create_until_refused(broker)
            filler.verify()
            ballast.unlink()
            crumbs.unlink()
            large = lambda: filler.write_bulk(connection)  # noqa: E731
            seconds = wait_while("large records", large, RESUME_SECONDS_MAX)
            kept_one = lambda: filler.keep_one(connection)  # noqa: E731
            wait_while("kept records", kept_one, RESUME_SECONDS_MAX)
        take_records(broker, late)
        expect_equal("process", broker.pid, pid)
        resumed = broker.metrics()["corelog_logs_resumed_total"]
        expect(resumed >= 1, f"corelog_logs_resumed_total = {resumed}: the end was never met")
        restart_and_verify(broker, filler)
        take_records(broker, late)
    kept = f"large={filler.bulk_count} kept={len(filler.kept)} missing=0"
    kept += f" topics created={len(late) - 1}"
    return f"{kept} logs resumed={resumed:.0f} after s: {seconds:.1f}"


def skip(why: str) -> str:
    """A check that cannot be made here."""
    raise Skipped(why)


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--mib", type=int, default=1024, help="size of the device")
    parser.add_argument("--shards", type=int, default=2)
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    binary = options.corelog or target_binary("corelog")

    def launch(floor_bytes: int) -> Launch:
        own = (f"disk.floor.bytes={floor_bytes}", "log.retention.check.interval.ms=1000")
        return Launch("corelog", binary, options.shards, settings_of(options, *own))

    images: list[Path] = []
    checks: dict[str, Callable[[], str]] = {
        "disk/floor": partial(at_the_floor, launch(FLOOR_BYTES), options.mib, images),
        "disk/full": partial(at_the_end, launch(0), options.mib, images),
        "disk/nothing-left": partial(nothing_is_left, images),
    }
    why_not = why_not_mountable()
    for name, check in checks.items():
        report.run(name, partial(skip, why_not) if why_not else check)
    exit_code = report.close()
    return NOTHING_CHECKED if why_not else exit_code


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
