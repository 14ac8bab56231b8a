"""Sorts wagons over a siding."""


def shunt(arrival, departure):
    """Give the moves that turn one order into the other, or None."""
    if len(arrival) != len(departure):
        return None
    siding, moves, gone = [], [], 0
    for wagon in arrival:
        siding.append(wagon)
        moves.append("in")
        while siding and siding[-1] == departure[gone]:
            siding.pop()
            moves.append("out")
            gone += 1
    return None if siding else moves
