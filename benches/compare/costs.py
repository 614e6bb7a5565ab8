"""What a scenario takes, reckoned beforehand: shown before it begins, and the bound that ends one which takes far longer.

Pure. Reckoned from the lengths of rounds, and from rates that a machine of two CPUs and its disk have; a slower one takes longer,
which the line of the remaining time learns from the scenarios that are done.
"""

from collections.abc import Callable, Sequence

from effort import FULL, QUICK, Effort
from scenarios import BY_ID, Load

# Until a broker answers: ours is there at once, a JVM touches its heap first.
START_SECONDS = 6
# Connecting, making and deleting a topic, writing out what is left, and reading back, beside a round's own seconds.
ROUND_EXTRA_SECONDS, ROUND_EXTRA_SECONDS_FULL = 2, 6
# One pair is discarded where all goes well.
DISCARDED_PAIRS = 1
# What a broker takes and gives of a large topic.
FILL_MB_PER_SECOND, COLD_MB_PER_SECOND = 250, 400
# Ten thousand connections, opened one after another.
CONNECT_SECONDS = 10
FLOOR_SECONDS = 20
# Nothing is ended before it took so much longer than was reckoned.
BOUND_TIMES, BOUND_MORE_SECONDS = 2, 120


def sides_of(effort: Effort) -> int:
    """Ours, and Kafka's."""
    return 1 + len(effort.kafkas)


def round_seconds(effort: Effort) -> int:
    """One round with all that belongs to it."""
    extra = ROUND_EXTRA_SECONDS_FULL if effort.is_full else ROUND_EXTRA_SECONDS
    return 1 + effort.seconds + extra


def of_load(load: Load, effort: Effort) -> float:
    """Warming every side, then pairs; a quick run's brokers are there already, warm from another load."""
    sides = sides_of(effort)
    warm = effort.warm_up_seconds if effort.is_full or load.is_alone else effort.warm_up_seconds // 3
    starts = START_SECONDS if effort.is_full or load.is_alone else 0
    pairs = effort.pairs + DISCARDED_PAIRS
    # The slower collector leaves after the first pair of a quick run.
    rounds = pairs * sides if effort.is_full else sides + (pairs - 1) * min(sides, 2)
    return sides * (starts + warm) + rounds * round_seconds(effort)


def of_cold(effort: Effort) -> float:
    """S4: 10 GB are written, and read twice."""
    megabytes = 10_000 * effort.scale
    side = 4 * START_SECONDS + 20 + megabytes / FILL_MB_PER_SECOND + 2 * megabytes / COLD_MB_PER_SECOND
    return sides_of(effort) * side


def of_many_partitions(effort: Effort) -> float:
    """S6c: two runs of ours, and ten thousand partitions that are made and deleted."""
    return 2 * (START_SECONDS + round_seconds(effort)) + 30


def of_connections(effort: Effort) -> float:
    """S7: three runs, two of them with all connections."""
    return sides_of(effort) * (START_SECONDS + 3 * round_seconds(effort) + 2 * CONNECT_SECONDS)


def of_restart(effort: Effort) -> float:
    """S10: 20 GB are written; what follows a kill is read again by Kafka, segment by segment."""
    fill = 20_000 * effort.scale / FILL_MB_PER_SECOND
    return sides_of(effort) * (START_SECONDS + 10 + fill + 30)


def of_card(effort: Effort) -> float:
    """S11: idle, two rows with a warm-up each, the floor, and 4 GB that are written and read."""
    cold = 4_000 * effort.scale * (1 / FILL_MB_PER_SECOND + 1 / COLD_MB_PER_SECOND)
    return 3 * START_SECONDS + 12 + 2 * (effort.warm_up_seconds + 20) + FLOOR_SECONDS + cold


def of_soak(effort: Effort) -> float:
    """S12: half an hour, and reading back."""
    return START_SECONDS + 30 + max(60, 1_800 * effort.scale)


def of_shards(effort: Effort) -> float:
    """Four settings, three loads, two rounds each."""
    return 4 * (START_SECONDS + 6 * round_seconds(effort))


def of_perf(effort: Effort) -> float:
    """Two loads on ours and one of Kafka's, 2 GB each; Kafka that syncs takes most of it."""
    return 4 * (2 * START_SECONDS + 15) + 100 * effort.scale


OF_SPECIAL: dict[str, Callable[[Effort], float]] = {
    "S4": of_cold,
    "S6c": of_many_partitions,
    "S7": of_connections,
    "S10": of_restart,
    "S11": of_card,
    "S12": of_soak,
    "shards": of_shards,
    "perf": of_perf,
}


def seconds_of(name: str, effort: Effort) -> float:
    """What a scenario takes, about."""
    return of_load(BY_ID[name], effort) if name in BY_ID else OF_SPECIAL[name](effort)


def bound_of(name: str, effort: Effort) -> float:
    """Beyond this it is ended: a load with the pairs that it has, another one without a result."""
    return BOUND_TIMES * seconds_of(name, effort) + BOUND_MORE_SECONDS


def minutes(seconds: float) -> str:
    """For a person who waits."""
    if seconds < 90:
        return f"{max(10, round(seconds / 10) * 10)} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def remaining(left: Sequence[str], effort: Effort, taken: Sequence[tuple[str, float]]) -> float:
    """What is left takes, if it goes on as it did: `taken` has what is done and the seconds that it took."""
    reckoned = sum(seconds_of(name, effort) for name, _ in taken)
    pace = sum(seconds for _, seconds in taken) / reckoned if reckoned else 1.0
    return pace * sum(seconds_of(name, effort) for name in left)


def told(order: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """At full and at quick effort, and which scenarios take that."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in order:
        times = minutes(seconds_of(name, FULL)), minutes(seconds_of(name, QUICK))
        found.setdefault(times, []).append(name)
    return found


def table(order: Sequence[str]) -> str:
    """Markdown: every scenario at full and at quick effort."""
    lines = [f"| {', '.join(names)} | {full} | {quick} |" for (full, quick), names in told(order).items()]
    whole = [minutes(sum(seconds_of(name, effort) for name in order)) for effort in (FULL, QUICK)]
    return "\n".join(["| each of | full | quick |", "|---|---|---|", *lines, f"| all together | {whole[0]} | {whole[1]} |"])


def plain(order: Sequence[str]) -> str:
    """The same for a terminal."""
    lines = [f"{full:>8}{quick:>9}   {' '.join(names)}" for (full, quick), names in told(order).items()]
    return "\n".join(["what each takes, about:", f"{'full':>8}{'quick':>9}", *lines])
