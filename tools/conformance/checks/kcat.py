"""kcat, as Debian ships it: an old librdkafka (2.0), whose feature detection needs care."""

import json
import time

from harness.clients import CODECS
from harness.report import expect, expect_equal

from . import Check, Context


def keys_and_values(context: Context) -> str:
    """Lines with keys arrive in order, with offsets from 0."""
    topic = context.topic("kcat-keys")
    lines = "".join(f"key{n % 7}:value {n}\n" for n in range(1_000))
    context.tools.kcat("-P", "-t", topic, "-K:", stdin=lines.encode())
    out = context.tools.kcat("-C", "-t", topic, "-o", "beginning", "-e", "-f", "%o %k:%s\n")
    expect_equal(
        "records", out, "".join(f"{n} {line}\n" for n, line in enumerate(lines.split("\n")[:-1]))
    )
    return "1000 records"


def nulls(context: Context) -> None:
    """`-Z` sends null for an empty key or value; consumers see null, not empty."""
    topic = context.topic("kcat-nulls")
    context.tools.kcat("-P", "-t", topic, "-K:", "-Z", stdin=b"key:\n:value\n:\nk:v\n")
    out = context.tools.kcat("-C", "-t", topic, "-o", "beginning", "-e", "-f", "%K %S\n")
    expect_equal("key and value lengths", out.split("\n")[:-1], ["3 -1", "-1 5", "-1 -1", "1 1"])


def headers(context: Context) -> None:
    """Headers keep their order and their duplicates."""
    topic = context.topic("kcat-headers")
    arguments = ("-H", "a=1", "-H", "b=two words", "-H", "a=3")
    context.tools.kcat("-P", "-t", topic, *arguments, stdin=b"value\n")
    out = context.tools.kcat("-C", "-t", topic, "-o", "beginning", "-e", "-f", "%h\n")
    expect_equal("headers", out.strip(), "a=1,b=two words,a=3")


def codec(name: str) -> Check:
    """Produces with one codec; the dump after the stop proves that the log holds it."""

    def check(context: Context) -> str:
        topic = context.topic(f"kcat-{name}")
        context.codecs[topic] = name
        lines = "".join(f"a line that compresses well {n}\n" for n in range(5_000))
        # One large batch: librdkafka sends a small one plain where compression would not shrink it.
        settings = ("-X", f"compression.codec={name}", "-X", "linger.ms=300")
        context.tools.kcat("-P", "-t", topic, *settings, stdin=lines.encode())
        out = context.tools.kcat(
            "-C", "-t", topic, "-o", "beginning", "-e", "-X", "check.crcs=true"
        )
        expect_equal("values", out, lines)
        return "5000 records"

    return check


def metadata(context: Context) -> None:
    """`-L` shows this broker, the topic and its partitions with a leader."""
    topic = context.topic("kcat-metadata", 3)
    answer = json.loads(context.tools.kcat("-L", "-J", "-t", topic))
    expect_equal("brokers", [broker["name"] for broker in answer["brokers"]], [context.bootstrap])
    node = answer["brokers"][0]["id"]
    found = [
        (p["partition"], p["leader"], [r["id"] for r in p["replicas"]])
        for p in answer["topics"][0]["partitions"]
    ]
    expect_equal("partitions", sorted(found), [(n, node, [node]) for n in range(3)])
    everything = json.loads(context.tools.kcat("-L", "-J"))
    expect(topic in {entry["topic"] for entry in everything["topics"]}, f"{topic} is not listed")


def offsets(context: Context) -> None:
    """Reads from the end backwards, from an offset, and from a time."""
    topic = context.topic("kcat-offsets")
    context.tools.kcat("-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(100)))
    # Batches carry milliseconds: the pause makes the two halves tell apart.
    time.sleep(0.05)
    border_ms = time.time_ns() // 1_000_000
    context.tools.kcat("-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(100, 150)))
    for start, first in (("-5", 145), ("42", 42), (f"s@{border_ms}", 100), ("beginning", 0)):
        out = context.tools.kcat("-C", "-t", topic, "-p", "0", "-o", start, "-e")
        expect_equal(f"values from {start}", out.split(), [str(n) for n in range(first, 150)])


CHECKS: dict[str, Check] = {
    "kcat-keys": keys_and_values,
    "kcat-nulls": nulls,
    "kcat-headers": headers,
    **{f"kcat-codec-{name}": codec(name) for name in CODECS},
    "kcat-metadata": metadata,
    "kcat-offsets": offsets,
}
