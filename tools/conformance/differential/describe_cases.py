"""Cases for the APIs that only tell."""

from .admin_cases import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    METRICS_RESOURCE,
    RESOURCES,
    TOPIC_RESOURCE,
)
from .cases import ABSENT, CONFIGURED, TIMEOUT_MS, TOPIC, TRIMMED, Cases
from .schema import Fields, Value
from .side import OWN_CLUSTER, ZERO_ID


def add(cases: Cases) -> None:
    """All of them."""
    api_versions(cases)
    metadata(cases)
    describe_configs(cases)
    cluster(cases)
    describe_topic_partitions(cases)
    log_dirs(cases)
    producers(cases)


def api_versions(cases: Cases) -> None:
    """What is offered, and to whom."""
    add, api = cases.add, "ApiVersions"
    client = {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1.0"}
    add(api, "plain", client, range(6))
    add(api, "no-software", {}, cases.since(api, 3))
    for what, name in (("space", "a b"), ("dash-first", "-a"), ("not-ascii", "ä")):
        add(api, f"software-{what}", {**client, "ClientSoftwareName": name}, cases.since(api, 3))
    # KIP-1242: whom a client means to have reached.
    for what, cluster_id, node_id in (
        ("own-node", OWN_CLUSTER, 1),
        ("own-cluster", OWN_CLUSTER, -1),
        ("own-node-alone", None, 1),
        ("other-node", OWN_CLUSTER, 9),
        ("other-node-alone", None, 9),
        ("other-cluster", "x", 1),
        ("other-cluster-alone", "x", -1),
        ("empty-cluster", "", -1),
    ):
        add(api, what, {**client, "ClusterId": cluster_id, "NodeId": node_id}, (5,))


def metadata(cases: Cases) -> None:
    """Topics by name and by id; a topic that is not there is not made."""

    def ask(*names: str, **more: Value) -> Fields:
        topics = [{"Name": name, "TopicId": ZERO_ID} for name in names]
        return {"Topics": topics, "AllowAutoTopicCreation": False, **more}

    def by_id(topic_id: str, name: str | None = None) -> Fields:
        return ask(Topics=[{"Name": name, "TopicId": topic_id}])

    add, api = cases.add, "Metadata"
    add(api, "known", ask(TOPIC), range(14))
    add(api, "unknown", ask(ABSENT))
    add(api, "unknown-creation-allowed", ask(ABSENT, AllowAutoTopicCreation=True))
    add(api, "both", ask(TOPIC, ABSENT))
    add(api, "twice", ask(TOPIC, TOPIC))
    for what, name in {"slash": "a/b", "dots": "..", "no-name": "", "long": "x" * 250}.items():
        add(api, f"bad-name-{what}", ask(name))
    add(api, "no-topics", ask())
    add(api, "all", ask(Topics=None), cases.since(api, 1))
    operations = {"IncludeTopicAuthorizedOperations": True}
    operations["IncludeClusterAuthorizedOperations"] = True
    add(api, "operations", ask(TOPIC, **operations), (8, 10, 13))
    add(api, "by-id", by_id(f"@{TOPIC}"), (10, 11, 12, 13))
    add(api, "by-unknown-id", by_id("cd" * 16), (12, 13))
    add(api, "by-zero-id", by_id(ZERO_ID), (10, 12, 13))
    add(api, "by-id-and-name", by_id(f"@{TOPIC}", TOPIC), (12, 13))
    add(api, "by-id-and-other-name", by_id(f"@{TOPIC}", ABSENT), (12, 13))


def describe_configs(cases: Cases) -> None:
    """Keys, sources and synonyms of topics and brokers."""

    def ask(kind: int, name: str, keys: Value = None, **more: Value) -> Fields:
        one = {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}
        return {"Resources": [one], **more}

    add, api = cases.add, "DescribeConfigs"
    full = {"IncludeSynonyms": True, "IncludeDocumentation": True}
    add(api, "topic", ask(TOPIC_RESOURCE, TOPIC))
    add(api, "topic-full", ask(TOPIC_RESOURCE, CONFIGURED, **full))
    add(api, "topic-keys", ask(TOPIC_RESOURCE, TOPIC, ["retention.ms", "segment.bytes"]))
    add(api, "topic-unknown-key", ask(TOPIC_RESOURCE, TOPIC, ["no.such.key"]))
    add(api, "topic-key-twice", ask(TOPIC_RESOURCE, TOPIC, ["retention.ms", "retention.ms"]))
    add(api, "topic-no-keys", ask(TOPIC_RESOURCE, TOPIC, []))
    add(api, "broker-full", ask(BROKER_RESOURCE, "1", **full))
    add(api, "broker-keys", ask(BROKER_RESOURCE, "1", ["num.partitions"]))
    add(api, "brokers-full", ask(BROKER_RESOURCE, "", **full))
    for what, (kind, name) in RESOURCES.items():
        if what not in ("broker", "brokers"):
            add(api, what, ask(kind, name))
    add(api, "logger-of-other-broker", ask(LOGGER_RESOURCE, "9"))
    add(api, "metrics", ask(METRICS_RESOURCE, "x"))
    add(api, "group", ask(GROUP_RESOURCE, "x"))
    add(api, "no-group-name", ask(GROUP_RESOURCE, ""))
    twice = ask(TOPIC_RESOURCE, TOPIC, ["retention.ms"])
    twice["Resources"] *= 2
    add(api, "twice", twice)
    add(api, "none", {})


def cluster(cases: Cases) -> None:
    """Nodes, voters, resources, what moves."""
    add = cases.add
    for what, body in {
        "plain": {},
        "operations": {"IncludeClusterAuthorizedOperations": True},
        "controllers": {"EndpointType": 2},
        "endpoint-9": {"EndpointType": 9},
        "fenced": {"IncludeFencedBrokers": True},
    }.items():
        add("DescribeCluster", what, body)

    def quorum(topic: str, *partitions: int) -> Fields:
        rows = [{"PartitionIndex": partition} for partition in partitions]
        return {"Topics": [{"TopicName": topic, "Partitions": rows}]}

    add("DescribeQuorum", "plain", quorum("__cluster_metadata", 0))
    add("DescribeQuorum", "other-partition", quorum("__cluster_metadata", 1))
    add("DescribeQuorum", "two-partitions", quorum("__cluster_metadata", 0, 1))
    add("DescribeQuorum", "no-partitions", quorum("__cluster_metadata"))
    add("DescribeQuorum", "other-topic", quorum(TOPIC, 0))
    add("DescribeQuorum", "none", {})
    for what, kinds in {
        "all": [],
        "topics": [TOPIC_RESOURCE],
        "brokers": [BROKER_RESOURCE],
        "metrics": [METRICS_RESOURCE],
        "groups": [GROUP_RESOURCE],
        "loggers": [LOGGER_RESOURCE],
        "unknown": [99],
        "topic-and-unknown": [TOPIC_RESOURCE, 99],
        "twice": [BROKER_RESOURCE, BROKER_RESOURCE],
    }.items():
        add("ListConfigResources", what, {"ResourceTypes": kinds})
    api = "ListPartitionReassignments"
    for what, topics in {
        "all": None,
        "some": [{"Name": TOPIC, "PartitionIndexes": [0, 1]}],
        "unknown-topic": [{"Name": ABSENT, "PartitionIndexes": [0]}],
        "unknown-partition": [{"Name": TOPIC, "PartitionIndexes": [99]}],
        "none": [],
    }.items():
        add(api, what, {"Topics": topics, "TimeoutMs": TIMEOUT_MS})


def describe_topic_partitions(cases: Cases) -> None:
    """Page by page."""

    def ask(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Fields:
        at = cursor and {"TopicName": cursor[0], "PartitionIndex": cursor[1]}
        topics = [{"Name": name} for name in names]
        return {"Topics": topics, "ResponsePartitionLimit": limit, "Cursor": at}

    for what, body in {
        "known": ask(TOPIC),
        "all": ask(),
        "unknown": ask(ABSENT),
        "bad-name": ask("a/b"),
        "no-name": ask(""),
        "several": ask(TOPIC, CONFIGURED, ABSENT),
        "twice": ask(TOPIC, TOPIC),
        "limit-1": ask(TOPIC, CONFIGURED, limit=1),
        "limit-2": ask(TOPIC, CONFIGURED, limit=2),
        "limit-0": ask(TOPIC, limit=0),
        "limit-negative": ask(TOPIC, limit=-1),
        "cursor": ask(TOPIC, CONFIGURED, cursor=(TOPIC, 1)),
        "cursor-at-end": ask(TOPIC, CONFIGURED, cursor=(TOPIC, 2)),
        "cursor-of-first": ask(TOPIC, CONFIGURED, cursor=(CONFIGURED, 1)),
        "cursor-of-unknown": ask(TOPIC, cursor=(ABSENT, 0)),
        "cursor-past-all": ask(TOPIC, cursor=("zzz", 0)),
        "cursor-negative": ask(TOPIC, cursor=(TOPIC, -1)),
        "cursor-no-name": ask(TOPIC, cursor=("", 0)),
        "cursor-alone": ask(cursor=(TOPIC, 1)),
    }.items():
        cases.add("DescribeTopicPartitions", what, body)


def log_dirs(cases: Cases) -> None:
    """Where partitions lie, and how much each holds."""
    for what, topics in {
        "some": [{"Topic": TOPIC, "Partitions": [0, 1]}],
        "all": None,
        "none": [],
        "unknown-topic": [{"Topic": ABSENT, "Partitions": [0]}],
        "unknown-partition": [{"Topic": TOPIC, "Partitions": [99]}],
        "no-partitions": [{"Topic": TOPIC, "Partitions": []}],
        "partition-twice": [{"Topic": TRIMMED, "Partitions": [1, 1]}],
    }.items():
        cases.add("DescribeLogDirs", what, {"Topics": topics})


def producers(cases: Cases) -> None:
    """Who appends where."""
    for what, name, partitions in (
        ("active", TOPIC, [1]),
        ("nobody", TOPIC, [0]),
        ("unknown-topic", ABSENT, [0]),
        ("unknown-partition", TOPIC, [99]),
        ("negative-partition", TOPIC, [-1]),
        ("no-partitions", TOPIC, []),
    ):
        topics = [{"Name": name, "PartitionIndexes": partitions}]
        cases.add("DescribeProducers", what, {"Topics": topics})
    cases.add("DescribeProducers", "none", {})
