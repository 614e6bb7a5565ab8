"""How rounds alternate, which count, what a round without a flush is, and that what was started is ended."""

import json
import signal
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine
import rounds
import run
import special
from client import Client, RoundFailed, perf_megabytes, unsound
from rounds import Effort, Session
from scenarios import BY_ID, Figures, Load, figures_of
from sides import Where

EFFORT = Effort(pairs=2, seconds=1, warm_up_seconds=0, has_all_collectors=True)


class Rehearsed(Session):
    """A session whose rounds are written down beforehand."""

    def __init__(self, script: dict[str, list[float | None]], effort: Effort = EFFORT) -> None:
        where = Where(Path("none"), Path("none"))
        super().__init__(Client(Path("none"), Path("none"), "1"), where, Path("none"), effort)
        self.script = script
        self.order: list[str] = []

    def run(self, side: str, load: Load, seconds: int, warm_up: int = 1) -> Figures:
        self.order.append(side)
        value = self.script[side].pop(0)
        if value is None:
            raise RoundFailed("as the script has it")
        return {"MB/s": value}


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
        effort = replace(EFFORT, has_all_collectors=False)
        script = {"corelog": [9.0] * 9, "kafka-g1": [1.0] * 9, "kafka-zgc": [2.0] * 9}
        session = Rehearsed(script, effort)
        session.measure(BY_ID["S1a"])
        self.assertEqual(session.order[3:], ["kafka-zgc", "corelog"])

    def test_a_round_may_fail_twice(self) -> None:
        once = {"corelog": [None, None, 100.0, 100, 100], "kafka-g1": [1.0] * 9, "kafka-zgc": [1.0] * 9}
        self.assertEqual(len(Rehearsed(once).measure(BY_ID["S1a"])["failures"]), 2)
        with self.assertRaises(RoundFailed):
            Rehearsed({**once, "corelog": [None, None, None]}).measure(BY_ID["S1a"])


class Trust(unittest.TestCase):
    """A figure that may not be believed is none."""

    def test_what_makes_a_round_void(self) -> None:
        self.assertIsNone(unsound(sound()))
        for change in (
            {"audit": {"has_passed": False, "findings": [{"fact": "gone"}]}},
            {"end": {"how": "failed"}},
            {"end": {"how": "interrupted"}},
            {"errors": [{"name": "KAFKA_STORAGE_ERROR"}]},
            {"unanswered": 2},
            {"measured": {"requests": 0}},
        ):
            self.assertIsNotNone(unsound(sound(**change)), change)

    def test_a_durable_round_whose_device_flushed_too_seldom_is_void(self) -> None:
        measured = {"requests": 4_000, "seconds": 4.0}
        result = {"connections": 8, "measured": measured, "latency": {"mean_ms": 2.0}}
        paced = result | {"job": {"in_flight": 5, "pace": {"loop": "bytes"}}}
        self.assertEqual(rounds.flushes_least(paced), 900)
        least = rounds.flushes_least(result | {"job": {"in_flight": 5, "pace": {"loop": "closed"}}})
        self.assertEqual(least, 90)
        session = Rehearsed({})
        for count in (0, 89, None):
            with self.assertRaises(RoundFailed):
                session.check_flushes("S2a on corelog", count, least)
        session.check_flushes("S2a on corelog", 90, least)
        session.needs_flushes = False
        session.check_flushes("S2a on corelog", 0, least)

    def test_flushes_are_the_sixteenth_field(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            device = Path(scratch) / "8:0"
            device.mkdir()
            (device / "stat").write_text(" ".join(str(n) for n in range(1, 18)) + "\n")
            self.assertEqual(machine.flush_count("8:0", Path(scratch)), 16)
            (device / "stat").write_text("1 2 3 4 5 6 7 8 9 10 11\n")
            self.assertIsNone(machine.flush_count("8:0", Path(scratch)))
            self.assertIsNone(machine.flush_count("8:1", Path(scratch)))

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
        measured = {"mb_per_second": 1.0, "requests_per_second": 1.0}
        result = {"measured": measured, "broker": None, "client": None, "latency": nothing, "unsent": 9}
        found = figures_of(result | {"delivery": nothing})
        absent = ("p50 ms", "p99.9 ms", "delivered p99 ms", "CPU-s/GB", "resident MB")
        self.assertEqual([found[name] for name in absent], [None] * len(absent))
        self.assertEqual(figures_of(result | {"delivery": None})["delivered p99 ms"], None)
        self.assertEqual([special.quotient(*two) for two in ((3.0, 2.0), (None, 2.0), (3.0, 0.0))], [1.5, None, None])

    def test_the_ends_of_a_soak(self) -> None:
        def second(megabytes: int, ms: float) -> dict[str, Any]:
            return {"seconds": 1.0, "bytes": megabytes * 10**6, "p999_ms": ms, "broker": {"rss_bytes": 5 * 10**7}}

        first, last = special.edges([second(30, 1.0)] * 5 + [second(1, 99.0)] * 90 + [second(15, 2.0)] * 5, 5)
        self.assertEqual((first["MB/s"], last["MB/s"], last["p99.9 ms"]), (30.0, 15.0, 2.0))
        self.assertEqual(first["resident MB"], 50.0)
        unnamed = {"seconds": 1.0, "bytes": 1, "p999_ms": 1.0, "broker": None}
        self.assertIsNone(special.edges([unnamed], 5)[0]["resident MB"])


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

    def test_a_client_that_fails_says_why(self) -> None:
        client = Client(Path("none"), Path("none"), "1")
        with self.assertRaisesRegex(RoundFailed, "exit 3: because"):
            client.call([sys.executable, "-c", "print('because'); raise SystemExit(3)"], 30)


class Choice(unittest.TestCase):
    """Which scenarios a command line means."""

    def test_every_scenario_of_the_issue_has_a_place(self) -> None:
        known = set(BY_ID) | set(special.SPECIAL)
        self.assertEqual(known, set(run.ORDER))
        self.assertEqual(run.chosen(run.options_of([])), list(run.ORDER))

    def test_a_quick_run_is_those_that_matter_most(self) -> None:
        quick = run.chosen(run.options_of(["--quick"]))
        self.assertEqual(quick, ["S1a", "S1b", "S2a", "S2b", "S2c", "S3a", "S3b", "S3c", "S3d", "S8", "S11"])
        self.assertEqual(run.chosen(run.options_of(["--only", "S8", "S1a"])), ["S1a", "S8"])

    def test_the_version_of_kafka_is_that_which_is_fetched(self) -> None:
        self.assertRegex(run.kafka_version(), r"^4\.\d+\.\d+$")

    def test_no_path_of_this_machine_stands_in_the_command(self) -> None:
        words = ["--quick", "--dir", "/somewhere", "--corelog=/x/corelog", "--scale", "0.1"]
        self.assertEqual(run.without_paths(words), ["--quick", "--scale", "0.1"])

    def test_a_scenario_that_failed_ends_with_1_and_a_missed_target_does_not(self) -> None:
        self.assertEqual(run.exit_code({"cells": {"a": {"status": "done"}}}), 0)
        self.assertEqual(run.exit_code({"cells": {"a": {"status": "done"}, "b": {"status": "failed"}}}), 1)


if __name__ == "__main__":
    unittest.main()
