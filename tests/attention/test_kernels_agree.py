"""Executed == counted == predicted == replayed, per array, and values within their bound: every kernel, every option, ragged shapes."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, predict
from iosim.attention.arrays import launch
from iosim.attention.inputs import random_inputs
from iosim.attention.judge import replayed_equal, truth
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.memory import Machine
from iosim.testing import Case, cases

ROOMY = 10**9
SMALL = {"square-tiles": (24, 10), "square-tiles-backward": (16, 8)}  # sizes and widths where 1x1 tiles make too many turns of a loop
GROUPS: dict[str, tuple[str, ...]] = {name: (name,) for name, found in KERNELS.items() if found.paper}
GROUPS["software"] = tuple(name for name, found in KERNELS.items() if not found.paper)  # together they share the examples of one


def sized(kernel: str, dtype: str = "float32") -> st.SearchStrategy[Case]:
    """Cases of a size that the kernel runs in no time."""
    most, widest = SMALL.get(kernel, (64, 32))
    return cases(kernel, most=most, widest=widest, dtype=dtype)


@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data(), seed=st.integers(0, 99))
def test_four_roads_meet(group: str, data: st.DataObject, seed: int) -> None:
    kernel = data.draw(st.sampled_from(GROUPS[group]))
    case = data.draw(sized(kernel))
    plan = make_plan(kernel, case.problem, ROOMY, case.blocks, None, case.options)
    found = report(plan, seed=seed, replay=True)
    assert found.agreed == {"executed": True, "predicted": True, "replayed": True}
    assert set(found.errors) >= ({"O"} if KERNELS[kernel].forward is None else {"dQ", "dK", "dV"})
    assert found.bounds.keys() == found.errors.keys()
    assert found.broken == ()


@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data())
def test_in_bytes_each_element_costs_its_width(group: str, data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from(GROUPS[group]))
    case = data.draw(sized(kernel, dtype=data.draw(st.sampled_from(["float16", "float32", "float64"]))))
    plan = make_plan(kernel, case.problem, f"{ROOMY}B", case.blocks, None, case.options)
    counts = plan.count()
    assert counts.peak_sram == plan.peak()
    assert replayed_equal(plan, counts)


@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data())
def test_tiles_of_one_kind_do_the_same(group: str, data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from(GROUPS[group]))
    case: Case = data.draw(sized(kernel))
    plan = make_plan(kernel, case.problem, ROOMY, case.blocks, None, case.options)
    assert plan.count(check=50) == plan.count()


@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data())
def test_the_closed_form_of_the_peak_is_the_least_room_that_serves(group: str, data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from(GROUPS[group]))
    case = data.draw(sized(kernel))
    peak = make_plan(kernel, case.problem, ROOMY, case.blocks, None, case.options).peak()
    plan = make_plan(kernel, case.problem, peak, case.blocks, "error", case.options)
    assert plan.count().overflow == 0
    if peak > 1:
        tight = make_plan(kernel, case.problem, peak - 1, case.blocks, "record", case.options)
        assert tight.count().overflow == 1


@pytest.mark.parametrize("kernel", [name for name, found in KERNELS.items() if {"LSE", "l"} & set(found.outputs)])
@given(data=st.data(), seed=st.integers(0, 99))
def test_the_log_sum_exp_is_the_oracles(kernel: str, data: st.DataObject, seed: int) -> None:
    case = data.draw(sized(kernel, dtype="float64"))
    found = report(make_plan(kernel, case.problem, ROOMY, case.blocks, None, case.options), seed=seed, replay=False)
    assert found.lse is not None
    expected = truth(found.plan, random_inputs(case.problem, seed)).values["LSE"]
    np.testing.assert_allclose(found.lse.astype(np.float64), np.asarray(expected), rtol=1e-12, atol=1e-12)


def test_every_kernel_has_a_formula_and_every_formula_a_kernel() -> None:
    assert set(KERNELS) == set(predict.KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_listing_fits_sixty_lines_and_only_asks_the_machine_to_move_and_to_loop(kernel: str) -> None:
    source = inspect.getsource(KERNELS[kernel].listing)
    assert len(source.splitlines()) <= 60
    module = inspect.getmodule(KERNELS[kernel].listing)
    assert module is not None
    asked = re.findall(r"\bm\.(\w+)", inspect.getsource(module))
    assert set(asked) <= {"tiles", "load", "store", "full", "let", "pairs"}


@given(case=cases("flash2"))
def test_the_order_of_keys_and_queries_moves_what_theory_says_on_any_machine(case: Case) -> None:
    machines = [Machine(mode=mode) for mode in ("trace", "count")]
    for m in machines:
        launch(
            KERNELS["flash2"],
            m,
            case.problem,
            case.blocks,
            make_plan("flash2", case.problem, ROOMY, case.blocks, None, case.options).options,
        )
    traced, counted = (m.finish() for m in machines)
    assert traced == counted
