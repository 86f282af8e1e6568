"""A scope: one turn of a loop, and the on-chip blocks that are released when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iosim.errors import KindMismatch

if TYPE_CHECKING:
    from iosim.memory.blocks import Block

Path = tuple[tuple[int, int, int], ...]
Deed = tuple[str | int, ...]


class Scope:
    """What a machine must restore when a tile ends: who is resident, how much is used, how often the body counts."""

    __slots__ = ("blocks", "deeds", "loops", "open", "parent", "path", "times", "used")

    def __init__(self, parent: Scope | None, times: int, used: int, path: Path = ()) -> None:
        self.parent, self.times, self.used, self.path = parent, times, used, path
        self.open, self.loops = True, 0
        self.blocks: list[Block] = []
        self.deeds: list[Deed] = []

    def residents(self) -> list[Block]:
        """Everything on chip, the outermost first."""
        return (self.parent.residents() if self.parent else []) + self.blocks


def compare(path: Path, known: list[Deed], found: list[Deed]) -> None:
    """Raise :class:`KindMismatch` where two tiles of one kind did different things."""
    if known == found:
        return
    at = next((n for n, (a, b) in enumerate(zip(known, found, strict=False)) if a != b), min(len(known), len(found)))
    one, other = ("nothing more" if at >= len(deeds) else " ".join(map(str, deeds[at])) for deeds in (known, found))
    raise KindMismatch(
        f"two tiles of one kind ({path[-1][1]} rows, loop depth {len(path)}) did different things at step {at + 1}: {one} against {other}; "
        "a body may depend only on its tile's size, full and first"
    )
