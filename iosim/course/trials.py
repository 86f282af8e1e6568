"""Trials: the problems on which a listing runs, with what it should compute and what it may move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim import predict
from iosim.attention.catalogue import FORWARD, KERNELS
from iosim.attention.judge import truth
from iosim.attention.kernels.masking import Mask
from iosim.attention.plan import Plan
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.masks.grid import grid, index_rule
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.course.predicted import predicted
from iosim.course.spec import Array, Trial
from iosim.machine import Hbm, Machine
from iosim.predict.bounds import least_words

Data = Mapping[str, Array]
Shape = tuple[int, int]
Expected = Mapping[str, tuple[NDArray[np.float64], float]]
Listing = Callable[..., None]
LABELS = ("random numbers", "huge logits")
HUGE_LOGITS = 200.0  # their standard deviation: in float32, exp overflows above 88.7
WITH_INFINITY = ("m", "LSE")  # the statistics of a query that attends to nothing hold -inf


def attention_trials(
    listing: Listing, rng: np.random.Generator, *, outputs: Sequence[str] = ("O",), causal: bool = False,
    expected: Callable[[Trial, Data], Expected] | None = None,
) -> list[Trial]:  # fmt: skip
    """Three fresh forward problems: whole tiles, ragged tails everywhere (N_q != N_k, d != d_v, another scale), few long tiles.

    The inputs are Q, K and V, each once at random and once with logits that a naive exp cannot hold; M is what the solution needs.
    With ``causal`` the second problem has more queries than keys, so that some rows attend to nothing, and the third more keys.
    """
    made = []
    for label, draw in USUAL_PROBLEMS:
        problem, blocks = draw(rng)
        made.append(attention_trial(listing, label, replace_rule(problem, causal), blocks, rng, outputs=outputs, expected=expected))
    return made


def whole_tiles(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """A square problem that the blocks divide, with Br != d."""
    rows, cols = pick(rng, 4, 7), pick(rng, 4, 7)
    return Attention(rows * cols, rows + pick(rng, 1, 4)), Blocks(rows, cols)


def ragged_tails(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """No block divides its axis; N_q > N_k; d, d_v, Br and Bc all differ; a scale of its own."""
    rows, cols, d, dv = (int(size) for size in rng.permutation([5, 6, 7, 8]))
    n, nk = 4 * rows + pick(rng, 1, rows - 1), 3 * cols - pick(rng, 1, cols - 1)
    return Attention(n, d, nk=min(nk, n - 1), dv=dv, scale=float(rng.uniform(0.2, 0.9))), Blocks(rows, cols)


def long_tiles(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """A few queries in one tile that is higher than they are many, and more keys; d_v = 1."""
    n = pick(rng, 3, 6)
    return Attention(n, pick(rng, 2, 4), nk=pick(rng, 17, 29), dv=1), Blocks(n + pick(rng, 1, 3), 8)


USUAL_PROBLEMS = (("whole tiles", whole_tiles), ("ragged tails", ragged_tails), ("few, long tiles", long_tiles))


def pick(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both included."""
    return int(rng.integers(low, high + 1))


def replace_rule(problem: Attention, causal: bool) -> Attention:
    """The problem with or without the causal rule."""
    return replace(problem, causal=causal)


def attention_trial(
    listing: Listing, label: str, problem: Attention, blocks: Blocks, rng: np.random.Generator, *,
    outputs: Sequence[str] = ("O",), scratch: Sequence[str] = (), params: Mapping[str, int | float] | None = None, sram: int | None = None,
    expected: Callable[[Trial, Data], Expected] | None = None,
) -> Trial:  # fmt: skip
    """A forward problem as a trial of ``listing(m, Q, K, V, *outputs, *scratch, Br=, Bc=, scale=)``, with ``mask=`` if there is a rule.

    ``params`` takes the place of Br, Bc and scale. ``sram``: None is exactly what the solution needs. ``expected``: None asks the oracle
    for O and LSE; other outputs are then not judged.
    """
    given = {"Br": blocks.rows, "Bc": blocks.cols, "scale": problem.softmax_scale} if params is None else params
    found = trial(
        listing, label,
        inputs={name: shape_of(name, problem) for name in ("Q", "K", "V")},
        outputs={name: shape_of(name, problem) for name in outputs},
        scratch={name: shape_of(name, problem) for name in scratch},
        params=given, data=[random_data(problem, rng), random_data(problem, rng, HUGE_LOGITS)], data_labels=LABELS,
        expected=lambda data: forward_answers(problem, data), sram=sram, mask=problem if problem.masked else None,
    )  # fmt: skip
    found = replace(found, best=best_known(problem, found), least=least_words(problem, found.sram))
    return found if expected is None else replace(found, expected=lambda data: expected(found, data))


