"""Record batches by hand: sound ones that are the same in every run, and unsound ones."""

import struct
import time
import zlib

from harness import raw

# Of today: Kafka deletes what is older than a week, some time after the start.
STAMP_MS = time.time_ns() // 1_000_000
CONTROL, TRANSACTIONAL, ZSTD, CODEC_UNKNOWN = 0x20, 0x10, 0x04, 0x05


def batch(first: int = 0, count: int = 3) -> bytes:
    """`count` records that name themselves from `first` on."""
    records = [(b"k%d" % n, b"v%d" % n) for n in range(first, first + count)]
    return raw.batch(records, STAMP_MS + first)


def patched(data: bytes, **fields: int) -> bytes:
    """A batch with other header fields and a checksum that is right again."""
    names = ("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_delta")
    names += ("first_ms", "largest_ms", "producer_id", "producer_epoch", "sequence", "count")
    head = dict(zip(names, raw.BATCH_HEADER.unpack_from(data), strict=True))
    head.update(fields)
    packed = raw.BATCH_HEADER.pack(*head.values())
    rest = packed[21:] + data[raw.BATCH_HEADER_BYTES :]
    crc = fields.get("crc", raw.crc32c(rest))
    return packed[:17] + struct.pack(">I", crc) + rest


def of_producer(producer_id: int, epoch: int, sequence: int, first: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    return patched(batch(first), producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


def zstd() -> bytes:
    """A batch in a zstd frame of one raw block."""
    records = batch()[raw.BATCH_HEADER_BYTES :]
    block = struct.pack("<I", len(records) << 3 | 1)[:3] + records
    frame = bytes.fromhex("28b52ffd20") + bytes([len(records)]) + block
    whole = batch()[: raw.BATCH_HEADER_BYTES] + frame
    return patched(whole, length=len(whole) - 12, attributes=ZSTD)


def bad_crc() -> bytes:
    """A batch whose last byte was flipped on the way."""
    return batch()[:-1] + bytes([batch()[-1] ^ 1])


def of_records(body: bytes, count: int) -> bytes:
    """A batch that says it holds `count` records, over any bytes."""
    whole = batch()[: raw.BATCH_HEADER_BYTES] + body
    return patched(whole, length=len(whole) - 12, last_delta=max(count - 1, 0), count=count)


def message_v1() -> bytes:
    """A message of format 1, which Kafka 4 takes no more (KIP-724)."""
    inner = struct.pack(">bbq", 1, 0, STAMP_MS) + struct.pack(">i", -1)
    inner += struct.pack(">i", 1) + b"v"
    body = struct.pack(">I", zlib.crc32(inner)) + inner
    return struct.pack(">qi", 0, len(body)) + body
