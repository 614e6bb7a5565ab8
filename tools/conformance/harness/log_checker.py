"""Compares what a producer was promised with what a log holds. Pure: no broker, no client.

Each partition's producer numbers its records 0, 1, 2, …; a record's value opens with its number.
The rules, per partition:

    missing      an acknowledged record that is not at the offset its acknowledgement named, or is
                 nowhere when the acknowledgement named none
    reordered    a record whose first appearance comes after a later record's
    duplicated   an appearance of a record beyond its first
    invented     a number that was never sent, or offsets that are not 0, 1, 2, …
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

# An acknowledged record whose offset the client does not know: it was told "already there".
OFFSET_UNKNOWN = -1
NOT_ACKED = -2


@dataclass
class Verdict:
    """Counts over partitions; all but the first must be 0 (duplicates only where promised)."""

    acked: int = 0
    missing: int = 0
    reordered: int = 0
    duplicated: int = 0
    invented: int = 0

    def line(self) -> str:
        """The line that a run prints."""
        text = f"acked={self.acked} missing={self.missing} reordered={self.reordered}"
        text += f" duplicated={self.duplicated}"
        return text + (f" invented={self.invented}" if self.invented else "")


def check_partition(acked_offsets: Sequence[int], held: Sequence[int], verdict: Verdict) -> None:
    """Adds one partition to `verdict`.

    `acked_offsets[n]` is the offset acknowledged for record n (or one of the constants above);
    `held[o]` is the number of the record read at offset o.
    """
    first_at = array("q", [-1]) * len(acked_offsets)
    newest = -1
    for offset, number in enumerate(held):
        if not 0 <= number < len(acked_offsets):
            verdict.invented += 1
        elif first_at[number] >= 0:
            verdict.duplicated += 1
        else:
            first_at[number] = offset
            verdict.reordered += number < newest
            newest = max(newest, number)
    for number, offset in enumerate(acked_offsets):
        if offset == NOT_ACKED:
            continue
        verdict.acked += 1
        if offset == OFFSET_UNKNOWN:
            verdict.missing += first_at[number] < 0
        else:
            verdict.missing += offset >= len(held) or held[offset] != number


def self_test() -> list[str]:
    """Damages a good log on purpose, one way at a time; returns what the checker did not find."""
    acked, good = list(range(1_000)), list(range(1_000))
    cases: list[tuple[str, list[int], list[int], dict[str, int]]] = [
        ("nothing", acked, good, {}),
        ("one removed at the end", acked, good[:-1], {"missing": 1}),
        # Everything behind the hole sits at another offset than acknowledged.
        ("one removed in the middle", acked, good[:500] + good[501:], {"missing": 500}),
        (
            "one removed, no offsets known",
            [OFFSET_UNKNOWN] * 1_000,
            good[:500] + good[501:],
            {"missing": 1},
        ),
        (
            "one overwritten",
            acked,
            [*good[:500], 499, *good[501:]],
            {"missing": 1, "duplicated": 1},
        ),
        ("one duplicated at the end", acked, [*good, 999], {"duplicated": 1}),
        (
            "two swapped",
            acked,
            [*good[:500], 501, 500, *good[502:]],
            {"missing": 2, "reordered": 1},
        ),
        (
            "one moved to the end",
            [OFFSET_UNKNOWN] * 1_000,
            good[:500] + good[501:] + [500],
            {"reordered": 1},
        ),
        ("one invented", acked, [*good, 5_000], {"invented": 1}),
        ("one never acknowledged", [*acked[:-1], NOT_ACKED], good[:-1], {}),
    ]
    wrong = []
    for name, offsets, held, expected in cases:
        verdict = Verdict()
        check_partition(offsets, held, verdict)
        found = {k: v for k, v in vars(verdict).items() if k != "acked" and v}
        if found != expected:
            wrong.append(f"{name}: found {found}, expected {expected}")
    return wrong
