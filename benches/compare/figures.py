"""Figures of pairs of rounds: which pairs count, what their ratio is, and whether a target is met.

Pure: numbers in, numbers out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# Two pairs agree when no side's figure moved by more than this between them.
AGREEMENT = 0.15


def agree(first: float, second: float, within: float = AGREEMENT) -> bool:
    """Whether two figures of one side are so close that the side is warm."""
    smaller, larger = sorted((first, second))
    return smaller > 0 and larger / smaller - 1 <= within


def warm_from(pairs: Sequence[Sequence[float]], within: float = AGREEMENT) -> int | None:
    """The first pair that counts: it and the next one agree on every side. `None` while none does."""
    for index in range(len(pairs) - 1):
        here, following = pairs[index], pairs[index + 1]
        if all(agree(a, b, within) for a, b in zip(here, following, strict=True)):
            return index
    return None


@dataclass(frozen=True)
class Spread:
    """What several values tell: the middle one and the ends."""

    middle: float
    least: float
    most: float
    count: int


def spread(values: Sequence[float]) -> Spread | None:
    """Of nothing, nothing."""
    if not values:
        return None
    return Spread(median(values), min(values), max(values), len(values))


def ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float]:
    """Pair by pair, where both have a figure and theirs is not zero."""
    both = zip(ours, theirs, strict=True)
    return [a / b for a, b in both if a is not None and b is not None and b > 0]


@dataclass(frozen=True)
class Target:
    """What is wanted of a figure: at least, or at most, so much."""

    bound: float
    is_minimum: bool

    def is_met(self, value: float) -> bool:
        """Whether `value` is good enough."""
        return value >= self.bound if self.is_minimum else value <= self.bound

    def text(self, unit: str) -> str:
        """As the table has it."""
        return f"{'≥' if self.is_minimum else '≤'} {number(self.bound)}{unit}"


def at_least(bound: float) -> Target:
    """A target from below."""
    return Target(bound, is_minimum=True)


def at_most(bound: float) -> Target:
    """A target from above."""
    return Target(bound, is_minimum=False)


def number(value: float) -> str:
    """Three digits or so, thousands apart."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.1:
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:.3g}"
