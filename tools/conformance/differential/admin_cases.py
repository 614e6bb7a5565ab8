"""Cases for the APIs that create, change and delete."""

from .cases import ABSENT, CONFIGURED, NEVER_SECONDS, TIMEOUT_MS, TOPIC, Cases
from .schema import Fields, Value
from .side import ZERO_ID

TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def add(cases: Cases) -> None:
    """All of them, in the order in which they are sent."""
    create_topics(cases)
    create_partitions(cases)
    alter_configs(cases)
    alter_incrementally(cases)
    update_features(cases)
    delete_topics(cases)


def created(name: str, partitions: int = 1, replicas: int = 1, **more: Value) -> Fields:
    """A topic to create; `configs` as a dict, `on` as the brokers of each partition."""
    configs = [{"Name": key, "Value": value} for key, value in more.pop("configs", {}).items()]
    on = [
        {"PartitionIndex": index, "BrokerIds": brokers}
        for index, brokers in more.pop("on", {}).items()
    ]
    topic = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replicas}
    topic.update({"Configs": configs, "Assignments": on})
    return {"Topics": [topic], "TimeoutMs": TIMEOUT_MS, **more}


def create_topics(cases: Cases) -> None:
    """Names, counts, assignments and configurations, good and bad."""
    for version in cases.ends("CreateTopics"):
        for what, body in {
            "good": created(f"diff-new-{version}"),
            "again": created(f"diff-new-{version}"),
            "with-configs": created(
                f"diff-with-configs-{version}",
                3,
                configs={"segment.bytes": "2097152", "retention.ms": "-1"},
            ),
            "assigned": created(f"diff-assigned-{version}", -1, -1, on={0: [1], 1: [1]}),
            "default-counts": created(f"diff-defaults-{version}", -1, -1),
        }.items():
            cases.add("CreateTopics", what, body, (version,))
    create_with_names(cases)
    create_with_counts(cases)
    create_with_configs(cases)
    add, api = cases.add, "CreateTopics"
    add(api, "validate-only", {**created("diff-not-made"), "ValidateOnly": True})
    add(api, "no-topics", {"TimeoutMs": TIMEOUT_MS})
    add(api, "timeout-0", {**created("diff-in-no-time"), "TimeoutMs": 0, "ValidateOnly": True})


def create_with_names(cases: Cases) -> None:
    """Names that may not be, and one that just may."""
    for what, name in {
        "slash": "a/b",
        "dot": ".",
        "dots": "..",
        "space": "a b",
        "not-ascii": "größe",
        "long-name": "x" * 250,
        "no-name": "",
        "internal-name": "__cluster_metadata",
    }.items():
        cases.add("CreateTopics", what, created(name))
    cases.add("CreateTopics", "collides", created("diff_new-7"))
    longest = {**created("y" * 249), "ValidateOnly": True}
    cases.add("CreateTopics", "longest-name", longest)


def create_with_counts(cases: Cases) -> None:
    """Partitions and replicas, by number and by name."""
    for what, partitions, replicas in (
        ("zero-partitions", 0, 1),
        ("negative-partitions", -2, 1),
        ("zero-replicas", 1, 0),
        ("negative-replicas", 1, -2),
        ("too-many-replicas", 1, 3),
    ):
        cases.add("CreateTopics", what, created("diff-counts", partitions, replicas))
    for what, on in {
        "unknown-broker": {0: [9]},
        "negative-broker": {0: [-1]},
        "broker-twice": {0: [1, 1]},
        "no-brokers": {0: []},
        "partition-missing": {0: [1], 2: [1]},
        "negative-partition": {-1: [1]},
        "uneven": {0: [1], 1: [1, 2]},
    }.items():
        cases.add("CreateTopics", f"assigned-{what}", created("diff-on", -1, -1, on=on))
    counted = created("diff-on", 1, 1, on={0: [1]})
    cases.add("CreateTopics", "assigned-and-counted", counted)


