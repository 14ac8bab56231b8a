"""Reads and sets rows of lamps."""


def read_lamps(row):
    """Give the number that a row shows."""
    if not row or set(row) - {"o", "."}:
        raise ValueError("a row is made of o and .")
    return int(row.replace("o", "1").replace(".", "0"), 2)


def show(number, width):
    """Give the row of that width that shows a number."""
    if width < 1 or not 0 <= number < 1 << width:
        raise ValueError("the number does not fit the row")
    return format(number, f"0{width}b").replace("1", "o").replace("0", ".")


def changes(before, after):
    """Give how many lamps differ."""
    return (before ^ after).bit_count()
