"""A session: brokers that live as long as a scenario, and rounds that alternate between them.

    warm up each side ── pair ── pair ── …         a pair is a round of every side, in turn: A B, B A, A B, …
                          └ discarded until two agree on every side; then as many as were asked

Every broker that is started is ended by its pid, whatever happens; every wait has a bound.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import conformance  # noqa: F401
import machine
from client import Client, RoundFailed
from figures import warm_from
from harness.broker import Broker
from scenarios import HIGHER_IS_BETTER, Figures, Load, figures_of
from sides import CORELOG, KAFKAS, Where, broker_of

# Beyond this many discarded pairs the machine is not quiet, and the row says so.
DISCARDED_MAX = 5
FAILURES_MAX = 3
# A broker that is warm from another load needs so much less.
WARM_AGAIN = 4

Pair = dict[str, Figures]


@dataclass(frozen=True)
class Effort:
    """How long and how often."""

    pairs: int
    seconds: int
    warm_up_seconds: int
    # Whether the slower of Kafka's collectors goes on after the first pair.
    has_all_collectors: bool
    audit_bytes: str | None = None
    # How much of the large sizes is done.
    scale: float = 1.0
    kafkas: tuple[str, ...] = KAFKAS


@dataclass
class Session:
    """What runs now, and where everything goes."""

    client: Client
    where: Where
    # Where results go; brokers' directories are elsewhere, and go away.
    results: Path
    effort: Effort
    needs_flushes: bool = True
    brokers: dict[str, Broker] = field(default_factory=dict)
    warmed: set[str] = field(default_factory=set)
    lives: int = 0
    rounds: int = 0

    def broker(self, side: str, where: Where | None = None) -> Broker:
        """The running broker of a side, started with a fresh directory where there is none."""
        if side not in self.brokers:
            self.lives += 1
            broker = broker_of(side, where or self.where, f"data-{self.lives}")
            broker.data_dir.parent.mkdir(parents=True, exist_ok=True)
            self.brokers[side] = broker
            say(f"starting {side}")
            broker.start()
        return self.brokers[side]

    def end_brokers(self) -> None:
        """Ends all by their pids, and removes what they wrote once none runs any more: that may take a while."""
        ended = list(self.brokers.values())
        self.brokers.clear()
        self.warmed.clear()
        for broker in ended:
            broker.close()
        for broker in ended:
            remove(broker.data_dir)

    def close(self) -> None:
        """Whatever happened."""
        self.client.close()
        self.end_brokers()

    def run(self, side: str, load: Load, seconds: int, warm_up: int = 1) -> Figures:
        """One round: the figures of one side."""
        broker = self.broker(side)
        self.rounds += 1
        save = self.results / "rounds" / f"{self.rounds:04}-{load.id}-{side}.json"
        words = [load.verb, *load.words, *load.topic_words(side)]
        words += ["--warm-up", str(warm_up), "--duration", str(seconds)]
        if load.verb == "produce":
            if "--rate" not in load.words:
                words += ["--bytes", f"{load.gigabytes_max}GB"]
            if self.effort.audit_bytes:
                words += ["--audit-bytes", self.effort.audit_bytes]
        machine.settle()
        flushes = machine.Flushes.watch(self.where.directory)
        result = self.client.run_bench(words, broker.bootstrap, broker.pid, save, seconds + warm_up)
        found = figures_of(result)
        if load.durability == "D1":
            count = flushes.since()
            self.check_flushes(f"{load.id} on {side}", count, flushes_least(result))
            found["device flushes"] = None if count is None else float(count)
        return found

    def check_flushes(self, place: str, count: int | None, least: int) -> None:
        """An acknowledgement that promises the disk needs a device that was told to flush: a kill cannot show that."""
        if not self.needs_flushes:
            return
        if count is None:
            raise RoundFailed(f"{place}: the kernel does not tell the device's flushes, and nothing else shows a sync")
        if count < least:
            fact = f"the device did {count} flushes, and so many acknowledgements need {least}"
            raise RoundFailed(f"{place}: {fact}: records were acknowledged before they were on disk")

    def measure(self, load: Load) -> dict[str, Any]:
        """All rounds of a load; raises `RoundFailed` where there is no result."""
        sides = [CORELOG, *(self.effort.kafkas if load.has_kafka else ())]
        for side in sides:
            self.warm(side, load)
        pairs: list[Pair] = []
        failures: list[str] = []
        while not is_enough(pairs, sides, load.primary, self.effort.pairs):
            order = sides if len(pairs) % 2 == 0 else list(reversed(sides))
            try:
                pair = {side: self.run(side, load, self.effort.seconds) for side in order}
            except RoundFailed as failure:
                failures.append(str(failure))
                say(f"{load.id}: {failure}")
                if len(failures) >= FAILURES_MAX:
                    raise RoundFailed("; ".join(failures)) from None
                continue
            pairs.append(pair)
            say(f"{load.id} pair {len(pairs)}: {line(pair, load.primary)}")
            if not self.effort.has_all_collectors:
                sides = faster(sides, pairs[0], load.primary)
        return concluded(load, pairs, sides, failures)

    def warm(self, side: str, load: Load) -> None:
        """So long that a JVM has compiled and memory has been touched; counts for nothing."""
        seconds = self.effort.warm_up_seconds
        if side in self.warmed:
            # It ran another load before: this one's paths are left to compile.
            seconds //= WARM_AGAIN
        if seconds:
            self.run(side, load, seconds, warm_up=0)
            self.warmed.add(side)


def flushes_least(result: dict[str, Any]) -> int:
    """What so many durable acknowledgements need of the device; every one waits for a flush that ends after it came.

    As fast as possible, no more can be acknowledged between two flushes than was in flight. At a rate, requests come evenly: those
    that come between two flushes wait half of that time on the average, so that flushes are at most twice the mean latency apart.
    One in ten is let go: the first and the last of a round.
    """
    measured, job = result["measured"], result["job"]
    if job["pace"]["loop"] == "closed":
        least = measured["requests"] / (result["connections"] * job["in_flight"])
    else:
        least = measured["seconds"] * 1_000 / (2 * max(result["latency"]["mean_ms"], 1e-3))
    return max(1, int(0.9 * least))


def faster(sides: Sequence[str], pair: Pair, primary: str) -> list[str]:
    """Ours and the better of Kafka's, by the first pair."""
    kafkas = [side for side in sides if side != CORELOG]
    if len(kafkas) < 2:
        return list(sides)

    def value(side: str) -> float:
        found = pair[side][primary]
        worst = float("-inf") if primary in HIGHER_IS_BETTER else float("inf")
        return worst if found is None else found

    best = max(kafkas, key=value) if primary in HIGHER_IS_BETTER else min(kafkas, key=value)
    return [CORELOG, best]


