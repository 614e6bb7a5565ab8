"""Which scenarios a command line means, what a run that goes on takes up, and what a state keeps."""

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import run
import special
import state as states
from scenarios import BY_ID
from state import StateError

DONE: dict[str, Any] = {"kind": "load", "status": "done"}
FAILED: dict[str, Any] = {"kind": "load", "status": "failed", "why": "exit 3"}


def part(name: str, scale: float = 1.0) -> dict[str, Any]:
    return {"effort": {"name": name, "pairs": 3, "seconds": 4, "scale": scale}}


def begun(*done: str, name: str = "quick", scale: float = 1.0) -> states.State:
    """A plain run of that effort which has done so much."""
    state = states.new()
    states.add_scenarios(state, run.QUICK if name == "quick" else run.ORDER)
    state["parts"].append(part(name, scale))
    for scenario in done:
        states.keep(state, scenario, dict(DONE))
    return state


class Choice(unittest.TestCase):
    """What has its turn."""

    def measured(self, line: str, state: states.State) -> list[str]:
        return run.to_measure(run.options_of(line.split()), state)

    def test_every_scenario_of_the_issue_has_a_place(self) -> None:
        self.assertEqual(set(BY_ID) | set(special.SPECIAL), set(run.ORDER))
        self.assertEqual(self.measured("", states.new()), list(run.ORDER))

    def test_a_quick_run_is_those_that_matter_most(self) -> None:
        quick = self.measured("--quick", states.new())
        self.assertEqual(quick, ["S1a", "S1b", "S2a", "S2b", "S2c", "S3a", "S3b", "S3c", "S3d", "S8", "S11"])
        self.assertEqual(self.measured("--only S8 S1a", states.new()), ["S1a", "S8"])

    def test_any_scenario_may_be_measured_quickly_and_only_the_plain_run_has_a_limit(self) -> None:
        options = run.options_of(["--quick", "--only", "S4", "S10"])
        self.assertEqual(run.effort_of(options, states.new()).name, "quick")
        self.assertEqual(run.minutes_max(options), float("inf"))
        self.assertEqual(run.minutes_max(run.options_of(["--quick"])), run.QUICK_MINUTES_MAX)
        self.assertEqual(run.minutes_max(run.options_of([])), float("inf"))

    def test_a_run_that_goes_on_takes_up_what_is_left(self) -> None:
        done = [name for name in run.QUICK if name not in ("S2c", "S8")]
        state = begun(*done)
        states.keep(state, "S8", dict(FAILED))
        self.assertEqual(self.measured("--resume D", state), ["S2c", "S8"])

    def test_scenarios_are_added_to_a_run_and_what_is_done_is_left_alone(self) -> None:
        state = begun("S1a")
        self.assertEqual(self.measured("--resume D --only S5a S6a S1a", state), ["S5a", "S6a"])
        self.assertEqual(state["scenarios"], [name for name in run.ORDER if name in {*run.QUICK, "S5a", "S6a"}])
        self.assertEqual(self.measured("--resume D --only S1a S1b --again", state), ["S1a", "S1b"])

    def test_a_part_has_the_effort_of_the_run_unless_it_is_said(self) -> None:
        for line, expected in (
            ("--resume D", ("quick", 0.5)),
            ("--resume D --full --only S4", ("full", 0.5)),
            ("--resume D --only S4 --scale 0.1", ("quick", 0.1)),
        ):
            effort = run.effort_of(run.options_of(line.split()), begun(scale=0.5))
            self.assertEqual((effort.name, effort.scale), expected, line)
        fresh = run.effort_of(run.options_of([]), states.new())
        self.assertEqual((fresh.name, fresh.scale, fresh.pairs, fresh.seconds), ("full", 1.0, 5, 15))

    def test_what_does_not_go_together_is_refused(self) -> None:
        for line in ("--again", "--again --only S4", "--resume D --again", "--resume D --smoke", "--resume D --out E"):
            with self.assertRaises(SystemExit), self.silent():
                run.options_of(line.split())

    def silent(self) -> Any:
        import contextlib
        import io

        return contextlib.redirect_stderr(io.StringIO())

    def test_the_version_of_kafka_is_that_which_is_fetched(self) -> None:
        self.assertRegex(run.kafka_version(), r"^4\.\d+\.\d+$")

    def test_no_path_of_this_machine_stands_in_the_command(self) -> None:
        words = ["--quick", "--dir", "/somewhere", "--corelog=/x/corelog", "--scale", "0.1", "--no-docs"]
        self.assertEqual(run.without_paths(words), ["--quick", "--scale", "0.1"])
        for resume in (["--resume", "/x"], ["--resume=/x"]):
            self.assertEqual(run.without_paths([*resume, "--only", "S4"]), ["--resume", "DIR", "--only", "S4"])

    def test_builds_of_one_version_are_told_apart(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            binary = Path(scratch) / "corelog"
            binary.write_bytes(b"one")
            one = run.build_of(binary)
            binary.write_bytes(b"two")
            self.assertEqual((one, len(run.build_of(binary))), ("7692c3ad", 8))
            self.assertNotEqual(one, run.build_of(binary))

    def test_rounds_of_a_later_part_overwrite_none(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(run.rounds_in(Path(scratch)), 0)
            for name in ("0009-S1a-corelog.json", "0123-S4-fill-corelog.json", "notes"):
                (Path(scratch) / "rounds" / name).touch()
            self.assertEqual(run.rounds_in(Path(scratch)), 123)


class Kept(unittest.TestCase):
    """What was measured stays."""

    def test_cells_stand_in_the_order_of_the_table_with_their_parts(self) -> None:
        state = begun("S8", "S1a")
        state["parts"].append(part("full"))
        states.keep(state, "S4", dict(DONE))
        self.assertEqual([(name, cell["part"]) for name, cell in state["cells"].items()], [("S1a", 0), ("S4", 1), ("S8", 0)])

    def test_a_failure_takes_the_place_of_no_figures(self) -> None:
        state = begun("S1a")
        states.keep(state, "S1a", dict(FAILED))
        self.assertEqual((state["cells"]["S1a"]["status"], state["cells"]["S1a"]["failed_again"]), ("done", "exit 3"))
        states.keep(state, "S1b", dict(FAILED))
        states.keep(state, "S1b", dict(DONE))
        self.assertEqual(state["cells"]["S1b"], DONE | {"part": 0})
        states.keep(state, "S1a", dict(DONE))
        self.assertNotIn("failed_again", state["cells"]["S1a"])

    def test_a_run_is_whole_when_everything_has_figures(self) -> None:
        self.assertTrue(states.is_whole(begun(*run.QUICK)))
        self.assertFalse(states.is_whole(begun("S1a")), "what was not measured yet")
        for name in ("S1a", "S4"):
            state = begun(*run.QUICK)
            states.keep(state, name, dict(FAILED))
            self.assertFalse(states.is_whole(state), name)

    def test_a_state_of_before_there_were_parts_is_one_part(self) -> None:
        old = {"format": 1, "date": "2026-01-01", "command": "run.py --quick", "corelog": "0.1.0", "kafka": "4.4.0"}
        old |= {"options": {"mode": "quick", "scale": 0.5, "scenarios": ["S1a", "S8"]}, "machine": {"CPUs": "2"}}
        old |= {"cells": {"S1a": dict(DONE)}, "floor": {"x": {}}}
        state = self.read(old)
        self.assertEqual((state["format"], state["scenarios"], state["cells"]["S1a"]["part"]), (2, ["S1a", "S8"], 0))
        [only] = state["parts"]
        self.assertEqual((only["effort"]["name"], only["effort"]["scale"], only["floor"]), ("quick", 0.5, {"x": {}}))
        self.assertEqual(run.to_measure(run.options_of(["--resume", "D"]), state), ["S8"])

    def test_a_state_that_is_none_or_newer_is_refused(self) -> None:
        for broken in ("", "[]", "{}", '{"format": 3}'):
            with self.assertRaises(StateError):
                self.read(broken)
        with tempfile.TemporaryDirectory() as scratch, self.assertRaises(StateError):
            states.read(Path(scratch))

    def read(self, content: Any) -> states.State:
        with tempfile.TemporaryDirectory() as scratch:
            text = content if isinstance(content, str) else json.dumps(content)
            (Path(scratch) / "state.json").write_text(text)
            return states.read(Path(scratch))


if __name__ == "__main__":
    unittest.main()
