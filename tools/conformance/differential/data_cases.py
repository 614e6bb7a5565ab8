"""Cases for the APIs beside a partition's log."""

from collections.abc import Callable

from . import batches
from .batches import STAMP_MS, batch, patched
from .cases import ABSENT, APPENDED, NEVER_SECONDS, TIMEOUT_MS, TOPIC, TRIMMED, Cases, one_topic
from .schema import Fields, Value
from .side import ZERO_ID, Side

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def add(cases: Cases) -> None:
    """All of them, in the order in which they are sent."""
    producer_ids(cases)
    fetch(cases)
    fetch_sessions(cases)
    list_offsets(cases)
    leader_epochs(cases)
    produce(cases)
    produce_in_sequence(cases)
    delete_records(cases)


def produced(
    records: Value, topic: str = APPENDED, partition: int = 0, acks: int = -1, **more: Value
) -> Fields:
    """A produce request for one partition."""
    rows = [{"Index": partition, "Records": records}]
    body = {"Acks": acks, "TimeoutMs": TIMEOUT_MS}
    return {**body, "TopicData": [one_topic(topic, rows, rows="PartitionData")], **more}


def produce(cases: Cases) -> None:
    """Every way to be taken, and to be refused."""
    add = cases.add
    add("Produce", "good", produced(batch(0)))
    add("Produce", "good", produced(batch(3)), (4, 5, 6, 7, 8, 9, 10, 11, 12))
    add("Produce", "acks-1", produced(batch(3), acks=1))
    add("Produce", "acks-0", produced(batch(6), acks=0), silent=True)
    add("Produce", "acks-2", produced(batch(0), acks=2))
    add("Produce", "acks-minus-2", produced(batch(0), acks=-2))
    add("Produce", "unknown-topic", produced(batch(0), ABSENT))
    add("Produce", "unknown-partition", produced(batch(0), partition=99))
    add("Produce", "negative-partition", produced(batch(0), partition=-1))
    add("Produce", "no-topics", {"Acks": -1, "TimeoutMs": TIMEOUT_MS})
    rows = {"TopicData": [one_topic(APPENDED, [], rows="PartitionData")]}
    add("Produce", "no-partitions", {"Acks": -1, "TimeoutMs": TIMEOUT_MS, **rows})
    add("Produce", "null-records", produced(None), seconds=NEVER_SECONDS)
    add("Produce", "no-records", produced(b""))
    add("Produce", "timeout-0", produced(batch(0), TimeoutMs=0))
    add("Produce", "timeout-negative", produced(batch(0), TimeoutMs=-5))
    mixed = [{"Index": 0, "Records": batch(0)}, {"Index": 9, "Records": batch(3)}]
    topics = [one_topic(APPENDED, mixed, rows="PartitionData")]
    add("Produce", "good-and-bad", {"Acks": -1, "TimeoutMs": TIMEOUT_MS, "TopicData": topics})
    for what, records in unsound().items():
        add("Produce", what, produced(records))
    add("Produce", "zstd", produced(batches.zstd()), (3, 6, 7, 13))
    add("Produce", "transactional-id-alone", produced(batch(0), TransactionalId="t"))
    for what, topic_id in (("zero-topic-id", ZERO_ID), ("unknown-topic-id", "cd" * 16)):
        body = produced(batch(0))
        body["TopicData"][0]["TopicId"] = topic_id
        add("Produce", what, body, (13,))
    # Last: Kafka appends one of the two, so from here on the offsets differ.
    twice = [{"Index": 0, "Records": batch(0)}, {"Index": 0, "Records": batch(3)}]
    topics = [one_topic(APPENDED, twice, rows="PartitionData")]
    add("Produce", "partition-twice", {"Acks": -1, "TimeoutMs": TIMEOUT_MS, "TopicData": topics})