def create_with_configs(cases: Cases) -> None:
    """Configurations that may not be, and what stands twice."""
    bad_configs: dict[str, dict[str, str | None]] = {
        "no-number": {"segment.bytes": "7d"},
        "too-small": {"segment.bytes": "-1"},
        "too-large": {"segment.bytes": "99999999999"},
        "empty": {"segment.bytes": ""},
        "null": {"segment.bytes": None},
        "unknown": {"no.such.key": "1"},
        "no-word": {"cleanup.policy": "shred"},
        "no-boolean": {"preallocate": "maybe"},
        "no-codec": {"compression.type": "rar"},
        "no-name": {"": "1"},
    }
    for what, configs in bad_configs.items():
        cases.add("CreateTopics", f"config-{what}", created("diff-odd", configs=configs))
    twice = created("diff-twice")
    twice["Topics"] *= 2
    cases.add("CreateTopics", "twice", twice)
    twice = created("diff-config-twice", configs={"retention.ms": "1"})
    twice["Topics"][0]["Configs"] *= 2
    cases.add("CreateTopics", "config-twice", {**twice, "ValidateOnly": True})


def delete_topics(cases: Cases) -> None:
    """By name and by id."""

    def delete(*names: str) -> Fields:
        topics = [{"Name": name, "TopicId": ZERO_ID} for name in names]
        return {"TopicNames": list(names), "Topics": topics, "TimeoutMs": TIMEOUT_MS}

    def by_id(topic_id: str, name: str | None = None) -> Fields:
        return {"Topics": [{"Name": name, "TopicId": topic_id}], "TimeoutMs": TIMEOUT_MS}

    add, api = cases.add, "DeleteTopics"
    for version in cases.ends(api):
        for what in ("good", "again"):
            # The versions of the creation: the oldest and the newest of that API.
            made = cases.ends("CreateTopics")[version != cases.ends(api)[0]]
            add(api, what, delete(f"diff-new-{made}"), (version,))
    add(api, "unknown", delete(ABSENT))
    add(api, "bad-name", delete("a/b"))
    add(api, "no-name", delete(""))
    add(api, "twice", delete("diff-with-configs-2", "diff-with-configs-2"))
    add(api, "none", {"TimeoutMs": TIMEOUT_MS})
    newest = cases.ends(api)[-1:]
    add(api, "by-id", by_id("@diff-assigned-7"), newest)
    add(api, "by-id-again", by_id("@diff-assigned-7"), newest)
    add(api, "by-unknown-id", by_id("cd" * 16), newest)
    add(api, "by-zero-id", by_id(ZERO_ID), newest)
    add(api, "by-id-and-name", by_id(f"@{TOPIC}", TOPIC), newest)


def create_partitions(cases: Cases) -> None:
    """Growing a topic."""

    def grow(count: int, name: str = CONFIGURED, on: Value = None, **more: Value) -> Fields:
        assigned = None if on is None else [{"BrokerIds": brokers} for brokers in on]
        topic = {"Name": name, "Count": count, "Assignments": assigned}
        return {"Topics": [topic], "TimeoutMs": TIMEOUT_MS, **more}

    add, api = cases.add, "CreatePartitions"
    for version in cases.ends(api):
        add(api, "good", grow(2 if version == 0 else 4), (version,))
        add(api, "assigned", grow(3 if version == 0 else 5, on=[[1]]), (version,))
    add(api, "same", grow(5))
    add(api, "fewer", grow(1))
    add(api, "zero", grow(0))
    add(api, "negative", grow(-1))
    add(api, "validate-only", grow(9, ValidateOnly=True))
    add(api, "unknown", grow(5, ABSENT))
    add(api, "bad-name", grow(5, "a/b"))
    add(api, "assigned-too-few", grow(9, on=[[1]]))
    add(api, "assigned-too-many", grow(6, on=[[1], [1]]))
    add(api, "assigned-nothing", grow(9, on=[]))
    add(api, "assigned-unknown-broker", grow(6, on=[[9]]))
    add(api, "assigned-no-brokers", grow(6, on=[[]]))
    add(api, "assigned-broker-twice", grow(6, on=[[1, 1]]))
    twice = grow(9)
    twice["Topics"] *= 2
    add(api, "twice", twice)
    add(api, "none", {"TimeoutMs": TIMEOUT_MS})


