"""What kernels move, compute and keep in HBM on one problem, counted on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from iosim.attention.passes import Pass, plans
from iosim.attention.plan import Plan
from iosim.core.counts import Traffic
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim.core.problem import Attention, Blocks
from iosim.study.published import Setup

OfTables = Literal["fwd", "bwd", "fwd+bwd"]
Options = tuple[tuple[str, str], ...]

PASSES: Mapping[OfTables, Pass] = {"fwd": "forward", "bwd": "backward", "fwd+bwd": "both"}
RELEASED = Blocks(16, 256)  # of the first release of FlashAttention, d = 64 (fmha_api.cpp, May 2022)
IDEAL = (("reuse", "ideal"),)
CREATED = (("first_pass", "create"),)
SRAM = "100KiB"  # plays no part: blocks are given, and overflow is recorded
LONGEST = 2**24


@dataclass(frozen=True, slots=True)
class Asked:
    """A ``pass_`` of ``kernel`` on one problem, to be counted.

    ``masked``: under a rule that moves no words, as key padding is; ``density``: of a random block mask. ``options`` are those of
    :class:`iosim.core.problem.Options`, as (name, value).
    """

    kernel: str
    pass_: OfTables
    n: int
    d: int
    batch: int
    heads: int
    dtype: str
    dropout: float = 0.0
    masked: bool = False
    density: float | None = None
    blocks: Blocks = RELEASED
    options: Options = ()

    @property
    def problem(self) -> Attention:
        """The problem; causal stands for any mask whose rule is computed from indices."""
        cut = self.blocks.rows, self.blocks.cols
        kept = None if self.density is None else patterns.random(self.n, self.n, *cut, self.density)
        return Attention(
            self.n, self.d, batch=self.batch, heads=self.heads, dtype=self.dtype, dropout=self.dropout, causal=self.masked, block_mask=kept
        )

    @property
    def plans(self) -> tuple[Plan, ...]:
        """A plan for each pass; raises :class:`BadInput` for what cannot be counted."""
        if self.n > LONGEST:
            raise BadInput(f"N = {self.n:,} takes too long to count; use published numbers of at most N = {LONGEST:,}")
        return plans(self.kernel, self.problem, SRAM, self.blocks, "record", dict(self.options), PASSES[self.pass_])

    @property
    def described(self) -> str:
        """What was chosen, in words."""
        words = [f"{name}={value}" for name, value in self.options]
        words += [f"dropout {self.dropout:g}"] if self.dropout else []
        words += ["a mask that moves no words"] if self.masked else []
        words += [f"a random block mask of {self.density:g}"] if self.density is not None else []
        return ", ".join([*words, f"blocks {self.blocks}"])

    @property
    def command(self) -> str:
        """The command that counts the same.

        >>> Asked("fmha", "fwd", 512, 64, 64, 16, "float16").command
        'iosim run fmha --n 512 --d 64 --batch 64 --heads 16 --dtype float16 --blocks 16x256 --overflow record --no-execute'
        """
        sizes = f"--n {self.n} --d {self.d} --batch {self.batch} --heads {self.heads} --dtype {self.dtype}"
        words = ["iosim run", self.kernel, *([f"--pass {PASSES[self.pass_]}"] if self.pass_ != "fwd" else []), sizes]
        words += [f"--dropout {self.dropout:g}"] if self.dropout else []
        words += ["--causal"] if self.masked else []
        words += [f"--block-mask random:{self.density:g}"] if self.density is not None else []
        words += [f"--{name.replace('_', '-')} {value}" for name, value in self.options]
        return " ".join([*words, f"--blocks {self.blocks} --overflow record --no-execute"])


@dataclass(frozen=True, slots=True)
class Moved:
    """One HBM array in one pass: its ``shape`` in one head, and the words read, written and filled (part of ``writes``) in all heads."""

    kernel: str
    array: str
    shape: tuple[int, int]
    itemsize: int
    reads: int
    writes: int
    fills: int

    @property
    def bytes(self) -> int:
        """Bytes moved, in all heads."""
        return (self.reads + self.writes) * self.itemsize

    @property
    def statistic(self) -> bool:
        """Whether it holds one number a row: l, m, LSE or D."""
        return self.shape[1] == 1


@dataclass(frozen=True, slots=True)
class Work:
    """What the passes that were ``asked`` for did, in all heads; ``kept`` is the density of the block mask that was drawn."""

    asked: Asked
    moved: tuple[Moved, ...]
    flops: int
    kept: float | None

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that ran."""
        return tuple(dict.fromkeys(one.kernel for one in self.moved))

    @property
    def bytes(self) -> int:
        """All bytes moved."""
        return sum(one.bytes for one in self.moved)

    @property
    def data_bytes(self) -> int:
        """Bytes moved without those of statistics, as the FlashAttention paper counts."""
        return sum(one.bytes for one in self.moved if not one.statistic)

    @property
    def fill_bytes(self) -> int:
        """Bytes that filled arrays with their first values, without those of statistics."""
        return sum(one.fills * one.itemsize for one in self.moved if not one.statistic)

    @property
    def instances(self) -> int:
        """How many heads there are."""
        return self.asked.batch * self.asked.heads

    @property
    def arrays(self) -> dict[str, int]:
        """The bytes that each array takes in HBM, each once however many passes use it, in all heads."""
        return {one.array: one.shape[0] * one.shape[1] * one.itemsize * self.instances for one in self.moved}

    @property
    def peaks(self) -> dict[str, int]:
        """The bytes that the arrays of each pass take in HBM, in all heads, by kernel."""
        found = dict.fromkeys(self.kernels, 0)
        for one in self.moved:
            found[one.kernel] += one.shape[0] * one.shape[1] * one.itemsize * self.instances
        return found

    def passes(self, cols: int) -> dict[str, float]:
        """For each array of ``cols`` columns, how often it was moved, in elements of the problem's type."""
        whole = self.asked.n * cols * self.asked.problem.itemsize * self.instances
        found: dict[str, float] = {}
        for one in self.moved:
            if one.shape[1] == cols and one.bytes:
                found[one.array] = found.get(one.array, 0.0) + one.bytes / whole
        return found