def unsound() -> dict[str, bytes]:
    """Batches of which a broker takes few."""
    return {
        "bad-crc": batches.bad_crc(),
        "two-batches": batch(0) + batch(3),
        "control-batch": patched(batch(0), attributes=batches.CONTROL),
        "transactional-batch": patched(
            batch(0), attributes=batches.TRANSACTIONAL, producer_id=7, producer_epoch=0, sequence=0
        ),
        "no-zstd-inside": patched(batch(0), attributes=batches.ZSTD),
        "unknown-codec": patched(batch(0), attributes=batches.CODEC_UNKNOWN),
        "too-large": batches.raw.batch([(None, bytes(1_100_000))], STAMP_MS),
        "future-offset": patched(batch(6), base_offset=77),
        "foreign-epoch": patched(batch(6), leader_epoch=77),
        "magic-3": patched(batch(0), magic=3),
        "message-v1": batches.message_v1(),
        "count-0": patched(batch(0), count=0),
        "count-negative": patched(batch(0), count=-1),
        "count-too-high": patched(batch(0), count=4),
        "count-too-low": patched(batch(0), count=2),
        "delta-too-high": patched(batch(0), last_delta=7),
        "delta-negative": patched(batch(0), last_delta=-1),
        "length-too-long": patched(batch(0), length=4_096),
        "length-too-short": patched(batch(0), length=20),
        "length-negative": patched(batch(0), length=-1),
        "half-a-header": batch(0)[:30],
        "tail-of-zeros": batch(0) + bytes(20),
        "empty-record-body": batches.of_records(b"", 1),
        "record-length-lies": batches.of_records(b"\x7e" + bytes(8), 1),
        "far-future": patched(
            batch(0), first_ms=STAMP_MS + 7_200_000, largest_ms=STAMP_MS + 7_200_000
        ),
        "negative-time": patched(batch(0), first_ms=-1, largest_ms=-1),
        "largest-time-lies": patched(batch(0), largest_ms=STAMP_MS + 60_000),
    }


def in_sequence(sequence: int, epoch: int = 0, shift: int = 0) -> Callable[[Side], Fields]:
    """A produce request of this side's producer."""

    def body(side: Side) -> Fields:
        return produced(
            batches.of_producer(side.producer_id + shift, epoch, sequence), TOPIC, partition=1
        )

    return body


def producer_ids(cases: Cases) -> None:
    """Who may have a producer id, and what else may stand in the request."""
    plain = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    add = cases.add
    add("InitProducerId", "no-timeout", {**plain, "TransactionTimeoutMs": 0})
    add("InitProducerId", "negative-timeout", {**plain, "TransactionTimeoutMs": -1})
    add("InitProducerId", "empty-transactional-id", {**plain, "TransactionalId": ""})
    since = cases.since("InitProducerId", 3)
    add("InitProducerId", "id-without-epoch", {**plain, "ProducerId": 4}, since)
    add("InitProducerId", "epoch-without-id", {**plain, "ProducerEpoch": 4}, since)
    add("InitProducerId", "own-id", {**plain, "ProducerId": 4, "ProducerEpoch": 0}, since)
    # Last: the id of this one is used below.
    add("InitProducerId", "plain", plain)


def produce_in_sequence(cases: Cases) -> None:
    """An idempotent producer, its retries, and its mistakes."""
    steps = {
        "sequence-0": (0, 0, 0),
        "sequence-0-again": (0, 0, 0),
        "sequence-3": (3, 0, 0),
        "sequence-gap": (9, 0, 0),
        "sequence-overlap": (4, 0, 0),
        "sequence-negative": (-1, 0, 0),
        "epoch-1": (0, 1, 0),
        "epoch-back": (6, 0, 0),
        "epoch-1-not-at-0": (6, 2, 0),
        "epoch-negative": (0, -1, 0),
        "other-producer-not-at-0": (5, 0, 1_000),
    }
    for what, (sequence, epoch, shift) in steps.items():
        cases.add("Produce", what, in_sequence(sequence, epoch, shift), cases.ends("Produce")[-1:])


