"""What scenarios are reckoned to take, and that the page says the same."""

import unittest
from dataclasses import replace
from pathlib import Path

import costs
import special
from effort import FULL, QUICK
from run import ORDER, QUICK_MINUTES_MAX
from run import QUICK as QUICK_SCENARIOS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"


class Costs(unittest.TestCase):
    """Every scenario has an estimate before it begins, and a bound."""

    def test_every_scenario_is_reckoned_and_bounded(self) -> None:
        self.assertEqual(set(costs.OF_SPECIAL), set(special.SPECIAL))
        for name in ORDER:
            for effort in (FULL, QUICK):
                about = costs.seconds_of(name, effort)
                self.assertGreater(about, 0, name)
                self.assertGreater(costs.bound_of(name, effort), about + costs.BOUND_MORE_SECONDS)

    def test_a_plain_quick_run_keeps_its_promise(self) -> None:
        whole = sum(costs.seconds_of(name, QUICK) for name in QUICK_SCENARIOS)
        self.assertLess(whole, QUICK_MINUTES_MAX * 60)

    def test_large_sizes_and_long_times_shrink_with_the_scale(self) -> None:
        small = replace(FULL, scale=0.1)
        for name in ("S4", "S10", "S12"):
            self.assertLess(costs.seconds_of(name, small), 0.7 * costs.seconds_of(name, FULL), name)
        self.assertEqual(costs.seconds_of("S1a", small), costs.seconds_of("S1a", FULL))

    def test_what_remains_is_learnt_from_what_is_done(self) -> None:
        alone = costs.seconds_of("S4", FULL)
        self.assertEqual(costs.remaining(["S4"], FULL, []), alone)
        slow = [("S1a", 2 * costs.seconds_of("S1a", FULL))]
        self.assertAlmostEqual(costs.remaining(["S4"], FULL, slow), 2 * alone)

    def test_times_are_told_as_a_person_would(self) -> None:
        told = [costs.minutes(seconds) for seconds in (0, 44, 89, 90, 330, 5_399, 12_600)]
        self.assertEqual(told, ["10 s", "40 s", "90 s", "2 min", "6 min", "90 min", "3.5 h"])

    def test_the_page_tells_what_is_reckoned(self) -> None:
        wanted = costs.table(ORDER)
        self.assertTrue(wanted in PAGE.read_text(), f"docs/benchmarks.md is to have:\n{wanted}")


if __name__ == "__main__":
    unittest.main()