def altered(configs: dict[str, str | None], **more: Value) -> Fields:
    """A resource and its whole set; `name` and `kind` other than the configured topic's."""
    rows = [{"Name": key, "Value": value} for key, value in configs.items()]
    kind, name = more.pop("kind", TOPIC_RESOURCE), more.pop("name", CONFIGURED)
    one = {"ResourceType": kind, "ResourceName": name, "Configs": rows}
    return {"Resources": [one], **more}


# Which resources there are, and which are none; by what a case calls them.
RESOURCES: dict[str, tuple[int, str]] = {
    "unknown-topic": (TOPIC_RESOURCE, ABSENT),
    "no-topic-name": (TOPIC_RESOURCE, ""),
    "bad-topic-name": (TOPIC_RESOURCE, "a/b"),
    "broker": (BROKER_RESOURCE, "1"),
    "brokers": (BROKER_RESOURCE, ""),
    "other-broker": (BROKER_RESOURCE, "9"),
    "no-broker-id": (BROKER_RESOURCE, "one"),
    "kind-0": (0, "x"),
    "kind-1": (1, "x"),
    "kind-99": (99, "x"),
}


def alter_configs(cases: Cases) -> None:
    """The whole set at once."""
    add, api = cases.add, "AlterConfigs"
    add(api, "good", altered({"retention.ms": "86400000", "max.message.bytes": "2000000"}))
    add(api, "empty-set", altered({}))
    add(api, "validate-only", altered({"retention.ms": "5"}, ValidateOnly=True))
    for what, key, value in VALUES:
        add(api, f"value-{what}", altered({key: value}))
    good_and_bad = altered({"retention.ms": "7", "no.such.key": "1"})
    add(api, "half-good", good_and_bad)
    for what, (kind, name) in RESOURCES.items():
        add(api, what, altered({}, kind=kind, name=name, ValidateOnly=True))
    twice = altered({"retention.ms": "5"})
    twice["Resources"] *= 2
    add(api, "twice", twice, seconds=NEVER_SECONDS)
    twice = altered({"retention.ms": "5"})
    twice["Resources"][0]["Configs"] *= 2
    add(api, "key-twice", twice)
    add(api, "none", {})


# What a value may be wrong in.
VALUES: tuple[tuple[str, str, str | None], ...] = (
    ("no-number", "retention.ms", "7d"),
    ("spaces", "retention.ms", " 700000 "),
    ("too-small", "retention.ms", "-2"),
    ("too-large", "max.message.bytes", "2147483648"),
    ("empty", "retention.ms", ""),
    ("null", "retention.ms", None),
    ("unknown-key", "no.such.key", "1"),
    ("no-word", "message.timestamp.type", "Now"),
    ("no-boolean", "unclean.leader.election.enable", "1"),
    ("capitals", "preallocate", "FALSE"),
    ("no-fraction", "min.cleanable.dirty.ratio", "1.5"),
    ("empty-list", "cleanup.policy", ""),
    ("list-of-both", "cleanup.policy", "compact, delete"),
    ("list-twice", "cleanup.policy", "delete,delete"),
)


