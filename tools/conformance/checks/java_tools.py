"""Apache Kafka's own command-line tools, unmodified, as operators use them."""

import re

from confluent_kafka import TopicPartition

from harness import clients
from harness.clients import CODECS
from harness.report import expect, expect_equal

from . import Check, Context

# The records of a producer-perf-test, enough for several batches in flight.
PERF_RECORDS = 20_000


def topics(context: Context) -> None:
    """kafka-topics creates, lists, describes and deletes."""
    topic = context.name("java-topics")
    config = ("--config", "segment.bytes=2097152")
    out = context.tools.tool("topics", "--create", "--topic", topic, "--partitions", "3", *config)
    expect_equal("create", out.strip(), f"Created topic {topic}.")
    expect(topic in context.tools.tool("topics", "--list").split(), f"{topic} is not listed")
    lines = context.tools.tool("topics", "--describe", "--topic", topic).splitlines()
    fields = dict(part.split(": ", 1) for part in lines[0].strip().split("\t") if ": " in part)
    expect_equal("partition count", fields["PartitionCount"], "3")
    expect_equal("replication factor", fields["ReplicationFactor"], "1")
    expect(len(fields["TopicId"]) == 22, f"topic id {fields['TopicId']}")
    expect("segment.bytes=2097152" in fields["Configs"], f"configs {fields['Configs']}")
    described = [re.findall(r"(Partition|Leader|Replicas|Isr): (\d+)", line) for line in lines[1:]]
    node = dict(described[0])["Leader"]
    expected = [
        [("Partition", str(n)), ("Leader", node), ("Replicas", node), ("Isr", node)]
        for n in range(3)
    ]
    expect_equal("partitions", described, expected)
    context.tools.tool("topics", "--delete", "--topic", topic)
    expect(topic not in context.tools.tool("topics", "--list").split(), f"{topic} is still listed")


def growth(context: Context) -> None:
    """kafka-topics adds partitions, by count and by hand, and is refused what is no increase."""
    topic = context.topic("java-growth", 1)
    alter = ("--alter", "--topic", topic, "--partitions")
    context.tools.tool("topics", *alter, "3")
    lines = context.tools.tool("topics", "--describe", "--topic", topic).splitlines()
    node = dict(re.findall(r"(Partition|Leader): (\d+)", lines[1]))["Leader"]
    context.tools.tool("topics", *alter, "4", "--replica-assignment", ",".join([node] * 4))
    lines = context.tools.tool("topics", "--describe", "--topic", topic).splitlines()
    described = [dict(re.findall(r"(Partition|Leader): (\d+)", line)) for line in lines[1:]]
    expected = [{"Partition": str(n), "Leader": node} for n in range(4)]
    expect_equal("partitions", described, expected)
    said = context.tools.refused("topics", *alter, "2")
    expect("InvalidPartitionsException" in said, f"2 of 4 partitions: {said[-400:]}")


