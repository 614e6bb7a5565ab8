"""How rounds alternate, which count, what a round without a flush is, and that what was started is ended."""

import json
import signal
import sys
import time
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine
import rounds
import special
from client import Client, RoundFailed, perf_megabytes, unsound
from effort import Effort
from rounds import Session
from scenarios import BY_ID, Figures, Load, figures_of
from sides import Where

EFFORT = Effort("full", pairs=2, seconds=1, warm_up_seconds=0, is_full=True)


class Rehearsed(Session):
    """A session whose rounds are written down beforehand."""

    def __init__(self, script: dict[str, list[float | None]], effort: Effort = EFFORT) -> None:
        where = Where(Path("none"), Path("none"))
        super().__init__(Client(Path("none"), Path("none"), "1"), where, Path("none"), effort)
        self.script = script
        self.order: list[str] = []

    def run(self, side: str, load: Load, seconds: int, warm_up: int = 1, audit_bytes: str | None = None) -> Figures:
        self.order.append(side)
        value = self.script[side].pop(0)
        if value is None:
            raise RoundFailed("as the script has it")
        # What the round asks for, or as long as its bytes last.
        return {"MB/s": value, "seconds": min(seconds, 10)}


def sound(**changes: Any) -> dict[str, Any]:
    result = {"audit": {"has_passed": True}, "end": {"how": "complete"}, "errors": [], "unanswered": 0}
    return result | {"measured": {"requests": 1}} | changes


class Order(unittest.TestCase):
    """A B, B A, and so on: a machine that slows down slows both."""

    def test_pairs_alternate_and_end_when_enough_agree(self) -> None:
        names = ("corelog", "kafka-g1", "kafka-zgc")
        session = Rehearsed({name: [100.0] * 9 for name in names})
        cell = session.measure(BY_ID["S1a"])
        self.assertEqual(session.order, [*names, *reversed(names)])
        self.assertEqual((len(cell["pairs"]), cell["discarded"], cell["has_settled"]), (2, 0, True))

    def test_pairs_of_a_cold_side_are_kept_apart(self) -> None:
        script = {"corelog": [100.0] * 9, "kafka-g1": [10.0, 20, 40, 41, 41], "kafka-zgc": [50.0] * 9}
        cell = Rehearsed(script).measure(BY_ID["S1a"])
        self.assertEqual((cell["discarded"], len(cell["pairs"]), len(cell["discarded_pairs"])), (2, 2, 2))

    def test_sides_that_never_agree_end_and_are_marked(self) -> None:
        restless = [float(2**n) for n in range(20)]
        script = {name: list(restless) for name in ("corelog", "kafka-g1", "kafka-zgc")}
        cell = Rehearsed(script).measure(BY_ID["S1a"])
        self.assertFalse(cell["has_settled"])
        self.assertEqual(cell["discarded"] + len(cell["pairs"]), 2 + rounds.DISCARDED_MAX)

    def test_a_side_that_answers_nothing_in_time_is_judged_by_what_it_takes(self) -> None:
        pairs = [{"corelog": {"p50 ms": 1.0, "MB/s": 10.0}, "kafka-g1": {"p50 ms": None, "MB/s": 0.5}}]
        self.assertEqual(rounds.primaries(pairs, ["corelog", "kafka-g1"], "p50 ms"), [[1.0, 0.5]])

    def test_the_slower_collector_is_left_out_of_a_quick_run(self) -> None:
        effort = replace(EFFORT, is_full=False)
        script = {"corelog": [9.0] * 9, "kafka-g1": [1.0] * 9, "kafka-zgc": [2.0] * 9}
        session = Rehearsed(script, effort)
        session.measure(BY_ID["S1a"])
        self.assertEqual(session.order[3:], ["kafka-zgc", "corelog"])

    def test_a_round_may_fail_twice(self) -> None:
        once = {"corelog": [None, None, 100.0, 100, 100], "kafka-g1": [1.0] * 9, "kafka-zgc": [1.0] * 9}
        self.assertEqual(len(Rehearsed(once).measure(BY_ID["S1a"])["failures"]), 2)
        with self.assertRaises(RoundFailed):
            Rehearsed({**once, "corelog": [None, None, None]}).measure(BY_ID["S1a"])

    def test_a_topic_that_is_refused_while_a_side_warms_up_ends_no_scenario(self) -> None:
        effort = replace(EFFORT, warm_up_seconds=4)
        script = {"corelog": [None, 1.0, *[100.0] * 9], "kafka-g1": [1.0] * 9, "kafka-zgc": [1.0] * 9}
        session = Rehearsed(script, effort)
        self.assertEqual(len(session.measure(BY_ID["S1a"])["failures"]), 1)
        self.assertEqual(session.order[:4], ["corelog", "corelog", "kafka-g1", "kafka-zgc"])

    def test_a_warm_up_lasts_however_soon_its_rounds_have_sent_their_bytes(self) -> None:
        session = Rehearsed({"corelog": [1.0] * 9}, replace(EFFORT, warm_up_seconds=45, kafkas=()))
        session.warm("corelog", BY_ID["S1a"])
        self.assertEqual(len(session.order), 5, "four of ten seconds, and one of five")
        session.warm("corelog", BY_ID["S1b"])
        self.assertEqual(len(session.order), 7, "a quarter of it where it was warm from another load")

    def test_a_scenario_whose_time_is_over_ends_with_the_pairs_that_it_has(self) -> None:
        script = {name: [100.0] * 9 for name in ("corelog", "kafka-g1", "kafka-zgc")}
        session = Rehearsed(script, replace(EFFORT, pairs=3))
        session.bound(-1)
        cell = session.measure(BY_ID["S1a"])
        self.assertEqual((len(cell["pairs"]), cell["has_settled"]), (1, False))


