"""Kafka's tools that look at a cluster, trim it, or drive a load and tell what became of it."""

import json
import re
import struct
import subprocess
import threading

from harness import clients
from harness.kafka_tools import TOOL_SECONDS_MAX
from harness.paths import KAFKA_SH
from harness.raw import API_VERSIONS, Connection
from harness.report import Skipped, expect, expect_equal

from . import Check, Context

LATENCY_RECORDS, VERIFIABLE_RECORDS = 200, 500
DELETE_RECORDS, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS = 21, 35, 61


def advertised(context: Context) -> set[int]:
    """The keys of the APIs that the broker offers."""
    with Connection(context.broker.port) as connection:
        answer = connection.call(API_VERSIONS, 0, b"")
    count = struct.unpack_from(">i", answer, 2)[0]
    return {struct.unpack_from(">h", answer, 6 + 6 * n)[0] for n in range(count)}


def needs(context: Context, key: int) -> None:
    """Skips the check where an API is not built yet."""
    if key not in advertised(context):
        raise Skipped(f"API {key} is not served yet")


def cluster(context: Context) -> str:
    """kafka-cluster tells the id that clients see, and the node that they reach."""
    out = context.tools.tool("cluster", after="cluster-id")
    cluster_id = clients.admin(context.bootstrap).list_topics(timeout=20).cluster_id
    expect_equal("cluster id", out.strip(), f"Cluster ID: {cluster_id}")
    rows = context.tools.tool("cluster", after="list-endpoints").splitlines()
    columns, row = rows[0].split(), rows[1].split()
    found = dict(zip(columns, row, strict=True))
    expect_equal("endpoints", len(rows), 2)
    expect_equal("endpoint", f"{found['HOST']}:{found['PORT']}", context.bootstrap)
    expect_equal("state", (found["STATE"], found["ENDPOINT_TYPE"]), ("unfenced", "broker"))
    return str(cluster_id)


def api_versions(context: Context) -> str:
    """kafka-broker-api-versions can use every API that is offered."""
    out = context.tools.tool("broker-api-versions")
    usable = {int(key) for key in re.findall(r"\((\d+)\): [^\n]*\[usable: \d+\]", out)}
    expect_equal("not usable", sorted(advertised(context) - usable), [])
    return f"{len(usable)} APIs"


def latency(context: Context) -> str:
    """kafka-e2e-latency sends a record, waits until its consumer has it, and sends the next.

    When it has told what it measured it commits its offsets, which needs groups: it is ended there.
    """
    topic = context.topic("java-latency")
    command = [str(KAFKA_SH), "e2e-latency", "--bootstrap-server", context.bootstrap]
    command += ["--topic", topic, "--num-records", str(LATENCY_RECORDS)]
    command += ["--producer-acks", "all", "--record-size", "100"]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(TOOL_SECONDS_MAX, process.kill)
        late.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("Percentiles"):
                break
        late.cancel()
        process.kill()
    expect(bool(lines) and lines[-1].startswith("Percentiles"), f"it said: {lines[-5:]}")
    expect_equal("records", len(clients.read_topic(context.bootstrap, topic)), LATENCY_RECORDS)
    return lines[-1]


def verifiable(context: Context) -> str:
    """kafka-verifiable-producer says of each record where it went; there it is."""
    topic = context.topic("java-verifiable", 2)
    count = ("--max-messages", str(VERIFIABLE_RECORDS))
    out = context.tools.tool("verifiable-producer", "--topic", topic, "--acks", "-1", *count)
    said = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    sent = [one for one in said if one["name"] == "producer_send_success"]
    expect_equal("acknowledged", len(sent), VERIFIABLE_RECORDS)
    places = {(one["partition"], one["offset"]): one["value"].encode() for one in sent}
    got = clients.read_topic(context.bootstrap, topic, 2)
    found = {clients.place_of(message): clients.value_of(message) for message in got}
    expect_equal("records", found, places)
    return f"{len(found)} records"


def delete_records(context: Context) -> str:
    """kafka-delete-records trims a partition; consumers begin at what is left."""
    needs(context, DELETE_RECORDS)
    topic = context.topic("java-trimmed")
    client, delivery = clients.producer(context.bootstrap), clients.Delivery()
    for n in range(100):
        client.produce(topic, f"value {n}", partition=0, on_delivery=delivery)
    delivery.finish(client, 100)
    places = [{"topic": topic, "partition": 0, "offset": 42}]
    file = context.scratch / f"{topic}.json"
    file.write_text(json.dumps({"partitions": places, "version": 1}))
    out = context.tools.tool("delete-records", "--offset-json-file", str(file))
    expect("low_watermark: 42" in out, f"it said: {out[-300:]}")
    out = context.tools.tool("get-offsets", "--topic", topic, "--time", "-2")
    expect_equal("earliest", out.strip(), f"{topic}:0:42")
    return "42 of 100 records are gone"


def log_dirs(context: Context) -> str:
    """kafka-log-dirs finds every partition of a topic, with the bytes that it holds."""
    needs(context, DESCRIBE_LOG_DIRS)
    topic = context.topic("java-log-dirs", 2)
    client, delivery = clients.producer(context.bootstrap), clients.Delivery()
    client.produce(topic, b"x" * 10_000, partition=1, on_delivery=delivery)
    delivery.finish(client, 1)
    out = context.tools.tool("log-dirs", "--describe", "--topic-list", topic)
    told = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    directories = told["brokers"][0]["logDirs"]
    expect_equal("errors", [one["error"] for one in directories], [None] * len(directories))
    sizes = {row["partition"]: row["size"] for one in directories for row in one["partitions"]}
    expect_equal("partitions", sorted(sizes), [f"{topic}-0", f"{topic}-1"])
    expect(sizes[f"{topic}-0"] == 0 and sizes[f"{topic}-1"] > 10_000, f"sizes {sizes}")
    return str(sizes)


def producers(context: Context) -> str:
    """kafka-transactions tells who appends to a partition, and how far each has come."""
    needs(context, DESCRIBE_PRODUCERS)
    topic = context.topic("java-producers", 2)
    for count in (3, 5):
        client = clients.producer(context.bootstrap, enable_idempotence=True)
        delivery = clients.Delivery()
        for n in range(count):
            client.produce(topic, f"value {n}", partition=1, on_delivery=delivery)
        delivery.finish(client, count)
    told = []
    for partition in ("0", "1"):
        place = ("describe-producers", "--topic", topic, "--partition", partition)
        # The word for what to do comes last here, and its arguments follow it.
        said = context.tools.tool("transactions", *place)
        told.append([line.split() for line in said.splitlines()])
    expect_equal("rows", [len(rows) for rows in told], [1, 3])
    found = [dict(zip(told[1][0], row, strict=True)) for row in told[1][1:]]
    expect_equal("last sequences", sorted(row["LastSequence"] for row in found), ["2", "4"])
    for row in found:
        none = (row["LatestCoordinatorEpoch"], row["CurrentTransactionStartOffset"])
        expect_equal("of transactions", none, ("-1", "None"))
    return f"producers {', '.join(row['ProducerId'] for row in found)}"


CHECKS: dict[str, Check] = {
    "java-cluster": cluster,
    "java-api-versions": api_versions,
    "java-latency": latency,
    "java-verifiable-producer": verifiable,
    "java-delete-records": delete_records,
    "java-log-dirs": log_dirs,
    "java-producers": producers,
}
