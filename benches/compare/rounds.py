"""A session: brokers that live as long as a scenario, and rounds that alternate between them.

    warm up each side ── pair ── pair ── …         a pair is a round of every side, in turn: A B, B A, A B, …
                          └ discarded until two agree on every side; then as many as were asked

Every broker that is started is ended by its pid, whatever happens; every wait has a bound.
"""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import conformance  # noqa: F401
import machine
from client import Client, RoundFailed
from effort import Effort
from figures import warm_from
from harness.broker import Broker
from scenarios import GIGABYTES_MAX, HIGHER_IS_BETTER, Figures, Load, figures_of
from sides import CORELOG, Where, broker_of

# Beyond this many discarded pairs the machine is not quiet, and the row says so.
DISCARDED_MAX = 5
FAILURES_MAX = 3
# A broker that is warm from another load needs so much less.
WARM_AGAIN = 4
# A round as fast as possible ends when its bytes are sent: a warm-up is as many of them as it takes, and no more than these.
WARM_ROUNDS_MAX = 40
WARM_AUDIT_BYTES = "16MB"
# For the round that is under way when a scenario's time is over.
GRACE_SECONDS = 300

Pair = dict[str, Figures]


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
    # When the scenario's time is over, on the monotonic clock.
    ends: float = math.inf

    def bound(self, seconds: float) -> None:
        """A scenario begins: no pair starts after so long, and no client runs much longer."""
        self.ends = time.monotonic() + seconds
        self.client.ends = self.ends + GRACE_SECONDS

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

    def run(self, side: str, load: Load, seconds: int, warm_up: int = 1, audit_bytes: str | None = None) -> Figures:
        """One round: the figures of one side."""
        broker = self.broker(side)
        save = self.save_to(load.id, side)
        words = [load.verb, *load.words, *load.topic_words(side)]
        words += ["--warm-up", str(warm_up), "--duration", str(seconds)]
        if load.verb == "produce":
            if "--rate" not in load.words:
                words += ["--bytes", f"{GIGABYTES_MAX}GB"]
            if audited := audit_bytes or self.effort.audit_bytes:
                words += ["--audit-bytes", audited]
        if load.durability == "D1":
            words += ["--broker-dir", str(broker.data_dir)]
        machine.settle()
        result = self.client.run_bench(words, broker.bootstrap, broker.pid, save, seconds + warm_up)
        found = figures_of(result)
        if load.durability == "D1":
            self.check_flushes(f"{load.id} on {side}", result["flush"])
        return found

    def save_to(self, name: str, side: str) -> Path:
        """Where the next result goes."""
        self.rounds += 1
        return self.results / "rounds" / f"{self.rounds:04}-{name}-{side}.json"

    def check_flushes(self, place: str, flush: dict[str, Any] | None) -> None:
        """An acknowledgement that promises the disk needs a device that was told to flush: a kill cannot show that.

        The bench counts both; without its "passed" a round is void, also where nobody knows.
        """
        if not self.needs_flushes or (flush and flush["verdict"] == "passed"):
            return
        if flush and flush["verdict"] == "failed":
            fact = f"the device did {flush['flushes']} flushes, and so many acknowledgements need {flush['flushes_min']}"
            raise RoundFailed(f"{place}: {fact}: records were acknowledged before they were on disk")
        why = (flush or {}).get("unknown_because") or "the topic's options do not promise the disk"
        raise RoundFailed(f"{place}: nothing shows that acknowledgements waited for the disk: {why}")

    def measure(self, load: Load) -> dict[str, Any]:
        """All rounds of a load; raises `RoundFailed` where there is no result."""
        sides = [CORELOG, *self.effort.kafkas]
        failures: list[str] = []
        for side in sides:
            while self.tried(partial(self.warm, side, load), load.id, failures) is None:
                pass
        pairs: list[Pair] = []
        while not is_enough(pairs, sides, load.primary, self.effort.pairs):
            if pairs and time.monotonic() > self.ends:
                say(f"{load.id}: its time is over")
                break
            order = sides if len(pairs) % 2 == 0 else list(reversed(sides))
            pair = self.tried(partial(self.pair, order, load), load.id, failures)
            if pair is None:
                continue
            pairs.append(pair)
            say(f"{load.id} pair {len(pairs)}: {line(pair, load.primary)}")
            if not self.effort.is_full:
                sides = faster(sides, pairs[0], load.primary)
        return concluded(load, pairs, sides, failures)

    def tried(self, act: Callable[[], Pair], name: str, failures: list[str]) -> Pair | None:
        """What `act` gives, or `None` where it failed; raises when that was once too often.

        A broker may refuse a topic for a moment that it has just made, and a round may be void: neither ends a scenario.
        """
        try:
            return act()
        except RoundFailed as failure:
            failures.append(str(failure))
            say(f"{name}: {failure}")
            if len(failures) >= FAILURES_MAX:
                raise RoundFailed("; ".join(failures)) from None
            return None

    def pair(self, order: Sequence[str], load: Load) -> Pair:
        """A round of every side."""
        return {side: self.run(side, load, self.effort.seconds) for side in order}

    def warm(self, side: str, load: Load) -> Pair:
        """So long that a JVM has compiled and memory has been touched; counts for nothing."""
        # It ran another load before where it is warm: this one's paths are left to compile.
        left: float = self.effort.warm_up_seconds // (WARM_AGAIN if side in self.warmed else 1)
        for _ in range(WARM_ROUNDS_MAX):
            if left <= 0:
                break
            figures = self.run(side, load, math.ceil(left), warm_up=0, audit_bytes=WARM_AUDIT_BYTES)
            left -= figures["seconds"] or left
        self.warmed.add(side)
        return {}


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
