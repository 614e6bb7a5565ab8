"""The scenarios that are the same for every broker: what is sent, what is looked at, what is wanted of it.

Every load runs in rounds on each side in turn (rounds.py). What needs more than a run of the bench stands in special.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from figures import Target, at_least, at_most

Figures = dict[str, float | None]

# A run as fast as possible fills the disk: it ends with so many bytes at the latest.
GIGABYTES_MAX = 6

# What a saved result of the bench tells, by the names that rows use.
READERS: Mapping[str, Callable[[dict[str, Any]], float | None]] = {
    "MB/s": lambda r: r["measured"]["mb_per_second"],
    "requests/s": lambda r: r["measured"]["requests_per_second"],
    "CPU-s/GB": lambda r: (r["broker"] or {}).get("cpu_seconds_per_gb"),
    "CPU us/request": lambda r: (r["broker"] or {}).get("cpu_us_per_request"),
    "p50 ms": lambda r: rank(r["latency"], "p50_ms"),
    "p99 ms": lambda r: rank(r["latency"], "p99_ms"),
    "p99.9 ms": lambda r: rank(r["latency"], "p999_ms"),
    "delivered p99 ms": lambda r: rank(r["delivery"], "p99_ms"),
    "resident MB": lambda r: (r["broker"] or {"rss_bytes": 0})["rss_bytes"] / 1e6 or None,
    "behind": lambda r: float(r["unsent"]),
    "seconds": lambda r: r["measured"]["seconds"],
    "client CPU-s/GB": lambda r: (r["client"] or {}).get("cpu_seconds_per_gb"),
}
# Of which more is better; of all others less.
HIGHER_IS_BETTER = ("MB/s", "requests/s")


def rank(latency: dict[str, Any] | None, name: str) -> float | None:
    """Of no latency there is no rank."""
    return latency[name] if latency and latency["count"] else None


def figures_of(result: dict[str, Any]) -> Figures:
    """All that a saved result tells."""
    return {name: read(result) for name, read in READERS.items()}


@dataclass(frozen=True)
class Row:
    """A line of the table: a figure, and what is wanted of its ratio to Kafka's, or of ours alone."""

    figure: str
    ratio: Target | None = None
    own: Target | None = None


@dataclass(frozen=True)
class Across:
    """Ours of one durability against Kafka's of a weaker one, said so in the table."""

    figure: str
    kafka_load: str
    ratio: Target


@dataclass(frozen=True)
class Load:
    """A run of the bench on every side."""

    id: str
    title: str
    durability: str
    words: tuple[str, ...]
    rows: tuple[Row, ...]
    # What tells that a side is warm.
    primary: str = "MB/s"
    across: tuple[Across, ...] = ()
    # Memory is looked at: brokers that have done nothing else, also where others are kept from load to load.
    is_alone: bool = False
    verb: str = "produce"

    def topic_words(self, side: str) -> tuple[str, ...]:
        """The topic's options that make its durability: what is D0 for one broker is an option of the other."""
        if self.verb != "produce":
            return ()
        is_corelog = side == "corelog"
        if self.durability == "D0":
            return ("-c", "write.caching=true") if is_corelog else ()
        return () if is_corelog else ("-c", "flush.messages=1")


ONE_BY_MIB = ("--record-size", "1024", "--batch-bytes", "1MiB", "--connections", "2", "--in-flight", "4")
SIXTEEN = (
    *("--record-size", "1024", "--batch-bytes", "64KiB", "--partitions", "16"),
    *("--partitions-per-request", "16", "--connections", "2", "--in-flight", "4"),
)
SINGLE_KB = (
    *("--record-size", "1024", "--batch-records", "1", "--partitions", "16"),
    *("--connections", "64", "--in-flight", "1"),
)
UNBATCHED = (
    *("--record-size", "100", "--batch-records", "1", "--connections", "64"),
    *("--in-flight", "5", "--acks", "leader"),
)


def rows(*figures: Row) -> tuple[Row, ...]:
    """What is wanted, and what a reader wants to know beside it."""
    named = {row.figure for row in figures}
    also = ("MB/s", "CPU-s/GB", "p99.9 ms", "resident MB")
    return (*figures, *(Row(figure) for figure in also if figure not in named))


