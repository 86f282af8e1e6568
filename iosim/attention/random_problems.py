"""Random attention problems for tests: drawn from a generator, or as Hypothesis strategies."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iosim.attention.catalogue import Named, kernel
from iosim.core.errors import BadInput, MissingExtra
from iosim.core.masks.block import BlockMask
from iosim.core.options import Option, Value
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from iosim.attention.declaration import Kernel

TRIED = (1, 2, 3, 5)
"""The values of an option that is a number, where its kernel names no others."""


class Case(NamedTuple):
    """A problem with the blocks to cut it into and the options of a kernel."""

    problem: Attention
    blocks: Blocks
    options: dict[str, Value | None]


RULES = (
    "none",
    "causal",
    "window",
    "causal window",
    "elements",
    "causal elements",
    "blocks",
    "causal blocks",
    "blocks elements",
    "nothing",
)


def random_case(rng: np.random.Generator, kernel: Named = "flash2", *, most: int = 96, widest: int = 40, dtype: str = "float32") -> Case:
    """A random ragged problem: n and nk in 1..``most``, d and dv in 1..``widest``, blocks up to ``most`` but at most 16 half of the time.

    Every rule of who may attend occurs, rows that attend to nothing among them, and every option of ``kernel``.
    """
    n, nk = (int(rng.integers(1, most + 1)) for _ in range(2))
    d, dv = (int(rng.integers(1, widest + 1)) for _ in range(2))
    blocks = Blocks(*(int(rng.integers(1, (16 if rng.random() < 0.5 else most) + 1)) for _ in range(2)))
    return build_case(rng, kernel, (n, nk, d, dv), blocks, RULES[rng.integers(len(RULES))], dtype)


def build_case(rng: np.random.Generator, asked: Named, sizes: tuple[int, int, int, int], blocks: Blocks, rule: str, dtype: str) -> Case:
    """The case of these sizes, blocks and rule, everything else drawn from ``rng``."""
    n, nk, d, dv = sizes
    rules: dict[str, Any] = {"causal": "causal" in rule}
    if "window" in rule:
        rules["window"] = (int(rng.integers(-1, nk + 2)), int(rng.integers(-1, nk + 2)))
    if "elements" in rule or rule == "nothing":
        rules["mask"] = rng.random((n, nk)) < (0.0 if rule == "nothing" else rng.choice([0.02, 0.5, 0.98]))
    if "blocks" in rule:
        keep = rng.random((-(-n // blocks.rows), -(-nk // blocks.cols))) < rng.choice([0.1, 0.5, 0.9])
        rules["block_mask"] = BlockMask.from_dense(keep, n, nk, blocks.rows, blocks.cols)
    scale = [None, 0.0, 1.0, -0.3][rng.integers(4)]
    rules |= {"dropout": float(rng.choice([0.1, 0.5])), "dropout_seed": int(rng.integers(2**63))} if rng.random() < 0.3 else {}
    problem = Attention(n, d, nk=nk, dv=dv, dtype=dtype, scale=scale, **rules)
    return Case(problem, blocks, random_options(rng, asked))


def random_options(rng: np.random.Generator, asked: Named) -> dict[str, Value | None]:
    """Random values for every option that the kernel has."""
    own = kernel(asked)
    for _ in range(100):
        options = {option.name: _drawn(rng, option) for option in own.options}
        if own.brings is not None:
            options.pop("skip", None)  # without it nothing is left of the mask
        if _settles(own, options):
            return {**options}
    raise BadInput(f"no options of {own} were found that do not contradict one another")


def variants(asked: Named, **fixed: Value) -> list[dict[str, Value]]:
    """Every combination of the values of the kernel's options that it accepts; of those ``fixed``, where it has them, one value."""
    own = kernel(asked)
    values = [(fixed[option.name],) if option.name in fixed else option.choices or TRIED for option in own.options]
    every = [dict(zip(own.has, some, strict=True)) for some in product(*values)]
    return [options for options in every if _settles(own, options)]


def _settles(own: Kernel, options: dict[str, Value]) -> bool:
    try:
        own.settle(Attention(1, 1), Capacity(1), options)
    except BadInput:
        return False
    return True


def _drawn(rng: np.random.Generator, option: Option) -> Value:
    choices = option.choices or TRIED
    return choices[int(rng.integers(len(choices)))]


def cases(kernel: Named = "flash2", *, most: int = 96, widest: int = 40, dtype: str = "float32") -> SearchStrategy[Case]:
    """A Hypothesis strategy of the cases of :func:`random_case`; its sizes, blocks and rule shrink. Needs the package hypothesis."""
    try:
        from hypothesis import strategies as st
    except ImportError:
        raise MissingExtra("iosim.attention.random_problems.cases needs hypothesis: pip install hypothesis") from None
    height = st.booleans().flatmap(lambda small: st.integers(1, 16 if small else most))
    sizes = st.tuples(st.integers(1, most), st.integers(1, most), st.integers(1, widest), st.integers(1, widest))
    return st.builds(
        lambda seed, size, rows, cols, rule: build_case(np.random.default_rng(seed), kernel, size, Blocks(rows, cols), rule, dtype),
        st.integers(0, 2**32 - 1), sizes, height, height, st.sampled_from(RULES),
    )  # fmt: skip
