import unittest

from lamps import changes, read_lamps, show


class LampsTest(unittest.TestCase):
    def test_rows_are_read(self):
        for row, number in {".": 0, "o": 1, "o.": 2, "..oo": 3, "o.o.": 10}.items():
            with self.subTest(row):
                self.assertEqual(read_lamps(row), number)

    def test_what_is_no_row_is_refused(self):
        for row in ("", "ox", "O", "o o"):
            with self.subTest(row), self.assertRaises(ValueError):
                read_lamps(row)

    def test_numbers_are_shown(self):
        self.assertEqual(show(5, 4), ".o.o")
        self.assertEqual(show(0, 2), "..")

    def test_what_does_not_fit_is_refused(self):
        for number, width in ((4, 2), (-1, 3), (0, 0)):
            with self.subTest(number=number), self.assertRaises(ValueError):
                show(number, width)

    def test_what_was_shown_can_be_read(self):
        for number in range(64):
            self.assertEqual(read_lamps(show(number, 6)), number)

    def test_changes_are_counted(self):
        self.assertEqual(changes(0b1010, 0b0110), 2)
        self.assertEqual(changes(7, 7), 0)


if __name__ == "__main__":
    unittest.main()
