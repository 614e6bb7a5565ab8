"""What a node must hold of its topics, and how two pictures differ. Pure: no broker, no client.

A batch is known by where it stands and by a digest of the bytes that a broker must not change, so
that equal pictures mean equal records, byte for byte.
"""

import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .raw import batches, without_offset

DIGEST_BYTES = 12


@dataclass(frozen=True)
class StoredBatch:
    """A batch in its place."""

    base_offset: int
    count: int
    digest: bytes

    @property
    def end_offset(self) -> int:
        """One past its last record."""
        return self.base_offset + self.count


def digest_of(batch_bytes: bytes) -> bytes:
    """What stands for a batch's bytes."""
    return hashlib.blake2b(without_offset(batch_bytes), digest_size=DIGEST_BYTES).digest()


def stored_in(data: bytes) -> list[StoredBatch]:
    """The whole batches of a fetch answer."""
    return [
        StoredBatch(
            found.base_offset,
            found.last_offset - found.base_offset + 1,
            digest_of(data[found.position : found.position + found.size]),
        )
        for found in batches(data)
    ]


@dataclass
class PartitionModel:
    """One log."""

    log_start: int = 0
    end_offset: int = 0
    batches: list[StoredBatch] = field(default_factory=list)

    def append(self, digest: bytes, count: int) -> None:
        """A batch at the end."""
        self.batches.append(StoredBatch(self.end_offset, count, digest))
        self.end_offset += count

    def trim(self, offset: int) -> None:
        """Nothing below `offset` is left, but for what shares its batch."""
        self.log_start = max(self.log_start, offset)
        self.batches = [one for one in self.batches if one.end_offset > self.log_start]


@dataclass
class TopicModel:
    """One topic. An id of None is not known yet: any will do that no topic has had."""

    name: str
    topic_id: str | None
    partitions: list[PartitionModel]
    configs: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "TopicModel":
        """One that can be changed without this one."""
        return copy.deepcopy(self)


def differences(
    expected: TopicModel | None, found: TopicModel | None, ids_seen: Iterable[str]
) -> list[str]:
    """What is not as it must be; nothing where the pictures agree."""
    if expected is None or found is None:
        if expected is None and found is None:
            return []
        return ["it is there" if expected is None else "it is missing"]
    said = []
    if expected.topic_id is None:
        if found.topic_id in ids_seen:
            said.append(f"the id of an earlier topic, {found.topic_id}")
    elif found.topic_id != expected.topic_id:
        said.append(f"id {found.topic_id}, expected {expected.topic_id}")
    if found.configs != expected.configs:
        said.append(f"configs {found.configs}, expected {expected.configs}")
    counts = len(found.partitions), len(expected.partitions)
    if counts[0] != counts[1]:
        return [*said, f"{counts[0]} partitions, expected {counts[1]}"]
    for index, (held, wanted) in enumerate(zip(found.partitions, expected.partitions, strict=True)):
        said += [f"partition {index}: {text}" for text in log_differences(wanted, held)]
    return said


def log_differences(expected: PartitionModel, found: PartitionModel) -> list[str]:
    """The same for one log."""
    said = []
    ends = (found.log_start, found.end_offset)
    wanted = (expected.log_start, expected.end_offset)
    if ends != wanted:
        said.append(f"offsets {ends[0]}..{ends[1]}, expected {wanted[0]}..{wanted[1]}")
    if found.batches != expected.batches:
        said.append(first_difference(expected.batches, found.batches))
    return said


def first_difference(expected: Sequence[StoredBatch], found: Sequence[StoredBatch]) -> str:
    """Where two rows of batches part."""
    same = 0
    while same < min(len(expected), len(found)) and expected[same] == found[same]:
        same += 1
    pair = [rows[same] if same < len(rows) else None for rows in (expected, found)]
    return f"batch {same} of {len(expected)}: expected {pair[0]}, found {pair[1]}"


def self_test() -> list[str]:
    """What `differences` fails to see in a picture that was changed on purpose."""
    log = PartitionModel()
    for number in range(3):
        log.append(bytes([number]) * DIGEST_BYTES, 2)
    topic = TopicModel("t", "aa", [log, PartitionModel()], {"retention.ms": "1"})
    blind = [] if not differences(topic, topic.copy(), ["aa"]) else ["equal pictures differ"]
    changed = {name: topic.copy() for name in ("id", "config", "count", "start", "lost", "bytes")}
    changed["id"].topic_id = "bb"
    changed["config"].configs = {}
    changed["count"].partitions.pop()
    changed["start"].partitions[0].log_start = 1
    changed["lost"].partitions[0].batches.pop()
    rows = changed["bytes"].partitions[0].batches
    rows[1] = StoredBatch(2, 2, b"\0" * DIGEST_BYTES)
    blind += [name for name, other in changed.items() if not differences(topic, other, ["aa"])]
    recreated = TopicModel("t", None, [PartitionModel()])
    found = TopicModel("t", "aa", [PartitionModel()])
    blind += [] if differences(recreated, found, ["aa"]) else ["an old id of a new topic"]
    blind += [] if differences(None, found, []) and differences(found, None, []) else ["presence"]
    return blind
