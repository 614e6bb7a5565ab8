"""What the table says of rounds: medians, the better collector, verdicts, and what has no figures."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

import report
import state as states
from figures import at_least, at_most
from report import BEGIN, END
from scenarios import BY_ID, Load, Row, rows


def figures(megabytes: float | None, cpu: float = 1.0) -> dict[str, float | None]:
    return {"MB/s": megabytes, "CPU-s/GB": cpu, "p99.9 ms": 1.0, "resident MB": 50.0}


def cell(name: str, pairs: list[dict[str, Any]], has_settled: bool = True) -> dict[str, Any]:
    return {"id": name, "kind": "load", "status": "done", "pairs": pairs, "has_settled": has_settled}


def pair(ours: float | None, g1: float, zgc: float | None = None) -> dict[str, Any]:
    found = {"corelog": figures(ours, 0.3), "kafka-g1": figures(g1)}
    return found if zgc is None else found | {"kafka-zgc": figures(zgc)}


def part(**changes: Any) -> dict[str, Any]:
    found = {"date": "2026-01-01", "command": "run.py --quick", "corelog": "0.1.0", "build": "aaaa", "kafka": "4.4.0"}
    effort = {"name": "quick", "pairs": 1, "seconds": 4, "scale": 1.0}
    return found | {"effort": effort, "machine": {"CPU": "A|B", "CPUs": "2"}} | changes


def state(*parts: dict[str, Any], **cells: dict[str, Any]) -> dict[str, Any]:
    of_first = {name: {"part": 0} | found for name, found in cells.items()}
    return states.new() | {"scenarios": list(cells), "parts": list(parts) or [part()], "cells": of_first}


class Ratios(unittest.TestCase):
    """A ratio is the middle of the ratios of pairs, to the better of Kafka's collectors."""

    def test_the_better_collector_counts_figure_by_figure(self) -> None:
        pairs = [pair(300, 100, 120), pair(330, 90, 110), pair(300, 100, 125)]
        line = report.line_of(BY_ID["S1a"], Row("MB/s", at_least(2.2)), cell("S1a", pairs))
        assert line.ratio is not None
        self.assertEqual((line.ours, line.theirs), (300, 120))
        self.assertEqual((line.ratio.middle, line.ratio.least, line.ratio.most), (2.5, 2.4, 3.0))
        self.assertEqual(line.verdict, "met")
        # Of CPU less is better.
        pairs[1]["kafka-g1"]["CPU-s/GB"] = pairs[2]["kafka-g1"]["CPU-s/GB"] = 0.5
        cost = report.line_of(BY_ID["S1a"], Row("CPU-s/GB", at_most(0.2)), cell("S1a", pairs))
        self.assertEqual((cost.theirs, cost.verdict), (0.5, "missed"))

    def test_a_collector_that_was_left_out_after_the_first_pair_does_not_count(self) -> None:
        pairs = [pair(300, 100, 500), pair(300, 100)]
        self.assertEqual(report.best_kafka(cell("S1a", pairs), "MB/s"), "kafka-g1")

    def test_a_side_that_did_not_keep_the_rate_is_named(self) -> None:
        pairs = [pair(50, 14), pair(50, 15)]
        for one in pairs:
            one["corelog"]["behind"], one["kafka-g1"]["behind"] = 0.0, 2_000.0
        line = report.line_of(BY_ID["S3d"], Row("p50 ms"), cell("S3d", pairs))
        self.assertEqual(line.note, "Kafka did not keep the rate")

    def test_ratio_and_own_bound_must_both_be_met(self) -> None:
        row = Row("MB/s", at_least(2), at_least(1_000))
        for ours, expected in [(1_000.0, "met"), (999.0, "missed"), (None, "not measured")]:
            line = report.line_of(BY_ID["S1a"], row, cell("S1a", [pair(ours, 100)]))
            self.assertEqual(line.verdict, expected, ours)
        self.assertEqual(line.target, "≥ 2 x and ≥ 1,000")

    def test_ours_on_disk_is_held_against_kafka_before_it_and_says_so(self) -> None:
        found = report.lines_of(state(S1b=cell("S1b", [pair(500, 200)]), S2a=cell("S2a", [pair(600, 20)])))
        [across] = [line for line in found if line.durability == "D1 to D0"]
        assert across.ratio is not None
        self.assertEqual((across.theirs, across.ratio.middle, across.verdict), (200, 3.0, "met"))
        alone = report.lines_of(state(S2a=cell("S2a", [pair(600, 20)])))
        self.assertEqual([line.verdict for line in alone if line.durability == "D1 to D0"], ["not measured"])

    def test_the_floor_of_the_same_run_stands_beside(self) -> None:
        found = state(S1a=cell("S1a", [pair(800, 400)]))
        floor = {"gb_per_second": 1.6, "cpu_seconds_per_gb": 0.15}
        found["parts"][0]["floor"] = {"floor: receive + CRC + direct write, 1 MiB": floor}
        lines = report.lines_of_floor(found)
        self.assertEqual([line.ratio and line.ratio.middle for line in lines], [0.5, 2.0])


