"""Reads what Kafka's dump-log prints, and decides. The tool exits 0 even for damaged files."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .kafka_tools import dump_log_lines
from .report import expect

RECORD_BYTES_MAX = 11_000_000
BAD = re.compile(
    r"mismatch|out of order|exception|invalid bytes|isvalid: false|error", re.IGNORECASE
)
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) "
    r".*compresscodec: (\w+) crc: \d+ isvalid: true$"
)
RECORD = re.compile(r"^\| offset: (\d+) ")
EMPTY = re.compile(r"^(\S+\.index) is empty\.$")
GAP = re.compile(r"^Non-consecutive offsets in (.+)$")
FOLLOWED = re.compile(r"^\s*(-?\d+) is followed by (\d+)$")


@dataclass
class Judgement:
    """What the files hold, counted from batch headers and from records."""

    file_count: int = 0
    batch_count: int = 0
    header_record_count: int = 0
    record_count: int = 0
    codecs: dict[Path, Counter[str]] = field(default_factory=dict)


def judge_logs(files: Sequence[Path]) -> Judgement:
    """Deep iteration over `.log` files; fails the running check at the first bad line.

    "Non-consecutive offsets" is the tool's way to greet a file that does not begin at 0: allowed
    only as `-1 is followed by` that file's base offset.
    """
    judged = Judgement()
    gap_file: Path | None = None
    codecs: Counter[str] = Counter()
    arguments = ("--deep-iteration", "--max-message-size", str(RECORD_BYTES_MAX))
    for line in dump_log_lines(files, *arguments):
        if found := RECORD.match(line):
            judged.record_count += 1
        elif found := BATCH.match(line):
            judged.batch_count += 1
            judged.header_record_count += int(found[3])
            codecs[found[4]] += 1
        elif found := GAP.match(line):
            gap_file = Path(found[1])
        elif found := FOLLOWED.match(line):
            base = int(gap_file.stem) if gap_file else -1
            allowed = (int(found[1]), int(found[2])) == (-1, base)
            expect(allowed, f"{gap_file}: gap in the offsets, {line.strip()}")
        elif line.startswith("Dumping "):
            judged.file_count += 1
            codecs = judged.codecs[Path(line.removeprefix("Dumping "))] = Counter()
        else:
            # Everything the tool prints is known; an unknown line is a finding, not noise.
            expect(line.startswith("Log starting offset: "), f"dump-log said: {line[:400]}")
    expect(judged.file_count == len(files), f"{judged.file_count} of {len(files)} files dumped")
    expect(
        judged.record_count == judged.header_record_count,
        f"{judged.record_count} records, {judged.header_record_count} by the batch headers",
    )
    return judged


def judge_indexes(files: Sequence[Path]) -> int:
    """`--verify-index-only` over `.index` and `.timeindex`: any line but the titles is damage."""
    return _judge_titles(files, "--verify-index-only", allow=None)


def judge_snapshots(files: Sequence[Path]) -> int:
    """Dumps producer snapshots; every line is a title or a producer's state."""
    return _judge_titles(files, allow="producerId: ")


def _judge_titles(files: Sequence[Path], *arguments: str, allow: str | None) -> int:
    titles = 0
    for line in dump_log_lines(files, *arguments):
        if line.startswith("Dumping "):
            titles += 1
            continue
        if (found := EMPTY.match(line)) and Path(found[1]).stat().st_size == 0:
            continue  # A segment of one batch needs no entry.
        known = allow is not None and line.startswith(allow) and not BAD.search(line)
        expect(known, f"dump-log said: {line[:400]}")
    expect(titles == len(files), f"{titles} of {len(files)} files dumped")
    return titles