def paced(name: str, durability: str, megabytes: int, *wanted: Row, across: tuple[Across, ...] = ()) -> Load:
    """Ten records a request from eight connections, at a rate."""
    title = f"ack latency at {megabytes} MB/s, 10 records a request, 8 connections"
    words = ("--record-size", "1024", "--batch-records", "10", "--connections", "8", "--rate", f"{megabytes}MB")
    return Load(name, title, durability, words, rows(*wanted), primary="p50 ms", across=across)


def thousand(name: str, durability: str, times: float) -> Load:
    """So many times as fast over a thousand partitions, in a fifth of the memory."""
    title = "1,000 partitions, 4 KiB batches, 20 a request"
    words = ("--batch-bytes", "4KiB", "--partitions", "1000", "--partitions-per-request", "20")
    flow = ("--connections", "4", "--in-flight", "5")
    wanted = (Row("MB/s", at_least(times)), Row("p99.9 ms", at_most(1 / 10)), Row("resident MB", at_most(1 / 5)))
    return Load(name, title, durability, words + flow, rows(*wanted), is_alone=True)


LOADS = (
    Load(
        "S1a",
        "produce, 1 KB records, 1 MiB x 1 partition a request, 2 connections x 4 in flight",
        "D0",
        ONE_BY_MIB,
        rows(Row("MB/s", at_least(2.2)), Row("CPU-s/GB", at_most(1 / 5))),
    ),
    Load(
        "S1b",
        "the same, 64 KiB x 16 partitions a request",
        "D0",
        SIXTEEN,
        rows(Row("MB/s", at_least(2.0)), Row("CPU-s/GB", at_most(1 / 3.5))),
    ),
    Load(
        "S2a",
        "produce, 64 KiB x 16 partitions a request",
        "D1",
        SIXTEEN,
        rows(Row("MB/s", at_least(10))),
        across=(Across("MB/s", "S1b", at_least(2.5)),),
    ),
    Load(
        "S2b",
        "produce, 1 MiB x 1 partition a request",
        "D1",
        ONE_BY_MIB,
        # Kafka syncs a whole MiB at once here: ten times as much as that is more than the disk writes.
        rows(Row("MB/s")),
        across=(Across("MB/s", "S1a", at_least(1.7)),),
    ),
    Load(
        "S2c",
        "produce, 64 connections x one 1 KB record in flight, 16 partitions",
        "D1",
        SINGLE_KB,
        rows(Row("requests/s", at_least(20), at_least(100_000)), Row("CPU us/request")),
        primary="requests/s",
    ),
    paced("S3a", "D0", 10, Row("p99.9 ms", at_most(1 / 4)), Row("p50 ms")),
    paced(
        "S3b",
        "D1",
        10,
        *(Row("p50 ms", at_most(0.4)), Row("p99.9 ms", at_most(1 / 3))),
        across=(Across("p99.9 ms", "S3a", at_most(1.0)),),
    ),
    paced("S3c", "D0", 50, Row("p99.9 ms", at_most(1 / 5)), Row("p50 ms")),
    # Sustained: nothing that was due is left behind.
    paced("S3d", "D1", 50, Row("behind", own=at_most(0)), Row("p50 ms")),
    Load(
        "S5a",
        "fan-out: 64 consumers read the last 8,192 records again and again",
        "read",
        ("--fill", "64MB", "--tail", "8192", "--consumers", "64", "--check", "offsets"),
        rows(Row("MB/s", at_least(1.3)), Row("CPU-s/GB", at_most(1.0))),
        verb="consume",
    ),
    Load(
        "S5b",
        "fan-out: 64 consumers beside a producer of 2 MB/s",
        "D0",
        ("--record-size", "1024", "--batch-records", "10", "--connections", "2", "--rate", "2MB", "--consumers", "64"),
        rows(Row("delivered p99 ms", at_most(1 / 5)), Row("CPU-s/GB", at_most(1.0))),
        primary="delivered p99 ms",
    ),
    thousand("S6a", "D0", 4),
    thousand("S6b", "D1", 20),
    Load(
        "S8",
        "100 B, one record a request, 64 connections x 5 in flight, acks=1",
        "D0",
        UNBATCHED,
        rows(Row("requests/s", at_least(4), at_least(180_000)), Row("CPU us/request")),
        primary="requests/s",
    ),
)
BY_ID = {load.id: load for load in LOADS}