def primaries(pairs: Sequence[Pair], sides: Sequence[str], primary: str) -> list[list[float]]:
    """What tells warmth, pair by pair and side by side; of a side that answers nothing in time, how much it takes at all."""

    def told(figures: Figures) -> float:
        return figures.get(primary) or figures.get("MB/s") or 0.0

    return [[told(pair[side]) for side in sides] for pair in pairs]


def is_enough(pairs: Sequence[Pair], sides: Sequence[str], primary: str, wanted: int) -> bool:
    """Whether as many pairs count as were asked, or no more are worth it."""
    if wanted == 1 and pairs:
        return True
    first = warm_from(primaries(pairs, sides, primary))
    counted = 0 if first is None else len(pairs) - first
    return counted >= wanted or len(pairs) >= wanted + DISCARDED_MAX


def concluded(load: Load, pairs: list[Pair], sides: Sequence[str], failures: list[str]) -> dict[str, Any]:
    """What is kept of a load."""
    first = warm_from(primaries(pairs, sides, load.primary))
    # Nothing settled: the last pairs are the best there is, and the table marks them.
    start = first if first is not None else max(0, len(pairs) - 3)
    return {
        "id": load.id,
        "kind": "load",
        "status": "done",
        "has_settled": first is not None,
        "discarded": start,
        "pairs": pairs[start:],
        "discarded_pairs": pairs[:start],
        "failures": failures,
    }


def line(pair: Pair, primary: str) -> str:
    """One pair for a person who waits."""
    shown = (f"{side} {figures[primary]:,.2f}" for side, figures in pair.items() if figures[primary] is not None)
    return f"{primary}: {', '.join(shown)}"


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def remove(directory: Path) -> None:
    """A directory of ours, with what is in it."""
    shutil.rmtree(directory, ignore_errors=True)