def configs(context: Context) -> None:
    """kafka-configs alters and describes topics, one broker and all brokers."""
    topic = context.topic("java-configs", 1)
    lines = context.tools.tool("topics", "--describe", "--topic", topic).splitlines()
    node = dict(re.findall(r"(Partition|Leader): (\d+)", lines[1]))["Leader"]
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    of_node = ("--entity-type", "brokers", "--entity-name", node)
    of_all = ("--entity-type", "brokers", "--entity-default")

    def alter(of: tuple[str, ...], *change: str) -> None:
        context.tools.tool("configs", *of, "--alter", *change)

    def described(of: tuple[str, ...], key: str) -> str:
        """The line of one dynamic configuration, or nothing."""
        out = context.tools.tool("configs", *of, "--describe")
        return next((line.strip() for line in out.splitlines() if f" {key}=" in line), "")

    alter(of_topic, "--add-config", "retention.ms=5000,flush.ms=7")
    alter(of_topic, "--delete-config", "flush.ms")
    found = described(of_topic, "retention.ms")
    expect(found.startswith("retention.ms=5000 sensitive=false"), f"retention.ms: {found}")
    expect("DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in found, f"synonyms: {found}")
    expect_equal("flush.ms", described(of_topic, "flush.ms"), "")
    said = context.tools.refused("configs", *of_topic, "--alter", "--add-config", "retention.ms=x")
    expect("InvalidConfigurationException" in said, f"retention.ms=x: {said[-400:]}")

    alter(of_all, "--add-config", "message.max.bytes=900000")
    alter(of_node, "--add-config", "message.max.bytes=800000")
    found = described(of_node, "message.max.bytes")
    for source in ("DYNAMIC_BROKER_CONFIG:message.max.bytes=800000", "900000", "1048588"):
        expect(source in found, f"no {source} in {found}")
    alter(of_node, "--delete-config", "message.max.bytes")
    alter(of_all, "--delete-config", "message.max.bytes")
    expect_equal("all brokers", described(of_all, "message.max.bytes"), "")


def quorum(context: Context) -> None:
    """kafka-metadata-quorum finds a leader that has all of its log."""
    out = context.tools.tool("metadata-quorum", "describe", "--status")
    fields = dict(line.split(":", 1) for line in out.splitlines() if ":" in line)
    leader = fields["LeaderId"].strip()
    expect_equal("lag", fields["MaxFollowerLag"].strip(), "0")
    expect(int(fields["HighWatermark"]) > 0, f"high watermark {fields['HighWatermark']}")
    expect(f'"id": {leader}' in fields["CurrentVoters"], f"voters {fields['CurrentVoters']}")
    out = context.tools.tool("metadata-quorum", "describe", "--replication")
    rows = [line.split() for line in out.splitlines()[1:]]
    expect_equal("replicas", [(row[0], row[-1]) for row in rows], [(leader, "Leader")])


def features(context: Context) -> str:
    """kafka-features shows what is settled, and is refused a level that is not known."""
    out = context.tools.tool("features", "describe")
    rows = [dict(re.findall(r"(\w+): (\S+)", line)) for line in out.splitlines()]
    expect(len(rows) > 0, "no feature")
    for row in rows:
        levels = (row["SupportedMinVersion"], row["SupportedMaxVersion"])
        expect(all(levels), f"levels of {row}")
    name = rows[0]["Feature"]
    said = context.tools.refused("features", "upgrade", "--feature", f"{name}=30000")
    expect("Could not upgrade" in said, f"{name}=30000: {said[-400:]}")
    return ", ".join(f"{row['Feature']}={row['FinalizedVersionLevel']}" for row in rows)


def console(context: Context) -> str:
    """What kafka-console-producer sends, kafka-console-consumer reads from a partition's start."""
    topic = context.topic("java-console", 2)
    lines = "".join(f"h:{n}\tkey{n}\tvalue {n}\n" for n in range(200))
    parse = [
        word
        for setting in ("parse.key=true", "parse.headers=true", "null.marker=NULL")
        for word in ("--reader-property", setting)
    ]
    stdin = (lines + "NULL\tnobody\tNULL\n").encode()
    context.tools.tool("console-producer", "--topic", topic, *parse, stdin=stdin)
    show = [
        word
        for setting in ("print.key=true", "print.headers=true", "print.offset=true")
        for word in ("--formatter-property", setting)
    ]
    seen: list[str] = []
    for partition in (0, 1):
        held = clients.consumer(context.bootstrap)
        end = held.get_watermark_offsets(TopicPartition(topic, partition), 20)[1]
        held.close()
        expect(end > 0, f"partition {partition} got no record of 201")
        out = context.tools.tool(
            "console-consumer",
            "--topic",
            topic,
            "--partition",
            str(partition),
            "--offset",
            "earliest",
            "--max-messages",
            str(end),
            "--timeout-ms",
            "20000",
            *show,
        )
        split = [line.split("\t", 1) for line in out.splitlines()]
        expect_equal(
            "offsets", [offset for offset, _ in split], [f"Offset:{n}" for n in range(end)]
        )
        seen += [rest for _, rest in split]
    expected = [*lines.splitlines(), "NO_HEADERS\tnobody\tnull"]
    expect_equal("records", sorted(seen), sorted(expected))
    return "201 records, keys, headers, a null value"


def get_offsets(context: Context) -> None:
    """kafka-get-offsets: every special, by number and by name, and a timestamp."""
    topic = context.topic("java-offsets", 2)
    client, delivery = clients.producer(context.bootstrap), clients.Delivery()
    # The largest timestamp is not the last record's: max-timestamp has to look inside the batch.
    for n in range(10):
        stamp = 1_700_000_000_000 + (500 if n == 4 else n)
        client.produce(topic, b"%d" % n, partition=0, timestamp=stamp, on_delivery=delivery)
    delivery.finish(client, 10)
    # A partition whose answer is -1 gets no line: so Kafka 4.4 answers on a topic without tiers.
    rows = {
        ("-1", "latest"): {"0": "10", "1": "0"},
        ("-2", "earliest"): {"0": "0", "1": "0"},
        ("-3", "max-timestamp"): {"0": "4"},
        ("-4", "earliest-local"): {"0": "0", "1": "0"},
        ("-5", "latest-tiered"): {},
        ("-6", "earliest-pending-upload"): {},
        ("1700000000005",): {"0": "4"},
        ("1700000000501",): {},
    }
    for names, expected in rows.items():
        for name in names if context.full else names[:1]:
            out = context.tools.tool("get-offsets", "--topic", topic, "--time", name)
            split = [line.split(":") for line in out.split()]
            expect_equal(f"--time {name}", {part: offset for _, part, offset in split}, expected)


def perf(codec: str) -> Check:
    """kafka-producer-perf-test sends with one codec of Java's; librdkafka reads it."""

    def check(context: Context) -> str:
        topic = context.topic(f"java-perf-{codec}", 2)
        context.codecs[topic] = codec
        out = context.tools.tool(
            "producer-perf-test",
            "--topic",
            topic,
            "--num-records",
            str(PERF_RECORDS),
            "--record-size",
            "500",
            "--throughput",
            "-1",
            "--command-property",
            f"compression.type={codec}",
            "acks=all",
        )
        last = out.strip().splitlines()[-1]
        expect(last.startswith(f"{PERF_RECORDS} records sent"), f"it said: {last}")
        got = clients.read_topic(context.bootstrap, topic, 2)
        expect_equal("records", len(got), PERF_RECORDS)
        expect(
            all(len(clients.value_of(message)) == 500 for message in got),
            "a value of another length",
        )
        return last.split(",")[1].strip()

    return check


def console_codecs(context: Context) -> None:
    """kafka-console-consumer decompresses what librdkafka compressed, codec by codec."""
    for codec in CODECS:
        topic = context.topic(f"java-reads-{codec}")
        client = clients.producer(context.bootstrap, compression_type=codec)
        delivery = clients.Delivery()
        values = [f"compressible compressible {n}" for n in range(500)]
        for value in values:
            client.produce(topic, value, on_delivery=delivery)
        delivery.finish(client, 500)
        out = context.tools.tool(
            "console-consumer",
            "--topic",
            topic,
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--max-messages",
            "500",
            "--timeout-ms",
            "20000",
        )
        expect_equal(f"values, {codec}", out.splitlines(), values)


def sessions(context: Context) -> str:
    """Java's consumer reads in a fetch session, a batch a request, and closes it when it goes."""
    topic = context.topic("java-sessions", 1)
    count = 100
    client = clients.producer(context.bootstrap, linger_ms=0)
    for n in range(count):
        # Flushed one by one: each record is a batch of its own.
        client.produce(topic, f"value {n}", partition=0)
        client.flush()
    before = context.broker.metrics() if context.broker.launch.is_corelog else {}
    out = context.tools.tool(
        "console-consumer",
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        str(count),
        "--timeout-ms",
        "20000",
        "--command-property",
        "max.partition.fetch.bytes=100",
    )
    expect_equal("values", out.splitlines(), [f"value {n}" for n in range(count)])
    if not before:
        return "the reference has no such metric"
    after = context.broker.metrics()
    used = after["corelog_fetches_incremental_total"] - before["corelog_fetches_incremental_total"]
    expect(used > count / 4, f"only {used} of some {count} fetches went on in a session")
    expect_equal("sessions left", after["corelog_fetch_sessions"], before["corelog_fetch_sessions"])
    return f"{used:.0f} incremental fetches"


CHECKS: dict[str, Check] = {
    "java-topics": topics,
    "java-growth": growth,
    "java-configs": configs,
    "java-quorum": quorum,
    "java-features": features,
    "java-console": console,
    "java-get-offsets": get_offsets,
    **{f"java-perf-{codec}": perf(codec) for codec in CODECS},
    "java-console-codecs": console_codecs,
    "java-sessions": sessions,
}
