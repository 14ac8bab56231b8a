"""Sorts wagons over a siding."""


def shunt(arrival, departure):
    """Give the moves that turn one order into the other, or None."""
    raise NotImplementedError