class Table(unittest.TestCase):
    """Nothing is left out silently."""

    def test_what_failed_and_what_did_not_settle_stands_in_the_table(self) -> None:
        failed = {"id": "S8", "kind": "load", "status": "failed", "why": "exit 5 | <b>\nlost"}
        text = report.summary(state(S1a=cell("S1a", [pair(300, 100)], has_settled=False), S8=failed))
        self.assertIn("failed: exit 5 \\| &lt;b> lost | - | - | - | - | **not measured** | quick |", text)
        self.assertIn("| met, not settled | quick |", text)
        self.assertIn("**missed**, not settled", text)
        self.assertIn("1 targets met, 1 missed, 1 not measured", text)

    def test_every_row_of_a_scenario_of_its_own_is_told(self) -> None:
        row = {"what": "kill", "unit": "s", "values": {"corelog": 0.5, "kafka-g1": 20.0, "kafka-zgc": 22.0}}
        row |= {"own": vars(at_most(1)), "ratio": vars(at_most(1 / 20)), "is_higher_better": False}
        special = {"id": "S10", "kind": "special", "status": "done", "rows": [row], "notes": ["small"]}
        text = report.summary(state(S10=special))
        self.assertIn("| S10 |  | kill, s | 0.5 | 20 | 0.025 x | ≤ 0.05 x and ≤ 1 | met | quick |", text)
        self.assertIn("- S10: small", text)

    def test_a_table_of_a_scenario_of_its_own_stands_below(self) -> None:
        special = {"id": "shards", "kind": "special", "status": "done", "rows": [], "notes": []}
        special["grid"] = {"head": ["shards", "S8"], "rows": [["1", 1234.5], ["2|", None]]}
        text = report.summary(state(shards=special))
        self.assertIn("\n| shards | S8 |\n| --- | --- |\n| 1 | 1,234 |\n| 2\\| | - |", text)

    def test_fewer_pairs_than_the_effort_has_are_said(self) -> None:
        full = part(effort={"name": "full", "pairs": 5, "seconds": 15, "scale": 1.0})
        text = report.summary(state(full, S1a=cell("S1a", [pair(300, 100)] * 2)))
        self.assertIn("| met, 2 pairs only | full |", text)