class Trust(unittest.TestCase):
    """A figure that may not be believed is none."""

    def test_what_makes_a_round_void(self) -> None:
        self.assertIsNone(unsound(sound()))
        self.assertIsNone(unsound(sound(beside=sound())))
        for change in (
            {"audit": {"has_passed": False, "findings": [{"fact": "gone"}]}},
            {"end": {"how": "failed"}},
            {"end": {"how": "interrupted"}},
            {"errors": [{"name": "KAFKA_STORAGE_ERROR"}]},
            {"unanswered": 2},
            {"measured": {"requests": 0}},
            {"beside": sound(audit={"has_passed": False, "findings": []})},
        ):
            self.assertIsNotNone(unsound(sound(**change)), change)

    def test_a_durable_round_counts_only_where_the_device_was_seen_to_flush(self) -> None:
        session = Rehearsed({})
        counts = {"flushes": 89, "flushes_min": 90, "unknown_because": None}
        session.check_flushes("S2a on corelog", counts | {"verdict": "passed"})
        hidden = counts | {"verdict": "unknown", "unknown_because": "it has no volatile cache"}
        for flush, why in (
            (counts | {"verdict": "failed"}, "89 flushes, and so many acknowledgements need 90"),
            (hidden, "no volatile cache"),
            (counts | {"verdict": "not_demanded"}, "do not promise the disk"),
            (None, "do not promise the disk"),
        ):
            with self.assertRaisesRegex(RoundFailed, why):
                session.check_flushes("S2a on corelog", flush)
        session.needs_flushes = False
        session.check_flushes("S2a on corelog", hidden)

    def test_a_run_that_the_disk_has_no_room_for_is_refused(self) -> None:
        with self.assertRaises(machine.MachineError):
            machine.need_space(Path("/"), 1 << 60)

    def test_the_sum_of_kafkas_own_test_is_its_last_line(self) -> None:
        lines = "10 records sent, 2.0 records/sec (0.50 MB/sec), 1 ms avg\n20 records sent, 4.0 records/sec (71.25 MB/sec), 2 ms\n"
        self.assertEqual(perf_megabytes(lines), 71.25)
        with self.assertRaises(RoundFailed):
            perf_megabytes("ERROR")

    def test_cards_follow_their_progress(self) -> None:
        card = json.dumps({"rows": [{"name": "floor: x, 1 MiB", "cpu_seconds_per_gb": 0.1}]})
        rows = special.card_rows("floor: x  0.1\n" + card)
        self.assertEqual(special.cost_of(rows, "floor: x"), 0.1)
        for broken in ("", "no card", '{"rows": []}', "{"):
            with self.assertRaises(RoundFailed):
                special.card_rows(broken)

    def test_what_was_not_measured_is_no_zero(self) -> None:
        nothing = {"count": 0, "p50_ms": 0.0, "p99_ms": 0.0, "p999_ms": 0.0}
        measured = {"mb_per_second": 1.0, "requests_per_second": 1.0, "seconds": 1.0}
        result = {"measured": measured, "broker": None, "client": None, "latency": nothing, "unsent": 9}
        found = figures_of(result | {"delivery": nothing})
        absent = ("p50 ms", "p99.9 ms", "delivered p99 ms", "CPU-s/GB", "resident MB")
        self.assertEqual([found[name] for name in absent], [None] * len(absent))
        self.assertEqual(figures_of(result | {"delivery": None})["delivered p99 ms"], None)
        self.assertEqual([special.quotient(*two) for two in ((3.0, 2.0), (None, 2.0), (3.0, 0.0))], [1.5, None, None])

    def test_a_size_that_was_scaled_says_so(self) -> None:
        self.assertEqual(special.amount(20.0, 20.0, "GB"), "20 GB")
        self.assertEqual(special.amount(2.0, 20.0, "GB"), "2 GB instead of 20 GB (--scale)")


