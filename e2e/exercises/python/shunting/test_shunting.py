import unittest

from shunting import shunt


class ShuntTest(unittest.TestCase):
    def test_no_wagons_need_no_moves(self):
        self.assertEqual(shunt([], []), [])

    def test_the_same_order_goes_straight_through(self):
        self.assertEqual(shunt("ab", "ab"), ["in", "out", "in", "out"])

    def test_the_reverse_order_fills_the_siding(self):
        self.assertEqual(shunt("abc", "cba"), ["in"] * 3 + ["out"] * 3)

    def test_a_mixture(self):
        self.assertEqual(shunt("abcd", "bdca"), ["in", "in", "out", "in", "in", "out", "out", "out"])

    def test_what_one_siding_cannot_do(self):
        self.assertIsNone(shunt("abc", "cab"))

    def test_other_wagons_cannot_leave(self):
        for departure in ("abx", "ab", "abcc"):
            with self.subTest(departure):
                self.assertIsNone(shunt("abc", departure))

    def test_what_is_given_stays_as_it_is(self):
        wagons = ["a", "b"]
        shunt(wagons, wagons)
        self.assertEqual(wagons, ["a", "b"])


if __name__ == "__main__":
    unittest.main()