class Parts(unittest.TestCase):
    """Whatever was measured when stands in one table, and each row says how much it is worth."""

    FULL = {"name": "full", "pairs": 5, "seconds": 15, "scale": 0.1}

    def test_each_row_has_the_effort_of_its_part(self) -> None:
        later = part(effort=self.FULL, date="2026-02-02", command="run.py --resume DIR --only S8")
        rows_of = {"S1a": cell("S1a", [pair(300, 100)]), "S8": cell("S8", [pair(300, 100)] * 5) | {"part": 1}}
        for one in rows_of["S8"]["pairs"]:
            for figures_of_side in one.values():
                figures_of_side["requests/s"] = 200_000.0
        text = report.summary(state(part(), later, part(command="one that was interrupted"), **rows_of))
        self.assertNotIn("interrupted", text)
        self.assertIn("| met | quick |", text)
        self.assertRegex(text, r"\| S8 \|.*\| full, scale 0.1 \|")
        self.assertNotIn("build aaaa |", text)
        self.assertIn("- quick: 1 pair of 4 s, 2026-01-01, `run.py --quick`, Corelog 0.1.0, build aaaa", text)
        self.assertIn("- full: 5 pairs of 15 s, large sizes and long times scaled by 0.1, 2026-02-02", text)
        self.assertEqual(text.count("Machine: "), 1)

    def test_where_the_binary_changed_each_row_names_its_build(self) -> None:
        later = part(build="bbbb", machine={"CPU": "C"})
        cells = {"S1a": cell("S1a", [pair(300, 100)]), "S1b": cell("S1b", [pair(300, 100)]) | {"part": 1}}
        text = report.summary(state(part(), later, **cells))
        self.assertRegex(text, r"\| S1a \|.*\| quick, build aaaa \|")
        self.assertRegex(text, r"\| S1b \|.*\| quick, build bbbb \|")
        self.assertEqual(text.count("Machine: "), 2)

    def test_what_is_held_against_another_part_says_so(self) -> None:
        cells = {"S1b": cell("S1b", [pair(500, 200)]), "S2a": cell("S2a", [pair(600, 20)]) | {"part": 1}}
        lines = report.lines_of(state(part(), part(effort=self.FULL), **cells))
        [across] = [line for line in lines if line.durability == "D1 to D0"]
        self.assertEqual((across.note, across.effort), ("S1b is of another part: quick", "full, scale 0.1"))

    def test_the_floor_is_that_of_the_scenarios_part(self) -> None:
        floor = {"floor: receive + CRC + direct write, 1 MiB": {"gb_per_second": 1.6, "cpu_seconds_per_gb": 0.15}}
        cells = {"S1a": cell("S1a", [pair(800, 400)]) | {"part": 1}}
        self.assertEqual(report.lines_of_floor(state(part(floor=floor), part(), **cells)), [])
        self.assertEqual(len(report.lines_of_floor(state(part(), part(floor=floor), **cells))), 2)

    def test_an_attempt_that_failed_later_is_told_beside_the_figures(self) -> None:
        again = cell("S1a", [pair(300, 100)]) | {"failed_again": "exit 3", "notes": ["small"]}
        text = report.summary(state(S1a=again))
        self.assertIn("- S1a: small", text)
        self.assertIn("| S1a | D0 | MB/s | 300 | 100 | 3 x |", text)
        self.assertIn("- S1a: measured again without success, so that the earlier figures stand: exit 3", text)


class Page(unittest.TestCase):
    """Only what is between the markers changes."""

    def test_the_section_is_replaced_and_the_rest_stays(self) -> None:
        page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
        once = report.replace_section(page, "new")
        self.assertEqual(once, f"above\n{BEGIN}\nnew\n{END}\nbelow\n")
        self.assertEqual(report.replace_section(once, "new"), once)
        for broken in ("no markers", f"{BEGIN} only", f"{END} {BEGIN}"):
            with self.assertRaises(report.ReportError):
                report.replace_section(broken, "new")

    def test_results_are_written_with_the_page(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "page.md"
            page.write_text(f"{BEGIN}\n{END}\n")
            report.write(state(S1a=cell("S1a", [pair(300, 100)])), Path(scratch), page)
            self.assertIn("| S1a | D0 | MB/s | 300 | 100 | 3 x |", page.read_text())
            self.assertIn('"verdict": "met"', (Path(scratch) / "report.json").read_text())

    def test_the_page_of_the_repository_has_a_place_for_the_table(self) -> None:
        page = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"
        report.replace_section(page.read_text(), "")


class Scenarios(unittest.TestCase):
    """Durability classes are never mixed by a topic's options."""

    def test_each_class_has_the_option_of_the_broker_that_needs_it(self) -> None:
        for durability, side, expected in [
            ("D0", "corelog", ("-c", "write.caching=true")),
            ("D0", "kafka-g1", ()),
            ("D1", "corelog", ()),
            ("D1", "kafka-zgc", ("-c", "flush.messages=1")),
        ]:
            load = Load("x", "", durability, (), rows())
            self.assertEqual(load.topic_words(side), expected, (durability, side))

    def test_what_is_held_against_another_load_is_of_the_weaker_class(self) -> None:
        for load in BY_ID.values():
            for across in load.across:
                self.assertEqual((load.durability, BY_ID[across.kafka_load].durability), ("D1", "D0"))


if __name__ == "__main__":
    unittest.main()
