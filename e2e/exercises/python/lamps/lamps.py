"""Reads and sets rows of lamps."""


def read_lamps(row):
    """Give the number that a row shows."""
    raise NotImplementedError


def show(number, width):
    """Give the row of that width that shows a number."""
    raise NotImplementedError


def changes(before, after):
    """Give how many lamps differ."""
    raise NotImplementedError
