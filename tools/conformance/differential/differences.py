"""Two normalised answers against each other, and against the table of what may differ.

`expected.tsv` has a row for each difference that is meant: which cases (shell patterns with spaces
between them), which field (one shell pattern), what Kafka says, what Corelog says (`*` for any), and why. A difference
without a row fails its case; a row that no case used fails the run: the table cannot grow stale.

What Corelog says where Kafka says nothing counts field by field, so that each value is held to; what it lacks counts once.
"""

import fnmatch
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .schema import Fields, Value

TABLE = Path(__file__).with_name("expected.tsv")
# What names an element of a list, the first that it has. Kafka keeps no order in most lists.
NAMES = (
    "ApiKey",
    "Name",
    "Topic",
    "TopicName",
    "Feature",
    "ResourceName",
    "Key",
    "PartitionIndex",
    "Partition",
    "Index",
    "TopicId",
    "LogDir",
    "ReplicaId",
    "NodeId",
    "BrokerId",
)
TEXT_MAX = 60


@dataclass(frozen=True)
class Difference:
    """One field that differs."""

    field: str
    kafka: str
    corelog: str


@dataclass(frozen=True)
class Expected:
    """A row of the table."""

    cases: str
    field: str
    kafka: str
    corelog: str
    reason: str

    def covers(self, case: str, found: Difference) -> bool:
        """Whether this row explains a difference of a case."""
        return (
            matches(self.cases, case)
            and _pattern(self.field).match(found.field) is not None
            and self.kafka in ("*", found.kafka)
            and self.corelog in ("*", found.corelog)
        )


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # Brackets stand for themselves: they name elements of lists.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matches(pattern: str, text: str) -> bool:
    """Whether one of the patterns, separated by spaces, is that of `text`."""
    return any(_pattern(one).match(text) for one in pattern.split(" "))


def table() -> list[Expected]:
    """The rows of `expected.tsv`, without its head."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line]
    return [Expected(*row) for row in rows[1:]]


def differences(kafka: Value, corelog: Value, place: str = "") -> Iterator[Difference]:
    """Every field in which the two differ."""
    if isinstance(kafka, dict) and isinstance(corelog, dict):
        for name in kafka.keys() | corelog.keys():
            where = f"{place}.{name}" if place else name
            yield from _member(kafka, corelog, name, where)
    elif isinstance(kafka, list) and isinstance(corelog, list) and _has_names(kafka + corelog):
        left, right = _by_name(kafka), _by_name(corelog)
        for name in left.keys() | right.keys():
            where = f"{place}[{name}]"
            if name in left:
                yield from _member(left, right, name, where)
            else:
                yield from _of_corelog_alone(_unnamed(right[name]), where)
    elif kafka != corelog:
        yield Difference(place, shown(kafka), shown(corelog))


def _member(
    kafka: dict[str, Value], corelog: dict[str, Value], name: str, place: str
) -> Iterator[Difference]:
    if name not in kafka:
        yield from _of_corelog_alone(corelog[name], place)
    elif name not in corelog:
        yield Difference(place, shown(kafka[name]), "absent")
    else:
        yield from differences(kafka[name], corelog[name], place)


def _of_corelog_alone(value: Value, place: str) -> Iterator[Difference]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _of_corelog_alone(inner, f"{place}.{name}")
    elif isinstance(value, list) and value and _has_names(value):
        for name, element in _by_name(value).items():
            yield from _of_corelog_alone(_unnamed(element), f"{place}[{name}]")
    else:
        yield Difference(place, "absent", shown(value))


def _has_names(elements: list[Value]) -> bool:
    return all(
        isinstance(element, dict) and any(name in element for name in NAMES) for element in elements
    )


def _by_name(elements: list[Value]) -> dict[str, Value]:
    named: dict[str, Value] = {}
    for element in elements:
        first = element.get(_naming(element))
        name, again = str(first), 2
        while name in named:
            name, again = f"{first} #{again}", again + 1
        named[name] = element
    return named


def _naming(element: Fields) -> str:
    # A name that is null does not name: in an answer by id the id does.
    return next((name for name in NAMES if element.get(name) is not None), "")


def _unnamed(element: Fields) -> Fields:
    # What names it stands in the place already.
    return {key: inner for key, inner in element.items() if key != _naming(element)}


def shown(value: Value) -> str:
    """A value as the table writes it: two that differ are written differently, but for what Corelog lacks."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"{len(value)} bytes ({hashlib.sha256(value).hexdigest()[:8]})"
    if isinstance(value, dict) and value:
        return "present"
    text = str(value).replace("\t", " ").replace("\n", " ") or '""'
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:TEXT_MAX]}… ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def self_test() -> list[str]:
    """What `differences` fails to see or to tell, of answers that differ on purpose."""

    def of(kafka: Value, corelog: Value) -> set[tuple[str, str, str]]:
        return {(one.field, one.kafka, one.corelog) for one in differences(kafka, corelog)}

    def answer(error: int) -> Fields:
        part = {"Index": 0, "ErrorCode": error, "RecordErrors": []}
        return {"Responses": [{"Name": "diff-append", "PartitionResponses": [part]}]}

    place = "Responses[diff-append]"
    part = f"{place}.PartitionResponses[0]"
    alone = {(f"{part}.ErrorCode", "absent", "87"), (f"{part}.RecordErrors", "absent", "[]")}
    ended = {"ended": "no answer"}
    over = ("ended", "no answer", "absent")
    long = ["x" * TEXT_MAX + end for end in "ab"]
    cases = {
        "equal": of(answer(87), answer(87)) == set(),
        "an error code": of(answer(0), answer(87)) == {(f"{part}.ErrorCode", "0", "87")},
        "an answer of Corelog alone": of(ended, answer(87)) == {over, *alone},
        "a code in it": of(ended, answer(87)) != of(ended, answer(0)),
        "an element of Corelog alone": of({"Responses": []}, answer(87)) == alone,
        "what Corelog lacks": of(answer(0), {"Responses": []}) == {(place, "present", "absent")},
        "the end of a long text": shown(long[0]) != shown(long[1]),
        "the end of a long list": shown([1, *long[:1]]) != shown([1, *long[1:]]),
    }
    return [name for name, is_seen in cases.items() if not is_seen]
