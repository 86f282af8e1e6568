"""Closed forms against the machine: what is predicted for every kernel is what running its listing counts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, predict
from iosim.attention.arrays import launch
from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import OPTIONS, Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, Unit
from iosim.memory import Counts, Machine
from iosim.predict import Moved
from iosim.predict.formulas import formula

CREATE, IDEAL, STREAMED, OWN = Options(first_pass="create"), Options(reuse="ideal"), Options(softmax="streamed"), Options(dq_pass="own")
APART = Options(first_pass="create", accumulator="float32")
H11, BLOCKS = Attention(n=1024, d=64), Blocks(64, 256)
ND = 1024 * 64

ALGORITHMS = [name for name, found in KERNELS.items() if found.paper]  # software has tests of its own
kernels = pytest.mark.parametrize("kernel", ALGORITHMS)
units = st.sampled_from(["words", "bytes"])
RULES = ("causal", "window", "mask", "block mask")


@st.composite
def cases(draw: st.DrawFn, kernel: str) -> tuple[Attention, Blocks, Options]:
    """A ragged problem under any rules, blocks that suit it, and every option of the kernel."""
    n, nk, br, bc = (draw(st.integers(1, most)) for most in (30, 30, 40, 40))
    rules = draw(st.sets(st.sampled_from(RULES), max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    told: dict[str, Any] = {"causal": "causal" in rules}
    if "window" in rules:
        told["window"] = draw(st.integers(-1, nk + 1)), draw(st.integers(-1, nk + 1))
    if "mask" in rules:
        told["mask"] = rng.random((n, nk)) < draw(st.sampled_from([0, 0.02, 0.5, 0.98, 1]))
    if "block mask" in rules:
        keep = rng.random((-(-n // br), -(-nk // bc))) < draw(st.sampled_from([0.1, 0.5, 0.9]))
        told["block_mask"] = BlockMask.from_dense(keep, n, nk, br, bc)
    d, dv, dtype = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.sampled_from(dtypes.NAMES))
    problem = Attention(n, d, nk=nk, dv=dv, dtype=dtype, dropout=draw(st.sampled_from([0.0, 0.5])), **told)
    return problem, Blocks(br, bc), draw(options(kernel))


@st.composite
def options(draw: st.DrawFn, kernel: str) -> Options:
    """Every option that the kernel has; an accumulator of its own only where nothing is filled in HBM."""
    mine: dict[str, Any] = {name: draw(st.sampled_from(OPTIONS[name].choices)) for name in ("skip", *formula(kernel).options)}
    if mine.get("accumulator") == "float32" and "first_pass" in mine:
        mine["first_pass"] = "create"
    return Options(**mine)


def counted(kernel: str, problem: Attention, blocks: Blocks, options: Options, unit: Unit = "words") -> Counts:
    sram = Capacity(1, unit)
    m = Machine(sram, mode="count", accumulator=dtypes.accumulator(problem.dtype), overflow="record")
    launch(KERNELS[kernel], m, problem, blocks, options)
    return m.finish()


@kernels
@given(data=st.data())
def test_predicted_words_are_counted_array_by_array(kernel: str, data: st.DataObject) -> None:
    case = data.draw(cases(kernel))
    arrays = counted(kernel, *case).arrays
    assert predict.predict(kernel, *case) == {name: Moved(a.reads, a.writes, a.init_writes) for name, a in arrays.items()}


@kernels
@given(data=st.data(), unit=units)
def test_residents_are_the_peak_that_is_measured(kernel: str, data: st.DataObject, unit: Unit) -> None:
    case = data.draw(cases(kernel))
    assert predict.residents(kernel, *case, unit) == counted(kernel, *case, unit).peak_sram


@kernels
@pytest.mark.parametrize("mask", ["none", "corner", "nothing"])
@pytest.mark.parametrize(("d", "dv"), [(40, 1), (1, 40), (1, 1)])
def test_residents_of_every_pass_are_measured_where_it_needs_the_most(kernel: str, mask: str, d: int, dv: int) -> None:
    """Tall and wide tiles, thin and fat rows, few visits or none: each pass of a listing is somewhere the one that decides."""
    for (n, nk, br, bc), choice in product(
        [(60, 2, 60, 1), (60, 2, 25, 2), (2, 60, 1, 60), (2, 60, 2, 25), (60, 60, 1, 1)], every_option(kernel)
    ):
        corner = np.zeros((n, nk), dtype=bool)
        corner[-1, -1] = mask == "corner"
        problem = Attention(n, d, nk=nk, dv=dv, dtype="float16", mask=None if mask == "none" else corner)
        found = counted(kernel, problem, Blocks(br, bc), choice, "bytes").peak_sram
        assert predict.residents(kernel, problem, Blocks(br, bc), choice, "bytes") == found


def every_option(kernel: str) -> list[Options]:
    """Every choice of the options that move words, but for an accumulator of its own where O or dQ is first loaded from HBM."""
    mine = [name for name, option in OPTIONS.items() if name in formula(kernel).options and isinstance(option.default, str)]
    drawn: list[dict[str, Any]] = [dict(zip(mine, values, strict=True)) for values in product(*(OPTIONS[name].choices for name in mine))]
    return [Options(**one) for one in drawn if one.get("accumulator") != "float32" or one.get("first_pass") != "load"]


# printed and published numbers; N = 1024, d = 64, Tc = 4


def total(moved: dict[str, Moved]) -> int:
    return sum(array.reads + array.writes for array in moved.values())


def passes(kernel: str, options: Options) -> dict[str, float]:
    """The passes over N d words of each large array."""
    moved = predict.predict(kernel, H11, BLOCKS, options)
    return {name: (a.reads + a.writes) / ND for name, a in moved.items() if name not in ("l", "m", "LSE", "D")}


def test_the_twenty_passes_of_the_flashattention_paper() -> None:
    found = passes("flash-backward", CREATE)
    assert found == {"Q": 4, "dO": 4, "O": 1, "dQ": 7, "K": 1, "V": 1, "dK": 1, "dV": 1}
    assert sum(found.values()) == 20


def test_figure_2_of_the_flashattention_paper_with_its_backward_pass() -> None:
    forward, backward = (sum(passes(kernel, CREATE).values()) for kernel in ("flash", "flash-backward"))
    assert f"{1024 * 2 * ND * (forward + backward) / 1e9:.3f}" == "4.429"


def test_flash_backward_as_printed() -> None:
    assert passes("flash-backward", Options()) == {"Q": 4, "dO": 4, "O": 4, "dQ": 9, "K": 1, "V": 1, "dK": 2, "dV": 2}
    assert total(predict.predict("flash-backward", H11, BLOCKS)) == 27 * ND + 8 * 1024 == 1_777_664


def test_an_accumulator_of_its_own_takes_all_passes_but_one() -> None:
    assert passes("flash-backward", APART) == passes("flash-backward", CREATE) | {"dQ": 1, "dQ_acc": 6}
    assert passes("flash", APART) == passes("flash", CREATE) | {"O": 1, "O_acc": 6}
    assert passes("flash2-backward", APART) == passes("flash2-backward", Options()) | {"dQ": 1, "dQ_acc": 10}
    assert passes("flash2-backward", Options(dq_pass="own", accumulator="float32")) == passes("flash2-backward", OWN) | {"dQ_acc": 0}


def test_flash2_backward_shares_dq_or_makes_it_alone() -> None:
    assert passes("flash2-backward", Options()) == {"Q": 4, "dO": 5, "O": 1, "dQ": 9, "K": 1, "V": 1, "dK": 1, "dV": 1}
    assert total(predict.predict("flash2-backward", H11, BLOCKS)) == 1_516_544
    assert passes("flash2-backward", OWN) == {"Q": 5, "dO": 6, "O": 1, "dQ": 1, "K": 17, "V": 17, "dK": 1, "dV": 1}
    assert total(predict.predict("flash2-backward", H11, BLOCKS, OWN)) == 3_222_528


def test_standard_backward_moves_what_the_paper_counts_when_it_is_ideal() -> None:
    assert total(predict.predict("standard-backward", H11, BLOCKS, IDEAL)) == 7 * 1024**2 + 8 * ND
    forward = total(predict.predict("standard", H11, BLOCKS, IDEAL))
    assert forward + total(predict.predict("standard-backward", H11, BLOCKS, IDEAL)) == 11 * 1024**2 + 12 * ND
    tiled = predict.predict("standard-backward", H11, BLOCKS)
    assert tiled["dO"] == Moved(reads=5 * ND)
    assert tiled["Q"] == Moved(reads=4 * ND)
    assert tiled["K"] == tiled["V"] == Moved(reads=16 * ND)
    streamed = predict.predict("standard-backward", H11, BLOCKS, STREAMED)
    assert streamed["P"] == Moved(reads=3 * 1024**2)
    assert streamed["dP"] == Moved(reads=2 * 1024**2, writes=1024**2)


@pytest.mark.parametrize("options", [IDEAL, Options(), STREAMED])
def test_no_pass_of_standard_backward_reads_the_mask(options: Options) -> None:
    problem = Attention(n=9, d=2, mask=np.tri(9, dtype=bool))
    assert predict.predict("standard-backward", problem, Blocks(2, 4), options)["mask"] == Moved()
    assert predict.predict("flash2-backward", problem, Blocks(2, 4), OWN)["mask"].reads == 2 * (
        predict.predict("flash2-backward", problem, Blocks(2, 4))["mask"].reads
    )


# residents


def test_residents_of_full_tiles_backward() -> None:
    br, bc, d = 64, 256, 64
    needed = {kernel: predict.residents(kernel, H11, BLOCKS) for kernel in ("flash-backward", "flash2-backward")}
    assert needed == {
        "flash-backward": 4 * (br + bc) * d + 2 * br * bc + 3 * br,
        "flash2-backward": 3 * br * d + 4 * bc * d + br * bc + 2 * br,
    }
    assert predict.residents("standard-backward", H11, BLOCKS, STREAMED) == (br + bc) * d + br * bc
    assert predict.residents("standard-backward", Attention(n=1024, d=1), BLOCKS, STREAMED) == 2 * br * bc + br
    assert predict.residents("standard-backward", H11, Blocks(8, 8)) == 2 * 1024
    assert predict.residents("standard-backward", H11, Blocks(8, 8), IDEAL) == 1024 * d + 8 * d + 8 * 1024


def test_an_accumulator_of_its_own_is_as_wide_as_what_is_computed() -> None:
    half = Attention(n=256, d=32, dtype="float16")
    blocks, extra = Blocks(16, 64), 16 * 32 * (4 - 2)
    shared = predict.residents("flash2-backward", half, blocks, unit="bytes")
    assert predict.residents("flash2-backward", half, blocks, Options(accumulator="float32"), "bytes") == shared + extra
    by_first_visit = predict.residents("flash", half, blocks, CREATE, "bytes")  # which makes O
    assert predict.residents("flash", half, blocks, APART, "bytes") == by_first_visit


@pytest.mark.parametrize("kernel", ["flash", "block-sparse", "flash-backward"])
def test_an_accumulator_of_its_own_is_never_filled_in_hbm(kernel: str) -> None:
    with pytest.raises(BadInput, match="accumulator='float32' makes accumulators on chip but first_pass is 'load'"):
        predict.predict(kernel, H11, BLOCKS, Options(accumulator="float32"))
    with pytest.raises(BadInput, match="ask for first_pass='create' too"):
        predict.dense_words(kernel, n=8, d=2, Br=2, Bc=2, options=Options(accumulator="float32"))
