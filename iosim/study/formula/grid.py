"""The sizes at which a formula is tried: small ones, of divisible and of ragged lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from iosim import predict
from iosim.attention.catalogue import Named, kernel
from iosim.attention.plan import BlockChoice, Given, Plan, make_plan
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity

LENGTHS = (16, 24, 30, 37, 64, 100)
UNEQUAL = ((16, 16), (16, 24), (24, 16), (30, 37), (37, 30), (64, 100), (100, 64), (32, 48))
WIDTHS = (4, 7)
UNEQUAL_WIDTHS = ((4, 4), (4, 6), (7, 3))
BLOCKS = ((8, 8), (4, 8), (8, 4), (5, 7), (16, 3), (6, 16))
TILES = (1, 2, 3, 4, 6, 8, 12)  # M in units of 2 (d + d_v), in which the paper's blocks are whole
AMPLE = Capacity(2**40)


@dataclass(frozen=True, slots=True)
class Point:
    """One plan, the ``sizes`` of all names, and those sizes that tell it from other points (``shown``)."""

    plan: Plan
    sizes: Mapping[str, int]
    shown: Mapping[str, int]

    def counts(self) -> Counts:
        """What the listing moves there, counted."""
        return self.plan.count()


@dataclass(frozen=True, slots=True)
class Grid:
    """What all points share: the kernel, its options, and the names in the formula."""

    kernel: Named
    names: frozenset[str]
    blocks: BlockChoice
    dtype: str
    causal: bool
    window: tuple[int, int] | None
    options: Given

    def points(self) -> list[Point]:
        """All points, small ones first; raises :class:`BadInput` for an unknown kernel or option, and where no point fits.

        N_q and N_k differ where the formula names one of them and not N; d_v and d differ where it names d_v. Where it names M, M varies
        and the block rule chooses Br and Bc. Otherwise Br and Bc vary, and the SRAM holds anything.
        """
        if kernel(self.kernel).brings is not None:
            raise BadInput(f"{self.kernel} moves what its block mask says, not what sizes say; check a kernel without one, such as flash")
        if "M" in self.names and not isinstance(self.blocks, str):
            raise BadInput(f"with M in the formula a rule chooses the blocks: fit, paper or best, not {self.blocks}")
        found = list(self._with_sram() if "M" in self.names else self._with_blocks())
        if not found:
            raise BadInput(f"no blocks of {self.kernel} fit at any M that is tried")
        return found

    def _problems(self) -> Iterator[Attention]:
        apart = {"N_q", "N_k"} & self.names and "N" not in self.names
        lengths = UNEQUAL if apart else tuple((n, n) for n in LENGTHS)
        widths = UNEQUAL_WIDTHS if "d_v" in self.names else tuple((d, d) for d in WIDTHS)
        for (n, nk), (d, dv) in product(lengths, widths):
            yield Attention(n, d, nk=nk, dv=dv, dtype=self.dtype, causal=self.causal, window=self.window)

    def _with_blocks(self) -> Iterator[Point]:
        for problem, blocks in product(self._problems(), BLOCKS):
            yield self._point(make_plan(self.kernel, problem, AMPLE, blocks, "record", self.options))

    def _with_sram(self) -> Iterator[Point]:
        for problem in self._problems():
            ample = make_plan(self.kernel, problem, AMPLE, "fit", None, self.options)
            least = 1 if self.blocks == "paper" else smallest(ample)
            for tiles, rest in product(TILES, (0, 5)):
                size = 2 * (problem.d + problem.dv) * tiles + rest
                if size >= least:
                    yield self._point(make_plan(self.kernel, problem, size, self.blocks, None, self.options))

    def _point(self, plan: Plan) -> Point:
        p, blocks = plan.problem, plan.blocks
        lengths = {"N_q": p.n, "N_k": p.nk} if p.n != p.nk or not self.names.isdisjoint({"N_q", "N_k"}) else {"N": p.n}
        widths = {"d": p.d, "d_v": p.dv} if "d_v" in self.names else {"d": p.d}
        sram = {"M": plan.sram.amount} if "M" in self.names else {}
        tiles = {"Br": blocks.rows, "Bc": blocks.cols}
        every = {"N": p.n, "N_q": p.n, "N_k": p.nk, "d": p.d, "d_v": p.dv, "M": plan.sram.amount, **tiles}
        return Point(plan, every, {**lengths, **widths, **sram, **tiles})


def smallest(plan: Plan) -> int:
    """The words that some blocks need: in closed form where there is one, else those of 1x1 blocks, counted."""
    if plan.formula is None:
        return replace(plan, blocks=Blocks(1, 1)).peak()
    return predict.smallest_sram(plan.formula, plan.problem, plan.options)