def alter_incrementally(cases: Cases) -> None:
    """One key after the other."""

    def change(key: str, operation: int, value: str | None, **more: Value) -> Fields:
        body = altered({key: value}, **more)
        body["Resources"][0]["Configs"][0]["ConfigOperation"] = operation
        return body

    add, api = cases.add, "IncrementalAlterConfigs"
    add(api, "set", change("retention.ms", SET, "86400000"))
    add(api, "delete", change("retention.ms", DELETE, None))
    add(api, "delete-again", change("retention.ms", DELETE, "x"))
    add(api, "append", change("leader.replication.throttled.replicas", APPEND, "0:1"))
    add(api, "append-again", change("leader.replication.throttled.replicas", APPEND, "0:1"))
    add(api, "subtract", change("leader.replication.throttled.replicas", SUBTRACT, "0:1"))
    add(api, "subtract-again", change("leader.replication.throttled.replicas", SUBTRACT, "0:1"))
    add(api, "append-to-number", change("retention.ms", APPEND, "5"))
    add(api, "append-null", change("cleanup.policy", APPEND, None))
    add(api, "set-null", change("retention.ms", SET, None))
    add(api, "operation-9", change("retention.ms", 9, "5"))
    add(api, "operation-negative", change("retention.ms", -1, "5"))
    add(api, "delete-unknown-key", change("no.such.key", DELETE, None))
    add(api, "validate-only", change("retention.ms", SET, "5", ValidateOnly=True))
    for what, key, value in VALUES:
        add(api, f"value-{what}", change(key, SET, value))
    for what, (kind, name) in RESOURCES.items():
        add(api, what, altered({}, kind=kind, name=name))
    broker = {"kind": BROKER_RESOURCE, "name": "1"}
    add(api, "broker-set", change("message.max.bytes", SET, "2000000", **broker))
    add(api, "broker-delete", change("message.max.bytes", DELETE, None, **broker))
    add(api, "broker-read-only", change("node.id", SET, "7", **broker))
    add(api, "broker-unknown-key", change("no.such.key", SET, "7", **broker))
    add(api, "broker-bad-value", change("message.max.bytes", SET, "-7", **broker))
    everywhere = {"kind": BROKER_RESOURCE, "name": ""}
    # Of the lists that were tried above, so that both hold the same again.
    add(api, "reset", change("cleanup.policy", SET, "delete"))
    described: Fields = {"ResourceType": TOPIC_RESOURCE, "ResourceName": CONFIGURED}
    described["ConfigurationKeys"] = None
    full = {"IncludeSynonyms": True, "IncludeDocumentation": True}
    cases.add("DescribeConfigs", "altered", {"Resources": [described], **full})
    add(api, "brokers-set", change("log.retention.ms", SET, "86400000", **everywhere))
    add(api, "brokers-delete", change("log.retention.ms", DELETE, None, **everywhere))
    twice = change("retention.ms", SET, "5")
    twice["Resources"] *= 2
    add(api, "twice", twice)
    twice = change("retention.ms", SET, "5")
    twice["Resources"][0]["Configs"] *= 2
    add(api, "key-twice", twice)
    add(api, "none", {})


def update_features(cases: Cases) -> None:
    """Nothing here changes a level: levels differ between the two."""

    def update(name: str, level: int, kind: int = 1, **more: Value) -> Fields:
        one = {"Feature": name, "MaxVersionLevel": level, "UpgradeType": kind}
        one["AllowDowngrade"] = kind > 1
        return {"FeatureUpdates": [one], "TimeoutMs": TIMEOUT_MS, **more}

    add, api = cases.add, "UpdateFeatures"
    add(api, "none", {"TimeoutMs": TIMEOUT_MS})
    add(api, "unknown", update("no.such.feature", 1))
    add(api, "no-name", update("", 1))
    add(api, "unknown-validate-only", update("no.such.feature", 1, ValidateOnly=True))
    add(api, "zero", update("no.such.feature", 0))
    add(api, "negative", update("no.such.feature", -1))
    add(api, "downgrade", update("no.such.feature", 1, kind=2))
    add(api, "kind-9", update("no.such.feature", 1, kind=9))
    twice = update("no.such.feature", 1)
    twice["FeatureUpdates"] *= 2
    add(api, "twice", twice)
