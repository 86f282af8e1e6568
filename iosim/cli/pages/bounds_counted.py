"""Which numbers of the map are counted by running the listings: as many as one second allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosim.study.regimes import RegimeMap

MOST_TILES = 2**20  # along Q and K, of all rows together; counting takes about a microsecond for each


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows were counted ``right``, how many ``wrong``, and how many were left out because they take too long."""

    right: int
    wrong: int
    left_out: int

    @property
    def sentence(self) -> str:
        """What is said of them; empty where there are none."""
        made, every = self.right + self.wrong, self.right + self.wrong + self.left_out
        if not every:
            return ""
        sizes = f"{every} size{'s' if every > 1 else ''} of SRAM"
        why = f"blocks so small cut Q and K into too many tiles to count in about a second ({MOST_TILES:,} along both, together)"
        if not made:
            return f"The fewest words at {sizes} are those of the closed forms, not counted: {why}."
        verdict = f"DIFFER from their closed forms in {self.wrong} cases" if self.wrong else "equal their closed forms"
        some = f"{made} of {sizes}" if self.left_out else sizes
        others = f"; the others were not: {why}" if self.left_out else ""
        return f"The fewest words at {some} were counted by running the listings on the machine, and {verdict}{others}."


def counted(made: Sequence[RegimeMap]) -> Counted:
    """Count the rows of some maps, those of the fewest tiles first, until together they have too many."""
    rows = sorted((row for one in made for row in one.rows if row.plan is not None), key=lambda row: row.tiles)
    spent, right, wrong = 0, 0, 0
    for row in rows:
        spent += row.tiles
        if spent > MOST_TILES:
            break
        right, wrong = (right + 1, wrong) if row.counted else (right, wrong + 1)
    return Counted(right, wrong, len(rows) - right - wrong)
