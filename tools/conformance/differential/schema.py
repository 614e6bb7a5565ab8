"""Encodes and decodes messages from the table `messages.txt`.

A message is a dict of field names to Python values: int, bool, str, bytes (records), hex text of a
uuid, list, dict (struct) or None. A field that is missing gets its default; one that the version
does not carry is left out. Independent of Corelog's own codec, so that an error there cannot hide
here. `golden_errors` holds it against bytes that Kafka's own serializers made.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("messages.txt")
NUMBERS = {"bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}
VERSION_MAX = 32_767

Value = Any  # What a field holds; see the head of this file.
Fields = dict[str, Value]


class Malformed(Exception):
    """The bytes do not hold what the table says."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; an empty one has its end before its start."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Reads `3+`, `3-7` or `3`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NEVER = Versions(1, 0)


@dataclass
class Field:
    """One field of a message or struct. `element` is the type, or an array's element type."""

    name: str
    element: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: str | None
    struct: list["Field"] = field(default_factory=list)

    def default_value(self, version: int) -> Value:
        """What stands for a field that nobody set."""
        if self.default == "null":
            return None
        if self.is_array:
            return []
        if self.struct:
            carried = (inner for inner in self.struct if version in inner.versions)
            return {inner.name: inner.default_value(version) for inner in carried}
        if self.element in ("string", "records", "uuid"):
            zero: Value = {"string": "", "records": b"", "uuid": "00" * 16}[self.element]
            return self.default if self.default is not None else zero
        if self.element == "bool":
            return self.default == "true"
        return int(self.default or 0)


@dataclass
class Message:
    """A request's or a response's body."""

    name: str
    key: int
    versions: Versions
    flexible_from: int
    fields: list[Field]

    def encode(self, version: int, values: Fields) -> bytes:
        """A body of `version`, which may lie outside the served ones."""
        out = bytearray()
        _put_struct(out, self.fields, version, version >= self.flexible_from, values)
        return bytes(out)

    def decode(self, version: int, data: bytes) -> Fields:
        """The body's fields; bytes left over are an error too."""
        reader = _Reader(data)
        values = _get_struct(reader, self.fields, version, version >= self.flexible_from)
        if reader.position != len(data):
            raise Malformed(f"{len(data) - reader.position} bytes behind the end")
        return values


def _versions(words: dict[str, str], name: str) -> Versions:
    return Versions.parse(words[name]) if name in words else NEVER


def _field(words: list[str]) -> Field:
    name, kind, versions = words[:3]
    more = dict(word.split("=", 1) for word in words[3:])
    tag = int(more["tag"]) if "tag" in more else None
    return Field(
        name,
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        Versions.parse(versions),
        _versions(more, "null"),
        tag,
        more.get("default"),
    )


def _message(head: list[str], lines: list[str]) -> Message:
    words = dict(word.split("=", 1) for word in head[2:])
    fields: list[Field] = []
    named: dict[str, list[Field]] = {}
    # stack[depth]: the list that a field of that depth joins.
    stack = [fields]
    everything: list[Field] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        parts = line.split()
        if parts[0] == "struct":
            stack = [fields, named.setdefault(parts[1], [])]
            continue
        del stack[depth + 1 :]
        one = _field(parts)
        stack[depth].append(one)
        stack.append(one.struct)
        everything.append(one)
    for one in everything:
        if not one.struct and one.element in named:
            one.struct = named[one.element]
    flexible = VERSION_MAX if words["flexible"] == "none" else int(words["flexible"])
    return Message(head[1], int(words["key"]), Versions.parse(words["versions"]), flexible, fields)


@cache
def messages() -> dict[tuple[str, str], Message]:
    """Every message of the table by ("request" or "response", API)."""
    found = {}
    for block in TABLE.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            head = lines[0].split()
            found[head[0], head[1]] = _message(head, lines[1:])
    return found


def request(api: str) -> Message:
    """The request of an API."""
    return messages()["request", api]


def response(api: str) -> Message:
    """The response of an API."""
    return messages()["response", api]


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _put_length(out: bytearray, flexible: bool, wide: bool, length: int) -> None:
    """A length, -1 for null: a varint of one more, or 16 or 32 bits."""
    if flexible:
        out += uvarint(length + 1)
    else:
        out += struct.pack(">i" if wide else ">h", length)


def _put_one(out: bytearray, one: Field, version: int, flexible: bool, value: Value) -> None:
    if one.struct:
        _put_struct(out, one.struct, version, flexible, value)
    elif one.element in NUMBERS:
        out += struct.pack(NUMBERS[one.element], value)
    elif one.element == "uuid":
        out += bytes.fromhex(value)
    else:
        data = value.encode() if isinstance(value, str) else value
        _put_length(out, flexible, one.element == "records", -1 if data is None else len(data))
        out += data or b""


