"""The map over M: at every capacity the regime, the kernel that moves the fewest words, and the largest bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosim.attention.plan import BlockChoice, Plan, make_plan
from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, capacity
from iosim.predict.bounds import Bound
from iosim.predict.over_m import FAR, Steps, Win, crossovers, leaders, versus
from iosim.predict.regimes import Regime, floors, regimes, theta_words
from iosim.predict.rivals import BlockRule, Rival, curve
from iosim.study.regimes.rivals import rivals

LARGEST = 2**57  # of N_q N_k (d + d_v): no kernel here moves 64 times as many words


@dataclass(frozen=True, slots=True)
class Row:
    """One capacity: who moves the fewest ``words`` of one head, in which ``blocks``, and the largest ``bound``.

    Where nothing fits, ``rival``, ``plan`` and ``words`` are None, and ``needs`` names the rival that needs least, and how much.
    """

    sram: int
    regime: Regime
    rival: Rival | None
    plan: Plan | None
    words: int | None
    bound: Bound
    theta: float | None
    needs: tuple[str, int]

    @property
    def blocks(self) -> Blocks | None:
        """Br x Bc."""
        return None if self.plan is None else self.plan.blocks

    @property
    def ratio(self) -> float | None:
        """How many times the bound moves."""
        return None if self.words is None else self.words / self.bound.words

    @property
    def overflow(self) -> int | None:
        """How many words more than M the blocks need: above 0 for some of those that papers print."""
        return None if self.plan is None else max(0, self.plan.peak() - self.sram)

    @property
    def tiles(self) -> int:
        """How many tiles the blocks cut Q and K into, both together; counting takes time in proportion."""
        if self.plan is None:
            return 0
        problem, blocks = self.plan.problem, self.plan.blocks
        return -(-problem.n // blocks.rows) + -(-problem.nk // blocks.cols)

    @property
    def counted(self) -> bool:
        """Whether the listing moves these words when it runs on the machine; True where nothing fits."""
        return self.plan is None or self.words == sum(moved.reads + moved.writes for moved in self.plan.count().arrays.values())


@dataclass(frozen=True, slots=True, eq=False)
class RegimeMap:
    """Some rivals on one problem over M, all in their best blocks or all in those of the papers, in words of one head.

    ``curves`` say what each rival moves at every M. ``rows`` hold what :meth:`row` says of some capacities.
    """

    problem: Attention
    backward: bool
    rule: BlockRule
    rivals: tuple[Rival, ...]
    curves: tuple[Steps, ...]
    rows: tuple[Row, ...] = ()

    @property
    def capacities(self) -> list[int]:
        """The M of the rows, in words."""
        return [row.sram for row in self.rows]

    @property
    def regimes(self) -> tuple[Regime, Regime, Regime]:
        """The three ranges of M."""
        return regimes(self.problem, backward=self.backward)

    @property
    def least(self) -> dict[str, int]:
        """The smallest SRAM in words for each of the rivals."""
        return {one.name: int(one.sram[0]) for one in self.curves}

    def row(self, sram: int) -> Row:
        """The map at one capacity in words."""
        m, least = Capacity(sram), self.least
        needs = min(least.items(), key=lambda item: item[1])
        found = [int(one.words_at(m.amount)) for one in self.curves]
        best = min(range(len(found)), key=found.__getitem__)
        regime = next(one for one in self.regimes if one.holds(m.amount))
        bound = max(floors(self.problem, m.amount, backward=self.backward), key=lambda one: one.words)
        theta = theta_words(self.problem, m.amount, backward=self.backward)
        if found[best] == FAR:
            return Row(m.amount, regime, None, None, None, bound, theta, needs)
        return Row(m.amount, regime, self.rivals[best], self._plan(best, m), found[best], bound, theta, needs)

    def leaders(self) -> tuple[Win, ...]:
        """Who moves the fewest words of all, and from which M on."""
        return leaders(self.curves)

    def versus(self, first: str, second: str) -> tuple[Win, ...]:
        """Who of two moves fewer words; see :func:`iosim.predict.over_m.versus`. Raises :class:`BadInput` for a name not on the map."""
        return versus(self._curve(first), self._curve(second))

    def crossovers(self, first: str, second: str) -> tuple[Win, ...]:
        """Every M at which the sign of the difference of two changes; see :func:`iosim.predict.over_m.crossovers`.

        >>> found = regime_map(Attention(n=4096, d=64), ["flash2", "square-tiles"])
        >>> [tuple(win) for win in found.crossovers("square-tiles", "flash2")]
        [(1591, 'flash2')]
        """
        return crossovers(self._curve(first), self._curve(second))

    def _curve(self, name: str) -> Steps:
        for one in self.curves:
            if one.name == name:
                return one
        raise BadInput(f"{name!r} is not on this map; it holds {', '.join(one.name for one in self.curves)}")

    def _plan(self, place: int, m: Capacity) -> Plan:
        """The plan of a rival: the printed blocks by their rule, the best ones as the curve has them."""
        steps, rival = self.curves[place], self.rivals[place]
        at = int(steps.at(m.amount))
        blocks: BlockChoice = Blocks(int(steps.rows[at]), int(steps.cols[at])) if self.rule == "best" else "paper"
        return make_plan(rival.kernel, self.problem, m, blocks, "record", rival.asked(int(steps.variant[at])))


def regime_map(
    problem: Attention, kernels: Sequence[str] | None = None, *, sram: Sequence[Capacity | int | str] | None = None,
    backward: bool = False, blocks: BlockRule = "best", **options: str | None,
) -> RegimeMap:  # fmt: skip
    """What the best of some kernels moves over M, beside the largest lower bound, and where the best changes; in words of one head.

    Raises :class:`BadInput` for a problem with a mask or with heads that share K and V, for one that is too large to count in 64 bits, for
    kernels that are not exact or do the other pass, and for a capacity of less than one word.

    Args:
        problem: Dense attention.
        kernels: Exact algorithms of papers; None takes all of them.
        sram: The capacities of the rows; bytes hold elements of Q's type. None takes powers of two from d to 4Nd, and further where the
            last kernel first fits or begins to be best; d², Nd, and wherever another kernel begins to be best.
        backward: Compare the backward kernels.
        blocks: "best" are those that move the fewest words of all that fit, "paper" the printed ones, whose overflow is recorded.
        options: Each applies to the kernels that have it.

    >>> found = regime_map(Attention(n=4096, d=64), sram=[1024, "64KiB"])
    >>> [(row.sram, row.regime.name, row.rival.name, str(row.blocks), row.words) for row in found.rows]
    [(1024, 'small cache', 'square-tiles (one)', '28x32', 161234944), (16384, 'middle', 'flash2', '121x1', 18354176)]
    """
    _check(problem)
    some = rivals(kernels, backward, blocks, options)
    curves = tuple(curve(one, problem, blocks) for one in some)
    empty = RegimeMap(problem, backward, blocks, some, curves)
    places = _places(empty) if sram is None else [_in_words(size, problem.itemsize) for size in sram]
    return RegimeMap(problem, backward, blocks, some, curves, tuple(empty.row(place) for place in places))


def _check(problem: Attention) -> None:
    if not isinstance(problem, Attention):
        raise BadInput(f"the problem must be an Attention, not {type(problem).__name__}")
    if problem.masked:
        raise BadInput("the map over M needs dense attention; leave causal, window and masks out")
    if problem.group > 1:
        raise BadInput("the map over M needs a K and V for each head; leave kv_heads out")
    size = problem.n * problem.nk * (problem.d + problem.dv)
    if size > LARGEST:
        raise BadInput(f"N_q N_k (d + d_v) is {size}, too large to count in 64 bits; ask for at most {LARGEST}")


def _places(found: RegimeMap) -> list[int]:
    """The capacities of the rows where none are named."""
    small, middle, _ = found.regimes
    low, high = found.problem.d.bit_length() - 1, (4 * (middle.stop or small.start)).bit_length()
    last = max(*found.least.values(), *(win.sram for win in found.leaders()))
    powers = [2**power for power in range(low, max(high, (last - 1).bit_length() + 1))]
    turns = [win.sram for win in found.leaders() if powers[0] <= win.sram <= powers[-1]]
    return sorted({*powers, found.problem.d**2, middle.stop or 1, *turns})


def _in_words(size: Capacity | int | str, itemsize: int) -> int:
    asked = capacity(size)
    words = asked.words(itemsize)
    if words < 1:
        raise BadInput(f"an SRAM of {asked} holds no element of {itemsize} bytes; ask for at least {itemsize} bytes")
    return words