class Soak(unittest.TestCase):
    """Its end is held against its beginning, as the bench tells them."""

    def test_ratios_are_of_the_bench_and_a_short_soak_says_so(self) -> None:
        first = {"mb_per_second": 30.0, "latency": {"p999_ms": 4.0}, "broker_rss_bytes": 50_000_000}
        last = {"mb_per_second": 27.0, "latency": {"p999_ms": 5.0}, "broker_rss_bytes": None}
        trend = {"window_seconds": 18.0, "first": first, "last": last}
        cell = special.soak_cell(180, {"trend": trend, "audit": {"expired_batches": 1_234}})
        values = {row["what"]: row["values"] for row in cell["rows"]}
        self.assertEqual(values["throughput, last to first"], {"corelog": 0.9})
        self.assertEqual(values["p99.9, last to first"], {"corelog": 1.25})
        self.assertEqual(values["memory, last to first"], {})
        [note] = cell["notes"]
        self.assertIn("180 s instead of 1,800 s", note)
        self.assertIn("retention took 1,234 batches", note)
        with self.assertRaises(RoundFailed):
            special.soak_cell(180, {"trend": None, "audit": {"expired_batches": 0}})


class Ends(unittest.TestCase):
    """What was started is ended."""

    def test_clients_that_hang_are_ended_by_their_pid(self) -> None:
        client = Client(Path("none"), Path("none"), "1")
        deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
        process = client.start([sys.executable, "-c", "import time; time.sleep(600)"])
        with self.assertRaises(RoundFailed):
            client.finish(process, 0.2)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        left = client.start([sys.executable, "-c", deaf])
        assert left.stdout is not None
        left.stdout.readline()
        client.close()
        self.assertEqual((left.poll(), client.running), (-signal.SIGKILL, []))
        left.stdout.close()

    def test_no_client_runs_beyond_the_time_of_its_scenario(self) -> None:
        client = Client(Path("none"), Path("none"), "1")
        client.ends = time.monotonic()
        process = client.start([sys.executable, "-c", "import time; time.sleep(600)"])
        with self.assertRaises(RoundFailed):
            client.finish(process, 500)
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_a_client_that_fails_says_why(self) -> None:
        client = Client(Path("none"), Path("none"), "1")
        with self.assertRaisesRegex(RoundFailed, "exit 3: because"):
            client.call([sys.executable, "-c", "print('because'); raise SystemExit(3)"], 30)


if __name__ == "__main__":
    unittest.main()
