"""All meters find what the closed forms predict, to the element, and the same kinds of access as each other; the values are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask, patterns
from iosim_gpu import judge
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.meters import counters, emulator, simulator
from iosim_gpu.moved import Measured, Moved
from iosim_gpu.ptx import Access
from iosim_gpu.tiling import Tiling
from tests.gpu.every import VARIANTS
from tests.gpu.hunt import gap

MOST = 24
TILINGS = [
    ("standard", Tiling(3, 8, 7, 33, causal=True)),
    ("flash", Tiling(8, 4, 5, 33, causal=True)),
    ("flash2", Tiling(8, 6, 7, 40)),
    ("flash2", Tiling(4, 8, 8, 24, causal=True)),
    ("block-sparse", Tiling(6, 4, 3, 17, causal=True)),
    ("flash2-backward shared", Tiling(6, 8, 8, 24)),
    ("flash2-backward shared", Tiling(8, 3, 5, 40, causal=True)),
    ("flash2-backward own", Tiling(4, 6, 8, 20, causal=True)),
]
"""Every one is compiled, which takes a second a step; sizes, heads and masks are drawn."""


def tilings() -> st.SearchStrategy[Tiling]:
    small = st.integers(1, 8)
    return st.builds(Tiling, small, small, small, st.integers(1, 40), st.booleans())


@st.composite
def cases(draw: st.DrawFn, variant: str, tiling: st.SearchStrategy[Tiling]) -> Case:
    t, heads = draw(tiling), st.integers(1, 2)
    n, nk = (draw(st.integers(1, min(MOST, 4 * tile))) for tile in (t.rows, t.cols))  # more tiles take long and show no more
    kernel, options = VARIANTS[variant]
    mask = draw(masks(n, nk, t)) if KERNELS[kernel].masked else None
    return Case(
        kernel, n, t.d, t.rows, t.cols, t.threads, nk=nk, batch=draw(heads), heads=draw(heads), causal=t.causal, mask=mask,
        options=options, seed=draw(st.integers(0, 9)),
    )  # fmt: skip


@st.composite
def masks(draw: st.DrawFn, n: int, nk: int, tiling: Tiling) -> BlockMask:
    density = draw(st.sampled_from([0.2, 0.6, 1.0]))
    return patterns.random(n, nk, tiling.rows, tiling.cols, density, draw(st.integers(0, 99)))


def kinds(found: Mapping[str, Moved]) -> dict[str, tuple[int, int, int]]:
    return {array: (moved.loads, moved.stores, moved.atomics) for array, moved in found.items() if moved.reads or moved.writes}


def is_right(case: Case, found: Measured) -> None:
    assert {array: (moved.reads, moved.writes) for array, moved in found.arrays.items() if moved.reads or moved.writes} == {
        array: (moved.reads, moved.writes) for array, moved in case.predicted().items()
    }
    right, bounds = judge.truth(case, judge.inputs(case))
    for name in right.keys() & found.outputs.keys():
        assert gap(found.outputs[name], right[name]) <= bounds[name], name


@pytest.mark.needs_simulator
@pytest.mark.parametrize("variant", VARIANTS)
@given(data=st.data())
def test_simulated(variant: str, data: st.DataObject, scheduler: None) -> None:
    case = data.draw(cases(variant, tilings()))
    seen, told = simulator.measure(case), counters.measure(case)
    is_right(case, seen)
    is_right(case, told)
    assert kinds(seen.arrays) == kinds(told.arrays)
    assert all(moved.sectors is None and moved.requests is None for moved in seen.arrays.values())


@pytest.mark.needs_simulator
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_simulators_own_threads_move_the_same(variant: str) -> None:
    kernel, options = VARIANTS[variant]
    mask = patterns.random(7, 6, 4, 4, 0.7) if KERNELS[kernel].masked else None
    case = Case(kernel, 7, 2, 4, 4, 5, nk=6, causal=True, mask=mask, options=options)
    is_right(case, simulator.measure(case))
    is_right(case, counters.measure(case))


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("variant", "tiling"), TILINGS, ids=str)
@settings(max_examples=8)
@given(data=st.data())
def test_emulated(variant: str, tiling: Tiling, data: st.DataObject) -> None:
    case = data.draw(cases(variant, st.just(tiling)))
    found = emulator.measure(case)
    is_right(case, found)
    assert all(moved.sectors and moved.requests for moved in found.arrays.values() if moved.reads or moved.writes)


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("variant", "tiling"), [TILINGS[3], TILINGS[6]], ids=str)
@settings(max_examples=4)
@given(data=st.data())
def test_counters_emulated(variant: str, tiling: Tiling, data: st.DataObject) -> None:
    case = data.draw(cases(variant, st.just(tiling)))
    seen, told = emulator.measure(case), counters.measure(case, runner=emulator.launch)
    is_right(case, told)
    assert kinds(seen.arrays) == kinds(told.arrays)


def test_transactions_are_those_of_loads_stores_and_atomics() -> None:
    assert emulator.moved(Access(1, 2, 3, 10, 20, 30, 100, 200, 300)) == Moved(1, 2, 3, sectors=60, requests=600)


@pytest.mark.needs_compiler
def test_transactions_of_whole_warps() -> None:
    """A warp that loads 32 neighbouring words asks once, for four sectors of 32 bytes; 16 rows of LSE take one request and two sectors."""
    found = emulator.measure(Case("flash2", 32, 8, 16, 16, 32)).arrays
    assert found["K"] == Moved(loads=512, sectors=64, requests=16)
    assert found["O"] == Moved(stores=256, sectors=32, requests=8)
    assert found["LSE"] == Moved(stores=32, sectors=4, requests=2)


@pytest.mark.needs_compiler
def test_another_architecture_moves_the_same() -> None:
    case = Case("flash2", 19, 5, 4, 6, 24, nk=23, causal=True)
    found = [emulator.measure(case, arch=arch) for arch in ("sm_80", "sm_90")]
    is_right(case, found[0])
    assert found[0].arrays == found[1].arrays


@pytest.mark.needs_simulator
@pytest.mark.parametrize("measure", [emulator.measure, partial(counters.measure, runner=emulator.launch)])
def test_with_the_simulator_on_nothing_is_compiled(measure: Callable[[Case], Measured]) -> None:
    with pytest.raises(BadInput, match="simulator"):
        measure(Case("flash2", 4, 2, 2, 2, 2))


@pytest.mark.needs_compiler
def test_counters_run_in_the_simulator_unless_told_otherwise() -> None:
    with pytest.raises(BadInput, match="the simulator is off"):
        counters.measure(Case("flash2", 4, 2, 2, 2, 2))
