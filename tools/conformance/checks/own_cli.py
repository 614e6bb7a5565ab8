"""Our own command line as a Kafka client: against us, and against the reference.

Data on stdout, everything else on stderr, and an exit code for scripts: that is what is checked.
"""

import json
import subprocess
import time

from harness import clients
from harness.clients import CODECS
from harness.kafka_tools import run_any
from harness.report import Skipped, expect, expect_equal

from . import Check, Context

REFUSED, USAGE, UNREACHABLE = 1, 2, 3
# Far below the time in which a command asks again (--timeout-ms), and far above what an answer takes.
AT_ONCE_SECONDS_MAX = 10.0


def call(context: Context, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[bytes]":
    """`corelog WORDS -b BROKER`."""
    binary = context.broker.launch.binary
    if not binary.exists():
        raise Skipped(f"{binary} is not built")
    return run_any([str(binary), *words, "-b", context.bootstrap], stdin.encode())


def text_of(context: Context, *words: str, stdin: str = "") -> str:
    """The stdout of a call that must succeed."""
    done = call(context, *words, stdin=stdin)
    expect_equal(f"exit code of {words[:3]}: {done.stderr!r}", done.returncode, 0)
    return done.stdout.decode()


def hello(context: Context) -> None:
    """The README's first minute: produce to a topic that is not there, consume it."""
    topic = context.name("cli-hello")
    text_of(context, "produce", topic, stdin="hello\nworld\n")
    expect_equal("consumed", text_of(context, "consume", topic), "hello\nworld\n")


def topics(context: Context) -> None:
    """Create, list, describe, delete; a refusal is exit code 1 and one clear message."""
    topic = context.name("cli-topic")
    text_of(context, "topic", "create", topic, "-p", "3", "-c", "segment.bytes=2097152")
    expect(topic in text_of(context, "topic", "list"), f"{topic} is not listed")
    described = text_of(context, "topic", "describe", topic, "-o", "json")
    json.loads(described)
    expect("2097152" in described, f"no segment.bytes in {described}")
    again = call(context, "topic", "create", topic)
    expect_equal("create again: exit code", again.returncode, REFUSED)
    expect(topic in again.stderr.decode(), f"create again said: {again.stderr!r}")
    text_of(context, "topic", "delete", topic)
    expect(topic not in text_of(context, "topic", "list"), f"{topic} is still listed")
    begin = time.monotonic()
    expect_equal("delete again", call(context, "topic", "delete", topic).returncode, REFUSED)
    seconds = time.monotonic() - begin
    expect(seconds < AT_ONCE_SECONDS_MAX, f"that there is no {topic} took {seconds:.1f} s to tell")
    expect_equal("consume", call(context, "consume", topic + "-never").returncode, REFUSED)
    expect_equal("bad option", call(context, "topic", "list", "--nonsense").returncode, USAGE)


def unreachable(context: Context) -> None:
    """No broker: exit code 3, at once, and the message says what to do."""
    done = run_any([str(context.broker.launch.binary), "topic", "list", "-b", "127.0.0.1:1"])
    expect_equal("exit code", done.returncode, UNREACHABLE)
    expect("127.0.0.1:1" in done.stderr.decode(), f"it said: {done.stderr!r}")


def same_partitions_as_java(context: Context) -> str:
    """Keys go to the partitions that Java's producer would choose (murmur2)."""
    topic = context.topic("cli-keys", 7)
    # Every length modulo the hash's word, one to four bytes a character.
    keys = [f"{n}-" + "kä漢🔑"[n % 4] * (n % 11) for n in range(10_000)]
    lines = "".join(f"{key}\t{{}}\n" for key in keys)
    text_of(context, "produce", topic, "-k", "\t", stdin=lines.replace("{}", "ours"))
    context.tools.tool(
        "console-producer",
        "--topic",
        topic,
        "--reader-property",
        "parse.key=true",
        stdin=lines.replace("{}", "java").encode(),
    )
    placed: dict[bytes, dict[bytes, int]] = {b"ours": {}, b"java": {}}
    for message in clients.read_topic(context.bootstrap, topic, 7):
        value, key, partition = message.value(), message.key(), message.partition()
        assert value is not None and key is not None and partition is not None
        placed[value][key] = partition
    expect_equal("keys", len(placed[b"ours"]), len(keys))
    expect_equal("partitions by key", placed[b"ours"], placed[b"java"])
    expect(len(set(placed[b"ours"].values())) > 1, "all keys in one partition")
    return f"{len(keys)} keys"


def codec(name: str) -> Check:
    """What we compress kcat reads; what kcat compresses we read."""

    def check(context: Context) -> str:
        topic = context.topic(f"cli-{name}")
        context.codecs[topic] = name
        lines = "".join(f"a line of ours that compresses {n}\n" for n in range(3_000))
        text_of(context, "produce", topic, "-z", name, stdin=lines)
        read = context.tools.kcat(
            "-C", "-t", topic, "-o", "beginning", "-e", "-X", "check.crcs=true"
        )
        expect_equal("kcat reads", read, lines)
        theirs = context.topic(f"cli-reads-{name}")
        settings = ("-X", f"compression.codec={name}", "-X", "linger.ms=300")
        context.tools.kcat("-P", "-t", theirs, *settings, stdin=lines.encode())
        expect_equal("we read", text_of(context, "consume", theirs), lines)
        tail = text_of(context, "consume", theirs, "-p", "0", "-O", "2990")
        expect_equal("we read from 2990", tail.splitlines(), lines.splitlines()[2990:])
        return "3000 records each way"

    return check


CHECKS: dict[str, Check] = {
    "cli-hello": hello,
    "cli-topics": topics,
    "cli-unreachable": unreachable,
    "cli-keys": same_partitions_as_java,
    **{f"cli-codec-{name}": codec(name) for name in CODECS},
}
