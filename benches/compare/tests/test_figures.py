"""Which pairs count, what a ratio is, and when a target is met."""

import unittest

from figures import agree, at_least, at_most, number, ratios, spread, warm_from


class Warmth(unittest.TestCase):
    """A side that still speeds up is not measured."""

    def test_agreement_is_symmetrical_and_nothing_agrees_with_zero(self) -> None:
        for first, second, expected in [
            (100, 115, True),
            (115, 100, True),
            (100, 115.1, False),
            (0, 0, False),
            (0, 1, False),
        ]:
            self.assertEqual(agree(first, second), expected, (first, second))

    def test_the_first_pairs_are_discarded_until_two_agree_on_both_sides(self) -> None:
        for pairs, expected in [
            ([], None),
            ([(1, 1)], None),
            ([(100, 50), (101, 51)], 0),
            # Ours is steady from the start, Kafka compiles until the third pair.
            ([(100, 20), (100, 40), (100, 60), (100, 62)], 2),
            # Theirs is steady, ours is not.
            ([(50, 60), (100, 60), (20, 60)], None),
        ]:
            self.assertEqual(warm_from(pairs), expected, pairs)


class Ratios(unittest.TestCase):
    """Ratios are of the rounds of one pair, and of nothing there is none."""

    def test_pairs_without_a_figure_are_left_out(self) -> None:
        self.assertEqual(ratios([2, None, 6, 8], [1, 1, 0, 2]), [2, 4])

    def test_the_middle_and_the_ends(self) -> None:
        found = spread([3, 1, 2, 10])
        assert found is not None
        self.assertEqual((found.middle, found.least, found.most, found.count), (2.5, 1, 10, 4))
        self.assertIsNone(spread([]))


class Targets(unittest.TestCase):
    """A bound is met by itself."""

    def test_bounds_from_both_sides(self) -> None:
        self.assertEqual([at_least(2).is_met(x) for x in (1.99, 2, 3)], [False, True, True])
        self.assertEqual([at_most(0.25).is_met(x) for x in (0.2, 0.25, 0.26)], [True, True, False])
        self.assertEqual(at_least(180_000).text("/s"), "≥ 180,000/s")
        self.assertEqual(at_most(0.25).text(" ×"), "≤ 0.25 ×")

    def test_numbers_have_three_digits_or_so(self) -> None:
        for value, expected in [(0, "0"), (1234.5, "1,234"), (12.34, "12.3"), (2.5, "2.5"), (0.0123, "0.0123")]:
            self.assertEqual(number(value), expected)


if __name__ == "__main__":
    unittest.main()
