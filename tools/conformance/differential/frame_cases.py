"""Cases below the messages: versions nobody has, bodies that lie about what they hold."""

import struct

from . import schema
from .cases import TOPIC, Cases
from .schema import uvarint
from .side import Case

INT32_MAX = (1 << 31) - 1


def add(cases: Cases) -> None:
    """All of them; none changes anything."""
    versions(cases)
    bodies(cases)
    tags(cases)
    coordinators(cases)


def versions(cases: Cases) -> None:
    """One below the oldest and one above the newest version, and keys that name nothing."""
    for api in sorted({api for _, api in schema.messages() if cases.ends(api)}):
        first, last = cases.ends(api)[0], cases.ends(api)[-1]
        newest = schema.request(api).versions.last
        if first > 0:
            cases.found.append(Case(api, first - 1, "version-too-old", b""))
        # Where Kafka serves more than we do, its next version is no mistake.
        if last == newest:
            cases.found.append(Case(api, last + 1, "version-too-new", b""))
    cases.found.append(Case("ApiVersions", 99, "version-99", b"", None))
    cases.found.append(Case("ApiVersions", -1, "version-negative", b""))
    for what, key in (("unknown", 999), ("negative", -1), ("removed", 4)):
        cases.found.append(Case("Metadata", 1, f"key-{what}", b"", key))


def bodies(cases: Cases) -> None:
    """Cut, too long, and announcing more than there is."""
    at_metadata = {
        "nothing": b"",
        "cut-in-count": b"\0\0",
        "cut-in-name": struct.pack(">ih", 1, 9) + b"diff",
        "count-too-high": struct.pack(">i", INT32_MAX),
        "count-negative": struct.pack(">i", -2) + b"\0",
        "null-name": struct.pack(">ih", 1, -1) + b"\0",
        "bytes-left-over": struct.pack(">ih", 1, 4) + b"diff" + bytes(40),
        "not-utf-8": struct.pack(">ih", 1, 2) + b"\xff\xfe" + b"\0",
        "boolean-2": struct.pack(">i", 0) + b"\2",
    }
    for what, body in at_metadata.items():
        cases.add("Metadata", f"body-{what}", body, (4,))
    at_metadata = {
        "count-too-high": b"\xff\xff\xff\xff\x07",
        "varint-too-long": b"\xff" * 11,
        "name-too-long": b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x07",
    }
    for what, body in at_metadata.items():
        cases.add("Metadata", f"body-{what}", body, (12,))
    cases.add("Produce", "body-cut", b"\xff\xff\xff\xff", (3,))
    cases.add("Fetch", "body-cut", bytes(7), (4,))
    for api in ("CreateTopics", "AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs"):
        cases.add(api, "body-null-array", struct.pack(">i", -1) + bytes(8), cases.ends(api)[:1])


def tags(cases: Cases) -> None:
    """Tagged fields that nobody knows are ignored; twice the same one, or a wrong size, is not."""
    names = b"\x02" + bytes(16) + uvarint(len(TOPIC) + 1) + TOPIC.encode()
    end = b"\0\0"
    for what, inner, outer in (
        ("unknown", b"\0", b"\x01\x63\x02xy"),
        ("unknown-inside", b"\x01\x63\x02xy", b"\0"),
        ("out-of-order", b"\0", b"\x02\x64\0\x63\0"),
        ("twice", b"\0", b"\x02\x63\0\x63\0"),
        ("too-long", b"\0", b"\x01\x63\x7f"),
        ("count-too-high", b"\0", b"\xff\xff\xff\xff\x07"),
    ):
        cases.add("Metadata", f"tag-{what}", names + inner + end + outer, (12,))


def coordinators(cases: Cases) -> None:
    """Questions for coordinators that there cannot be; a right one would make Kafka create a topic."""
    add, api = cases.add, "FindCoordinator"
    for what, key, kind in (
        ("kind-9", "x", 9),
        ("kind-negative", "x", -1),
        ("share", "x", 2),
    ):
        body = {"Key": key, "KeyType": kind, "CoordinatorKeys": [key]}
        add(api, what, body, cases.since(api, 1))
    # Once: no name is a group's name to Kafka, and what it answers next hangs on how fast it creates the topic.
    add(api, "no-name", {"KeyType": 0, "CoordinatorKeys": [""]}, cases.ends(api)[-1:])
    add(api, "no-keys", {"KeyType": 0}, cases.since(api, 4))
