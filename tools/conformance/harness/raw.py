"""Kafka's protocol by hand: one socket, frames, and the few requests that checks send raw.

Only versions before the compact encodings are used (Produce 7, Fetch 11, Metadata 1, ApiVersions
0): they are short to write and every broker of today still serves them. Written against
PROTOCOL's message definitions and independent of Corelog's own codec, so that an error there
cannot hide here.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE = 0, 1, 2
FRAME_BYTES_MAX = 128 << 20
BATCH_HEADER_BYTES = 61
# base offset, length, leader epoch, magic, crc | attributes, last delta, first and largest
# timestamp, producer id, producer epoch, base sequence, count
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli). Slow, about 5 MB/s: encode a large batch once and send it often."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Zig-zag varint, as records use it."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """One record of a v2 batch, without headers, at the batch's first timestamp."""
    body = b"\0" + varint(0) + varint(offset_delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch(records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> bytes:
    """An uncompressed v2 batch of (key, value), not idempotent."""
    body = b"".join(record(delta, key, value) for delta, (key, value) in enumerate(records))
    tail = BATCH_HEADER.pack(
        0, 0, 0, 2, 0, 0, len(records) - 1, timestamp_ms, timestamp_ms, -1, -1, -1, len(records)
    )[21:]
    crc = crc32c(tail + body)
    return struct.pack(">qiibI", 0, 49 + len(body), -1, 2, crc) + tail + body


@dataclass(frozen=True)
class BatchAt:
    """Where a batch lies in a byte string, and what its header says."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    count: int


def batches(data: bytes) -> Iterator[BatchAt]:
    """The whole batches of a segment file or a fetch answer; stops at zeros or a cut batch."""
    position = 0
    while position + BATCH_HEADER_BYTES <= len(data):
        head = BATCH_HEADER.unpack_from(data, position)
        size = 12 + head[1]
        if size < BATCH_HEADER_BYTES or position + size > len(data):
            return
        yield BatchAt(position, size, head[0], head[0] + head[6], head[12])
        position += size


def without_offset(batch_bytes: bytes) -> bytes:
    """A batch without the two fields that the broker may patch: base offset and leader epoch."""
    return batch_bytes[8:12] + batch_bytes[16:]


def string(text: str) -> bytes:
    """A string with a 16-bit length."""
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def frame(api_key: int, version: int, correlation: int, body: bytes) -> bytes:
    """A whole request: length, header v1, body."""
    head = struct.pack(">hhi", api_key, version, correlation) + string("raw")
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_body(topic: str, partition: int, records: bytes, acks: int = -1) -> bytes:
    """Produce v7 for one partition."""
    head = struct.pack(">hhi", -1, acks, 30_000) + struct.pack(">i", 1) + string(topic)
    return head + struct.pack(">iii", 1, partition, len(records)) + records


@dataclass(frozen=True)
class FetchFrom:
    """What to fetch, and within which bounds."""

    topic: str
    partition: int
    offset: int
    bytes_max: int = 8 << 20
    wait_ms: int = 100
    bytes_min: int = 1


def fetch_body(want: FetchFrom) -> bytes:
    """Fetch v11 of one partition without a session."""
    head = struct.pack(">iiiibii", -1, want.wait_ms, want.bytes_min, want.bytes_max, 0, 0, -1)
    part = struct.pack(">iiqqi", want.partition, -1, want.offset, -1, want.bytes_max)
    return (
        head
        + struct.pack(">i", 1)
        + string(want.topic)
        + struct.pack(">i", 1)
        + part
        + (struct.pack(">i", 0) + string(""))
    )


@dataclass(frozen=True)
class Fetched:
    """One partition's answer."""

    error: int
    high_watermark: int
    records: bytes


@dataclass(frozen=True)
class Produced:
    """One partition's answer."""

    error: int
    base_offset: int


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    """A blocking connection; every call has a deadline."""

    def __init__(self, port: int, seconds: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation = 0

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Sends a request and returns its correlation id."""
        self.correlation += 1
        self.socket.sendall(frame(api_key, version, self.correlation, body))
        return self.correlation

    def receive(self) -> tuple[int, bytes]:
        """The next answer: its correlation id and its body."""
        size, correlation = struct.unpack(">ii", self._exactly(8))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise ValueError(f"answer of {size} bytes")
        return correlation, self._exactly(size - 4)

    def call(self, api_key: int, version: int, body: bytes) -> bytes:
        """One request and its answer."""
        sent = self.send(api_key, version, body)
        got, answer = self.receive()
        if got != sent:
            raise ValueError(f"correlation id {got}, expected {sent}")
        return answer

    def produce(self, topic: str, partition: int, records: bytes) -> Produced:
        """Produces with acks=all and waits for the answer."""
        return parse_produced(self.call(PRODUCE, 7, produce_body(topic, partition, records)))

    def fetch(self, want: FetchFrom) -> Fetched:
        """Fetches one partition."""
        return parse_fetched(self.call(FETCH, 11, fetch_body(want)))

    def _exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        while len(view):
            got = self.socket.recv_into(view)
            if got == 0:
                raise Closed
            view = view[got:]
        return bytes(data)


def parse_produced(answer: bytes) -> Produced:
    """Produce v7's answer for one topic and one partition."""
    position = 4 + 2 + struct.unpack_from(">h", answer, 4)[0] + 4 + 4
    error, base_offset = struct.unpack_from(">hq", answer, position)
    return Produced(error, base_offset)


def parse_fetched(answer: bytes) -> Fetched:
    """Fetch v11's answer for one topic and one partition."""
    _, top_error, _, topic_count = struct.unpack_from(">ihii", answer)
    if top_error:
        return Fetched(top_error, -1, b"")
    if topic_count != 1:
        raise ValueError(f"{topic_count} topics in the answer, expected 1")
    position = 14 + 2 + struct.unpack_from(">h", answer, 14)[0] + 4
    _, error, high, _, _, aborted = struct.unpack_from(">ihqqqi", answer, position)
    position += 34 + 16 * max(aborted, 0) + 4
    size = struct.unpack_from(">i", answer, position)[0]
    return Fetched(error, high, answer[position + 4 : position + 4 + max(size, 0)])