@cache
def count(asked: Asked) -> Work:
    """Run the listings on the machine in count mode.

    >>> both = count(Asked("flash", "fwd+bwd", 1024, 64, 64, 16, "float16", options=CREATED))
    >>> both.kernels, both.data_bytes
    (('flash', 'flash-backward'), 4429185024)
    """
    if asked.pass_ == "fwd+bwd":
        first, second = count(replace(asked, pass_="fwd")), count(replace(asked, pass_="bwd"))
        return Work(asked, first.moved + second.moved, first.flops + second.flops, first.kept)
    (plan,) = asked.plans
    machine, times = plan.machine("count"), plan.problem.instances
    arrays = plan.run(machine)
    counts = machine.finish()
    moved = tuple(_moved(plan.kernel.name, name, arrays[name].shape, one * times) for name, one in counts.arrays.items())
    mask = plan.problem.block_mask
    return Work(asked, moved, counts.flops.matmul * times, None if mask is None else mask.nnz / (mask.grid[0] * mask.grid[1]))


def _moved(kernel: str, array: str, shape: tuple[int, int], all_heads: Traffic) -> Moved:
    return Moved(kernel, array, shape, all_heads.itemsize, all_heads.reads, all_heads.writes, all_heads.init_writes)


def asked_of(
    setup: Setup, kernel: str, pass_: OfTables, n: int | None = None, *, dropout: bool = False, masked: bool = False,
    density: float | None = None, blocks: Blocks = RELEASED, options: Options = (),
) -> Asked:  # fmt: skip
    """A kernel on the problem of a setup; raises :class:`BadInput` where nothing says what N is.

    Args:
        setup: The problem that was measured.
        kernel: Its name.
        pass_: Which pass.
        n: The sequence length; None takes that of the setup.
        dropout: Whether with the dropout of the setup.
        masked: As in :class:`Asked`, as are the rest.
        density: Of a random block mask.
        blocks: Br x Bc.
        options: Those of the kernel.
    """
    rows = setup.n if n is None else n
    if rows is None:
        raise BadInput("the setup of a figure must say n, the sequence length that was measured; add it")
    p = setup.dropout if dropout else 0.0
    return Asked(kernel, pass_, rows, setup.d, setup.batch, setup.heads, setup.dtype, p, masked, density, blocks, options)


def has_mask(setup: Setup) -> bool:
    """Whether there was a mask where a number says so."""
    return setup.mask.casefold() not in {"none", "no"}
