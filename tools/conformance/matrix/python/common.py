"""What every client must do, written once for the Python ones: a class with these methods per client.

A program is called as `PROGRAM BOOTSTRAP PREFIX` and prints a JSON line with its version, then one a
feature: {"feature": …, "passed": …, "text": …}. Topics are called PREFIX-SUBJECT. What it leaves in
PREFIX-CODEC is read a second time by matrix_run.py.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 100
LARGE_BYTES = 10 << 20
LARGE_CONFIG = {"max.message.bytes": str(11 << 20)}
# Two hours ago and a minute apart: old enough to be in order, young enough to be kept.
STAMP_MS = time.time_ns() // 1_000_000 - 7_200_000
STEP_MS = 60_000


@dataclass(frozen=True)
class Record:
    """What goes out, and what must come back."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


def numbered(count: int = RECORDS) -> list[Record]:
    """The records of a codec's topic; every program writes the same."""
    return [
        Record(b"key-%d" % n, b"value-%d " % n + b"x" * 200, (("n", b"%d" % n),))
        for n in range(count)
    ]


class Client:
    """The methods of a client; one that a client lacks stays as it is here."""

    version = ""
    codecs: tuple[str, ...] = CODECS
    # Whether the client lets a record through that has neither key nor value.
    sends_nothing = True
    # Whether it lets a header through that has no value.
    sends_null_headers = True

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Creates a topic."""
        raise NotImplementedError

    def produce(self, topic: str, records: list[Record], codec: str, idempotent: bool) -> None:
        """Appends to partition 0 with acks=all, and waits."""
        raise NotImplementedError

    def consume(self, topic: str, count: int) -> list[Record]:
        """Reads partition 0 from its start, assigned by hand."""
        raise NotImplementedError

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """The first offset at or after a time, in partition 0."""
        raise NotImplementedError

    def ends(self, topic: str) -> tuple[int, int]:
        """The first and the next offset of partition 0."""
        raise NotImplementedError

    def partitions(self, topic: str) -> int:
        """How many partitions a topic is described with."""
        raise NotImplementedError

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Changes a configuration."""
        raise NotImplementedError

    def config(self, topic: str, key: str) -> str | None:
        """Describes a configuration."""
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        """Grows a topic."""
        raise NotImplementedError

    def delete(self, topic: str) -> None:
        """Deletes a topic."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """The names of all topics."""
        raise NotImplementedError


def expect(found: object, expected: object, what: str) -> None:
    """Fails the feature unless both are equal."""
    if found != expected:
        raise AssertionError(f"{what}: found {str(found)[:300]}, expected {str(expected)[:300]}")


def eventually(found: Callable[[], object], expected: object, what: str) -> None:
    """As `expect`, for what a client learns from metadata that it keeps for a while."""
    deadline = time.monotonic() + 20
    while (last := found()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    expect(last, expected, what)


def round_trip(client: Client, topic: str, records: list[Record], codec: str = "none") -> None:
    """Writes and reads back; timestamps only where they were given."""
    client.produce(topic, records, codec, False)
    found = client.consume(topic, len(records))
    if all(record.timestamp_ms is None for record in records):
        found = [Record(one.key, one.value, one.headers) for one in found]
    expect(found, records, topic)


Features = dict[str, Callable[[], None]]


def features(client: Client, prefix: str) -> Features:
    """Every feature by name, in the order in which they are tried."""
    return {**admin_features(client, prefix), **record_features(client, prefix)}


def admin_features(client: Client, prefix: str) -> Features:
    """What is done with a topic."""

    def create() -> None:
        client.create(f"{prefix}-admin", 2, {"retention.ms": "-1"})

    def describe() -> None:
        eventually(lambda: client.partitions(f"{prefix}-admin"), 2, "partitions")

    def configs() -> None:
        expect(client.config(f"{prefix}-admin", "retention.ms"), "-1", "retention.ms as created")
        client.set_config(f"{prefix}-admin", "retention.ms", "86400000")
        expect(client.config(f"{prefix}-admin", "retention.ms"), "86400000", "as changed")

    def partitions() -> None:
        client.add_partitions(f"{prefix}-admin", 5)
        eventually(lambda: client.partitions(f"{prefix}-admin"), 5, "partitions")

    def delete() -> None:
        client.delete(f"{prefix}-admin")
        eventually(lambda: f"{prefix}-admin" in client.topics(), False, "the topic is there")

    return {
        "create": create,
        "describe": describe,
        "configs": configs,
        "partitions": partitions,
        "delete": delete,
    }


def record_features(client: Client, prefix: str) -> Features:
    """What is done with records."""

    def codec(name: str) -> Callable[[], None]:
        def check() -> None:
            client.create(f"{prefix}-{name}", 1, {"retention.ms": "-1"})
            round_trip(client, f"{prefix}-{name}", numbered(), name)

        return check

    def headers() -> None:
        client.create(f"{prefix}-headers", 1, {})
        null_header = (("null", None),) if client.sends_null_headers else ()
        records = [
            Record(None, b"no key"),
            Record(b"no value", None),
            *([Record(None, None)] if client.sends_nothing else []),
            Record(b"", b""),
            Record(b"k", b"v", (("a", b"1"), ("a", b"2"), ("", b""), *null_header)),
            Record(b"\xff\x00", b"\x00\xff" * 50, (("grüße", "größe".encode()),)),
        ]
        round_trip(client, f"{prefix}-headers", records)

    def large() -> None:
        client.create(f"{prefix}-large", 1, LARGE_CONFIG)
        value = bytes(range(256)) * (LARGE_BYTES // 256)
        round_trip(client, f"{prefix}-large", [Record(b"large", value)])

    def times() -> None:
        topic = f"{prefix}-times"
        client.create(topic, 1, {"retention.ms": "-1"})
        records = [Record(b"k", b"%d" % n, (), STAMP_MS + n * STEP_MS) for n in range(10)]
        round_trip(client, topic, records)
        expect(client.offset_at(topic, STAMP_MS + 3 * STEP_MS), 3, "at the time of offset 3")
        expect(client.offset_at(topic, STAMP_MS + 3 * STEP_MS + 1), 4, "a millisecond later")
        expect(client.offset_at(topic, STAMP_MS - 1), 0, "before the first")
        expect(client.offset_at(topic, STAMP_MS + 100 * STEP_MS), None, "after the last")

    def ends() -> None:
        expect(client.ends(f"{prefix}-times"), (0, 10), "offsets")

    def idempotent() -> None:
        client.create(f"{prefix}-idempotent", 1, {})
        client.produce(f"{prefix}-idempotent", numbered(), "none", True)
        found = [one.value for one in client.consume(f"{prefix}-idempotent", RECORDS)]
        expect(found, [one.value for one in numbered()], "values")

    return {
        **{f"codec-{name}": codec(name) for name in client.codecs},
        "headers": headers,
        "large": large,
        "times": times,
        "ends": ends,
        "idempotent": idempotent,
    }


def tell(**fields: object) -> None:
    """A line for matrix_run.py."""
    print(json.dumps(fields), flush=True)


def main(make: Callable[[str], Client]) -> None:
    """Runs every feature of a client."""
    bootstrap, prefix = sys.argv[1:3]
    client = make(bootstrap)
    tell(version=client.version)
    for name, check in features(client, prefix).items():
        try:
            check()
        except NotImplementedError:
            continue
        except Exception as error:
            traceback.print_exc()
            tell(feature=name, passed=False, text=f"{type(error).__name__}: {error}"[:600])
        else:
            tell(feature=name, passed=True, text="")
