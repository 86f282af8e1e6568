"""A recording of one run for the page, made from its events while it computes real numbers."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import numpy as np

from iosim.attention.inputs import random_inputs
from iosim.attention.plan import Plan
from iosim.core import dtypes
from iosim.core.described import described
from iosim.core.events import Event
from iosim.machine import Block, Hbm, Machine, Tile
from iosim.show.animation.limits import measure, sample_of
from iosim.show.animation.listing import Listing
from iosim.show.animation.pool import Array, Pool, Sample
from iosim.show.animation.steps import UNKNOWN, Steps


@dataclass(frozen=True, slots=True)
class Recording:
    """One run for the page. ``capacity`` and what ``steps`` say of SRAM are in ``unit``; ``blocks`` are (Br, Bc), None where not known."""

    name: str
    told: str
    capacity: int
    unit: str
    steps: Steps
    blocks: tuple[int, int] | None = None
    lines: list[str] = field(default_factory=list)
    pool: Pool = field(default_factory=lambda: Pool(np.dtype(np.float32), Sample()))
    held: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Plain data for JSON; the numbers are little-endian floats in base64, so that every bit arrives."""
        sample, arrays = self.pool.sample, self.steps.arrays
        return {
            "name": self.name, "told": self.told, "capacity": self.capacity, "unit": self.unit, "blocks": self.blocks,
            "lines": self.lines, "arrays": [[*array, self.held.get(array[0], UNKNOWN)] for array in arrays],
            "things": list(self.steps.things), "steps": self.steps.rows, "stride": sample.stride,
            "cols": None if sample.cols == np.inf else sample.cols, "wide": self.pool.dtype.itemsize == 8,
            "numbers": base64.b64encode(self.pool.bytes()).decode(),
        }  # fmt: skip


def record(plan: Plan, seed: int = 0) -> Recording:
    """Run one head of the plan on random numbers and record it; raises :class:`BadInput` where that is too large to show."""
    from iosim.attention.judge import with_forward  # the oracle loads where it is used

    measure(plan)
    values = random_inputs(plan.problem, seed, gradient=plan.kernel.forward is not None)
    watcher = Watcher(Pool(np.dtype(dtypes.accumulator(plan.problem.dtype)), sample_of(plan)), plan.kernel.listing.__code__.co_filename)
    m = watcher.machine = plan.machine("execute", [watcher])
    ready = with_forward(plan, values, 0)
    with watcher.listing.followed():
        arrays = plan.run(m, ready)
    plan.finish(m)
    held = {name: watcher.pool.put(array.data, 0) for name, array in arrays.items() if array.is_input}
    groups = plan.problem.instances
    shown = f"; 1 of {groups} KV heads and its group is shown, the others do the same" if groups > 1 else ""
    told = f"{described(plan.problem)}{shown}, blocks {plan.blocks}"
    return Recording(
        plan.kernel.name, told, plan.sram.amount, plan.sram.unit, watcher.steps, (plan.blocks.rows, plan.blocks.cols),
        watcher.listing.lines, watcher.pool, held,
    )  # fmt: skip


class Watcher:
    """An observer of a machine that executes: it notes every event, its line, and the contents of blocks and regions after it.

    No listing may look at what is on chip, and nothing that counts may. This only looks, so that people can see.
    """

    machine: Machine

    def __init__(self, pool: Pool, file: str) -> None:
        self.pool, self.steps = pool, Steps()
        self.listing = Listing(self.settle, file)
        self.versions: list[int] = []
        self.pending: Block | None = None

    def __call__(self, event: Event) -> None:
        """Note an event. A block made of one number is filled after its event, so that its contents are noted at the next one."""
        self._fill()
        self.steps.add(event, self.listing.current, self._contents(event), self._variable() if event.kind == "begin" else "")
        if event.kind in ("load", "alloc"):
            self.versions.append(self.machine.residents[-1].version)
        elif event.kind == "end":
            del self.versions[len(self.machine.residents) :]

    def settle(self) -> None:
        """Note, before another line runs, which blocks the last one overwrote."""
        self._fill()
        for place, block in enumerate(self.machine.residents):
            if block.version != self.versions[place]:
                self.versions[place] = block.version
                self.steps.compute(place, self.listing.current, self._block(block, block.label))

    def _variable(self) -> str:
        """The loop variable of the tile that begins; i.j inside a tile i, whose axis it shares, and so no tile j of another one."""
        tile = self.machine.tile
        outer = tile.loop.outer if isinstance(tile, Tile) else None
        return self.listing.variable if outer is None else f"{self.steps.scopes[len(outer.kind) - 1][0]}.{self.listing.variable}"

    def _contents(self, event: Event) -> int:
        if event.kind in ("store", "init"):
            return self._region(self.machine.arrays[event.name], event)
        if event.kind not in ("load", "alloc"):
            return UNKNOWN
        block = self.machine.residents[-1]
        if block._data is None:
            self.pending = block
            return UNKNOWN
        return self._block(block, event.name)

    def _fill(self) -> None:
        if self.pending is not None:
            block, self.pending = self.pending, None
            self.steps.rows[-1] = (*self.steps.rows[-1][:4], self._block(block, block.label))

    def _block(self, block: Block, name: str) -> int:
        top = block.origin[1][0][0] if block.origin else self.steps.top(name, block.shape[0])
        return self.pool.put(_known(block._data), top)

    def _region(self, array: Hbm, event: Event) -> int:
        (top, bottom), (left, right) = event.box
        return self.pool.put(_known(array._data)[top:bottom, left:right], top, left)


def _known(data: Array | None) -> Array:
    assert data is not None, "a machine that executes has numbers"
    return data