def trial(
    listing: Listing, label: str, *, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], params: Mapping[str, int | float],
    data: Sequence[Data], expected: Callable[[Data], Expected], data_labels: Sequence[str] = (), scratch: Mapping[str, Shape] | None = None,
    sram: int | None = None, mask: Attention | None = None, best: int | None = None, least: int | None = None,
) -> Trial:  # fmt: skip
    """Any problem as a trial: the words, the room and the unnamed words of the solution are counted on the machine.

    Twice the solution's unnamed words may live at once, so that ``a * o + p @ v`` can be one expression.
    """
    asked = Trial(
        label, dict(inputs), dict(outputs), dict(params), sram or 1, tuple(data), expected, budget=0, scratch=dict(scratch or {}),
        mask=mask, best=best, least=least, data_labels=tuple(data_labels),
    )  # fmt: skip
    counts = counted(listing, asked)
    return replace(asked, sram=sram or counts.peak_sram, budget=moved(counts), registers=2 * counts.peak_unnamed)


def counted(listing: Listing, asked: Trial) -> Counts:
    """What ``listing`` does on a trial, from one tile of each kind and in unbounded room."""
    m = Machine(mode="count")
    listing(m, *declared(m, asked), **asked.params, **rules_of(asked))
    return m.finish()


def declared(m: Machine, asked: Trial, data: Data | None = None) -> list[Hbm]:
    """The trial's HBM arrays on ``m``, in the order of the parameters: inputs, outputs, scratch."""
    numbers: dict[str, Any] = dict(data or {})
    inputs = [
        m.input(name, shape, numbers.get(name), dtype=None if name not in numbers or numbers[name].dtype != np.bool_ else "bool",
                infinite=name in WITH_INFINITY)
        for name, shape in asked.inputs.items()
    ]  # fmt: skip
    outputs = [m.output(name, shape) for name, shape in asked.outputs.items()]
    return inputs + outputs + [m.output(name, shape, whole=False) for name, shape in asked.scratch.items()]


def rules_of(asked: Trial) -> dict[str, Mask]:
    """The keyword ``mask``, where the trial has one."""
    mask = mask_of(asked)
    return {} if mask is None else {"mask": mask}


def mask_of(asked: Trial) -> Mask | None:
    """Who may attend, cut into the trial's blocks."""
    if asked.mask is None:
        return None
    blocks = Blocks(int(asked.params["Br"]), int(asked.params["Bc"]))
    return Mask(grid(asked.mask, blocks), index_rule(asked.mask))


def moved(counts: Counts) -> int:
    """Words moved, all arrays together."""
    return sum(array.reads + array.writes for array in counts.arrays.values())


def shape_of(name: str, problem: Attention) -> Shape:
    """Rows and columns of an array of attention by its name: Q, dK, S, O_acc; whatever is no such name has one number a query."""
    n, nk, d, dv = problem.n, problem.nk, problem.d, problem.dv
    shapes = {"Q": (n, d), "K": (nk, d), "V": (nk, dv), "O": (n, dv), "S": (n, nk), "P": (n, nk)}
    return shapes.get(name.removeprefix("d").removesuffix("_acc"), (n, 1))


def random_data(problem: Attention, rng: np.random.Generator, spread: float | None = None) -> dict[str, Array]:
    """Standard normal Q, K and V in float32; with a ``spread``, Q and K such that logits have that standard deviation."""
    factor = 1.0 if spread is None else np.sqrt(spread / (abs(problem.softmax_scale) * np.sqrt(problem.d)))
    factors = {"Q": factor, "K": factor, "V": 1.0}
    return {name: (by * rng.standard_normal(shape_of(name, problem))).astype(np.float32) for name, by in factors.items()}


def forward_answers(problem: Attention, data: Data) -> Expected:
    """O and LSE from the oracle, with the bounds that hold for key tiles of any height, one key among them."""
    plan = Plan(KERNELS["flash2"], problem, Blocks(1, 1), Options(), Capacity(1), "record")
    right = truth(plan, dict(data))
    return {name: (value.reshape(problem.n, -1), right.bounds[name]) for name, value in right.values.items()}


def output_answers(problem: Attention, data: Data) -> Expected:
    """O from the oracle; the bound holds for a sum key by key, and for parts of the keys, which are tiles too, merged before."""
    return {"O": forward_answers(problem, data)["O"]}


def best_known(problem: Attention, found: Trial, kernels: Sequence[str] = FORWARD) -> int:
    """The fewest words of the listings of this project in the same SRAM, each in its best blocks, and of the solution itself."""
    return min([found.budget, *(words for name in kernels if (words := words_of(name, problem, found.sram)) is not None)])


def words_of(kernel: str, problem: Attention, sram: int) -> int | None:
    """What ``kernel`` moves in its best blocks; None where no blocks fit."""
    try:
        blocks = predict.choose_blocks(kernel, problem, Capacity(sram), "best")
    except BadInput:
        return None
    return predicted(kernel, problem, blocks)