def fetched(offset: int, topic: str = TOPIC, partition: int = 0, **more: Value) -> Fields:
    """A fetch of one partition without a session; `row` holds more of its fields."""
    bytes_max = more.pop("bytes_max", 1 << 20)
    row = {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": bytes_max}
    row.update(more.pop("row", {}))
    body = {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 20}
    return {**body, "Topics": [one_topic(topic, [row], by="Topic")], **more}


def fetch(cases: Cases) -> None:
    """Offsets inside and outside, bounds of bytes, epochs, isolation."""
    add = cases.add
    add("Fetch", "from-start", fetched(0))
    add("Fetch", "from-start", fetched(0), range(5, 18))
    add("Fetch", "inside-batch", fetched(4))
    add("Fetch", "at-end", fetched(9))
    add("Fetch", "past-end", fetched(10))
    add("Fetch", "negative", fetched(-1))
    add("Fetch", "smallest-offset", fetched(-(1 << 63)))
    add("Fetch", "largest-offset", fetched((1 << 63) - 1))
    add("Fetch", "empty-partition", fetched(0, partition=1))
    add("Fetch", "partition-one-byte", fetched(0, bytes_max=1))
    add("Fetch", "partition-nothing", fetched(0, bytes_max=0))
    add("Fetch", "partition-negative-bytes", fetched(0, bytes_max=-1))
    add("Fetch", "one-byte", fetched(0, MaxBytes=1))
    add("Fetch", "nothing", fetched(0, MaxBytes=0))
    add("Fetch", "negative-bytes", fetched(0, MaxBytes=-1))
    add("Fetch", "min-bytes", fetched(9, MinBytes=100))
    add("Fetch", "min-bytes-negative", fetched(9, MinBytes=-1))
    add("Fetch", "wait-negative", fetched(9, MaxWaitMs=-1))
    add("Fetch", "committed", fetched(0, IsolationLevel=1))
    add("Fetch", "isolation-7", fetched(0, IsolationLevel=7))
    add("Fetch", "unknown-partition", fetched(0, partition=99))
    add("Fetch", "negative-partition", fetched(0, partition=-1))
    add("Fetch", "unknown-topic", fetched(0, ABSENT))
    add("Fetch", "no-topics", {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 1})
    add("Fetch", "no-partitions", {"ReplicaId": -1, "Topics": [one_topic(TOPIC, [], by="Topic")]})
    twice = fetched(0)
    twice["Topics"][0]["Partitions"] *= 2
    add("Fetch", "partition-twice", twice)
    add("Fetch", "debug-replica", {**fetched(0), "ReplicaId": -2}, cases.ends("Fetch")[:1])
    add("Fetch", "strange-replica", {**fetched(0), "ReplicaId": 5}, cases.ends("Fetch")[:1])
    strange = {"ReplicaId": 5, "ReplicaEpoch": 1}
    add("Fetch", "strange-replica", fetched(0, ReplicaState=strange), cases.ends("Fetch")[-1:])
    for what, epoch in (("current", 0), ("future", 7), ("negative", -5)):
        row = {"CurrentLeaderEpoch": epoch}
        add("Fetch", f"epoch-{what}", fetched(0, row=row), cases.since("Fetch", 9))
    for what, epoch in (("current", 0), ("future", 7), ("negative", -5)):
        row = {"LastFetchedEpoch": epoch, "CurrentLeaderEpoch": 0}
        add("Fetch", f"fetched-epoch-{what}", fetched(3, row=row), cases.since("Fetch", 12))
    for what, topic_id in (("zero-topic-id", ZERO_ID), ("unknown-topic-id", "cd" * 16)):
        body = fetched(0)
        body["Topics"][0]["TopicId"] = topic_id
        add("Fetch", what, body, cases.ends("Fetch")[-1:])


def fetch_sessions(cases: Cases) -> None:
    """A session from its start to its end, and what contradicts it (KIP-227)."""
    nothing = {"ReplicaId": -1, "MinBytes": 1}
    forget = {"ForgottenTopicsData": [one_topic(TOPIC, [0], by="Topic")]}
    steps = {
        "session-start": fetched(0, SessionEpoch=0),
        "session-nothing-new": {**nothing, "SessionId": "@session", "SessionEpoch": 1},
        "session-moves": fetched(9, SessionId="@session", SessionEpoch=2),
        "session-adds": fetched(0, partition=1, SessionId="@session", SessionEpoch=3),
        "session-adds-unknown": fetched(0, partition=99, SessionId="@session", SessionEpoch=4),
        "session-epoch-repeated": {**nothing, "SessionId": "@session", "SessionEpoch": 4},
        "session-epoch-gap": {**nothing, "SessionId": "@session", "SessionEpoch": 9},
        "session-forgets": {**nothing, **forget, "SessionId": "@session", "SessionEpoch": 5},
        "session-unknown": {**nothing, "SessionId": 77, "SessionEpoch": 1},
        "session-ends": {**nothing, "SessionId": "@session", "SessionEpoch": -1},
        "session-ended": {**nothing, "SessionId": "@session", "SessionEpoch": 6},
        "session-id-without-epoch": {**fetched(0), "SessionId": 0, "SessionEpoch": 3},
    }
    for version in cases.since("Fetch", 7):
        for what, body in steps.items():
            cases.add("Fetch", what, body, (version,))


def listed(time_ms: int, topic: str = TOPIC, partition: int = 0, **more: Value) -> Fields:
    """A question for one partition's offset."""
    row = {"PartitionIndex": partition, "Timestamp": time_ms, **more.pop("row", {})}
    rows = [{"Name": topic, "Partitions": [row]}]
    return {"ReplicaId": -1, "TimeoutMs": TIMEOUT_MS, "Topics": rows, **more}


def list_offsets(cases: Cases) -> None:
    """Every special, and some times."""
    add = cases.add
    for what, time_ms in {
        "latest": LATEST,
        "earliest": EARLIEST,
        "max-timestamp": MAX_TIMESTAMP,
        "earliest-local": -4,
        "latest-tiered": -5,
        "earliest-pending-upload": -6,
        "special-7": -7,
        "special-99": -99,
        "exact": STAMP_MS + 3,
        "between": STAMP_MS + 1,
        "zero": 0,
        "future": STAMP_MS * 2,
    }.items():
        add("ListOffsets", what, listed(time_ms))
    add("ListOffsets", "latest", listed(LATEST), range(2, 11))
    add("ListOffsets", "max-timestamp", listed(MAX_TIMESTAMP), (6, 7))
    add("ListOffsets", "earliest-local", listed(-4), (7, 8))
    add("ListOffsets", "latest-tiered", listed(-5), (8, 9))
    add("ListOffsets", "earliest-pending-upload", listed(-6), (10,))
    add("ListOffsets", "max-timestamp-of-nothing", listed(MAX_TIMESTAMP, partition=1))
    add("ListOffsets", "latest-of-nothing", listed(LATEST, partition=1))
    add("ListOffsets", "time-in-nothing", listed(0, partition=1))
    add("ListOffsets", "unknown-topic", listed(LATEST, ABSENT))
    add("ListOffsets", "bad-name", listed(LATEST, "a/b"))
    add("ListOffsets", "no-name", listed(LATEST, ""))
    add("ListOffsets", "unknown-partition", listed(LATEST, partition=99))
    add("ListOffsets", "negative-partition", listed(LATEST, partition=-1))
    add("ListOffsets", "no-topics", {"ReplicaId": -1})
    add("ListOffsets", "no-partitions", {"Topics": [{"Name": TOPIC}], "ReplicaId": -1})
    add("ListOffsets", "debug-replica", listed(LATEST, ReplicaId=-2))
    add("ListOffsets", "strange-replica", listed(LATEST, ReplicaId=5))
    twice = listed(LATEST)
    twice["Topics"][0]["Partitions"] *= 2
    add("ListOffsets", "partition-twice", twice)
    since = cases.since("ListOffsets", 2)
    add("ListOffsets", "committed", listed(LATEST, IsolationLevel=1), since)
    add("ListOffsets", "isolation-7", listed(LATEST, IsolationLevel=7), since)
    for what, epoch in (("current", 0), ("future", 7), ("negative", -5)):
        body = listed(LATEST, row={"CurrentLeaderEpoch": epoch})
        add("ListOffsets", f"epoch-{what}", body, cases.since("ListOffsets", 4))


def leader_epochs(cases: Cases) -> None:
    """Where an epoch ended."""

    def ask(epoch: int, topic: str = TOPIC, partition: int = 0, current: int = -1) -> Fields:
        row = {"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}
        return {"ReplicaId": -2, "Topics": [{"Topic": topic, "Partitions": [row]}]}

    add, api = cases.add, "OffsetForLeaderEpoch"
    add(api, "current", ask(0))
    add(api, "future", ask(7))
    add(api, "negative", ask(-1))
    add(api, "of-nothing", ask(0, partition=1))
    add(api, "unknown-topic", ask(0, ABSENT))
    add(api, "unknown-partition", ask(0, partition=99))
    add(api, "negative-partition", ask(0, partition=-1))
    add(api, "current-epoch", ask(0, current=0))
    add(api, "future-epoch", ask(0, current=7))
    add(api, "no-topics", {"ReplicaId": -2})
    twice = ask(0)
    twice["Topics"][0]["Partitions"] *= 2
    add(api, "partition-twice", twice)


def delete_records(cases: Cases) -> None:
    """Trimming a log, and what the log's ends are afterwards."""

    def trim(offset: int, topic: str = TRIMMED, partition: int = 0) -> Fields:
        rows = [{"PartitionIndex": partition, "Offset": offset}]
        return {"Topics": [{"Name": topic, "Partitions": rows}], "TimeoutMs": TIMEOUT_MS}

    add, api = cases.add, "DeleteRecords"
    for version in cases.ends(api):
        shift = 3 if version else 0
        at = (version,)
        add(api, "inside-batch", trim(shift + 1), at)
        add(api, "backwards", trim(0), at)
        add(api, "same-again", trim(shift + 1), at)
        add("ListOffsets", f"earliest-trimmed-{version}", listed(EARLIEST, TRIMMED))
        add("Fetch", f"trimmed-{version}", fetched(shift, TRIMMED))
        add("Fetch", f"inside-trimmed-{version}", fetched(shift + 1, TRIMMED))
    add(api, "past-end", trim(10))
    add(api, "negative", trim(-2))
    add(api, "unknown-topic", trim(0, ABSENT))
    add(api, "unknown-partition", trim(0, partition=99))
    add(api, "negative-partition", trim(0, partition=-1))
    add(api, "no-topics", {"TimeoutMs": TIMEOUT_MS})
    twice = trim(4)
    twice["Topics"][0]["Partitions"] *= 2
    add(api, "partition-twice", twice)
    add(api, "everything", trim(-1))
    if cases.ends(api):
        add("ListOffsets", "earliest-emptied", listed(EARLIEST, TRIMMED))
        add("Fetch", "emptied", fetched(9, TRIMMED))