def _put(out: bytearray, one: Field, version: int, flexible: bool, value: Value) -> None:
    if one.is_array:
        _put_length(out, flexible, True, -1 if value is None else len(value))
        for element in value or ():
            _put_one(out, one, version, flexible, element)
        return
    if one.struct and version in one.nullable:
        # A struct that may be null says first whether it is there.
        out += struct.pack(">b", -1 if value is None else 1)
        if value is None:
            return
    _put_one(out, one, version, flexible, value)


def _put_struct(
    out: bytearray, fields: list[Field], version: int, flexible: bool, values: Fields
) -> None:
    unknown = values.keys() - {one.name for one in fields}
    if unknown:
        raise KeyError(f"no such fields: {', '.join(sorted(unknown))}")
    tagged: list[tuple[int, bytes]] = []
    for one in fields:
        if version not in one.versions:
            continue
        default = one.default_value(version)
        value = values.get(one.name, default)
        if one.tag is None or not flexible:
            _put(out, one, version, flexible, value)
        elif value != default:
            inner = bytearray()
            _put(inner, one, version, flexible, value)
            tagged.append((one.tag, bytes(inner)))
    if flexible:
        out += uvarint(len(tagged))
        for tag, data in sorted(tagged):
            out += uvarint(tag) + uvarint(len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self.data) - self.position:
            raise Malformed(f"{count} bytes wanted at {self.position} of {len(self.data)}")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, kind: str) -> Value:
        """A number of one of `NUMBERS`."""
        form = NUMBERS[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self) -> int:
        """An unsigned varint of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed("a varint of more than five bytes")

    def length(self, flexible: bool, wide: bool) -> int:
        """A length, -1 for null."""
        if flexible:
            return self.uvarint() - 1
        found: int = self.number("int32" if wide else "int16")
        return found


def _get_one(reader: _Reader, one: Field, version: int, flexible: bool) -> Value:
    if one.struct:
        return _get_struct(reader, one.struct, version, flexible)
    if one.element in NUMBERS:
        return reader.number(one.element)
    if one.element == "uuid":
        return reader.take(16).hex()
    length = reader.length(flexible, one.element == "records")
    # A length of records of -1 is null in Kafka too, whether or not the table allows it.
    if length < 0:
        return None
    data = reader.take(length)
    return data if one.element == "records" else data.decode()


def _get(reader: _Reader, one: Field, version: int, flexible: bool) -> Value:
    if one.is_array:
        length = reader.length(flexible, True)
        if length < 0:
            return None
        return [_get_one(reader, one, version, flexible) for _ in range(length)]
    if one.struct and version in one.nullable and reader.number("int8") < 0:
        return None
    return _get_one(reader, one, version, flexible)


def _get_struct(reader: _Reader, fields: list[Field], version: int, flexible: bool) -> Fields:
    values: Fields = {}
    tagged: dict[int, Field] = {}
    for one in fields:
        if version not in one.versions:
            continue
        if one.tag is None or not flexible:
            values[one.name] = _get(reader, one, version, flexible)
        else:
            tagged[one.tag] = one
            values[one.name] = one.default_value(version)
    if flexible:
        for _ in range(reader.uvarint()):
            tag, size = reader.uvarint(), reader.uvarint()
            known = tagged.get(tag)
            inner = _Reader(reader.take(size))
            if known is None:
                values[f"tag {tag}"] = inner.data.hex()
            else:
                values[known.name] = _get(inner, known, version, flexible)
    return values


def golden_errors(golden: Path) -> Iterator[str]:
    """What Kafka's own encodings show to be wrong here: each must decode, and encode to itself."""
    count = 0
    for row in golden.read_text().splitlines():
        if not row or row.startswith("#"):
            continue
        name, version, _, hexed = row.split("\t")
        kind = "request" if name.endswith("Request") else "response"
        message = messages().get((kind, name.removesuffix("Request").removesuffix("Response")))
        if message is None:
            continue
        count += 1
        data = bytes.fromhex(hexed)
        try:
            again = message.encode(int(version), message.decode(int(version), data))
        except (Malformed, KeyError, ValueError) as error:
            yield f"{name} v{version}: {error}: {hexed}"
            continue
        if again != data:
            yield f"{name} v{version}: {again.hex()} for {hexed}"
    if count < 500:
        yield f"only {count} rows of {golden.name} were of a message in {TABLE.name}"
