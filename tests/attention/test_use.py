"""simulate, compare, sweep and trace: what a caller gets, and that every way of running gives the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import (
    BACKWARD,
    FORWARD,
    KERNELS,
    Attention,
    BadInput,
    Capacity,
    compare,
    predict,
    problem_of,
    random_inputs,
    simulate,
    sweep,
    trace,
)
from iosim.attention import judge
from iosim.attention.plan import make_plan
from iosim.core import dtypes
from iosim.core.events import Event
from iosim.core.options import SOFTMAX, Options
from iosim.testing import random_case
from iosim_reference import replay

SMALL = Attention(n=50, d=8)


def test_batch_and_heads_multiply_every_count_exactly() -> None:
    one = simulate("flash", Attention(n=100, d=16), sram=5000)
    many = simulate("flash", Attention(n=100, d=16, batch=3, heads=7), sram=5000)
    assert many.total == 21 * one.total
    assert many.flops == one.flops * 21
    assert {name: a.init_writes for name, a in many.arrays.items()} == {name: 21 * a.init_writes for name, a in one.arrays.items()}
    assert (many.peak_hbm, many.peak_hbm_bytes) == (21 * one.peak_hbm, 21 * one.peak_hbm_bytes)
    assert many.peak_sram == one.peak_sram
    assert many.lower_bound == 21 * 4 * 100 * 16


def test_all_heads_of_given_inputs_are_executed() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((2, 3, 20, 4)) for _ in range(3))
    many = simulate("flash2", problem_of(q, k, v), sram=300, inputs=(q, k, v)).output
    one = simulate("flash2", problem_of(q[1, 2], k[1, 2], v[1, 2]), sram=300, inputs=(q[1, 2], k[1, 2], v[1, 2])).output
    assert many is not None
    assert one is not None
    assert np.array_equal(many[1, 2], one)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_seed_decides_the_numbers_and_nothing_else(kernel: str) -> None:
    first, again, other = (simulate(kernel, SMALL, sram=5000, overflow="record", seed=seed).values for seed in (1, 1, 2))
    for name, values in first.items():
        assert np.array_equal(values, again[name])
        assert not np.array_equal(values, other[name])


@pytest.mark.parametrize("dtype", dtypes.NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bytes_are_words_times_the_width_of_each_array(kernel: str, dtype: str) -> None:
    report = simulate(kernel, Attention(n=40, d=8, dtype=dtype, causal=True), sram="64KiB")
    widths = {name: array.itemsize for name, array in report.arrays.items()}
    element = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 1)
    assert {widths[name] for name in ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV") if name in widths} == {element}
    assert widths.get("LSE", widths.get("l", max(4, element))) == max(4, element)
    assert report.bytes == sum((a.reads + a.writes) * widths[name] for name, a in report.arrays.items())
    assert report.sound


def test_a_record_is_json_with_exact_integers() -> None:
    report = simulate("flash", Attention(n=2**20, d=64, heads=64), sram=98304)
    record = json.loads(json.dumps(report.record()))
    assert record["total"] == report.total > 2**40
    assert record["max_error"] is None
    assert record["reads"] + record["writes"] == record["predicted_reads"] + record["predicted_writes"] == record["total"]
    assert sum(a["reads"] for a in record["arrays"].values()) == record["reads"]
    assert "counted, not executed" in repr(report)


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        *((kernel, what) for kernel in FORWARD for what in ("O", "LSE") if (kernel, what) != ("standard", "LSE")),
        *((kernel, what) for kernel in dict.fromkeys(BACKWARD.values()) for what in ("dQ", "dK", "dV")),
    ],
)
@pytest.mark.parametrize("head", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_one_wrong_head_is_enough(kernel: str, head: int, what: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = judge.execute

    def spoiled(*args: Any, **options: Any) -> judge.Execution:
        run = made(*args, **options)
        run.found[head][what] = np.full_like(run.found[head][what], np.nan)
        return run

    q = np.random.default_rng(0).standard_normal((3, 1, 6, 4)).astype(dtype)
    inputs = (q, q, q) if kernel in FORWARD else (q, q, q, q)
    assert simulate(kernel, problem_of(q, q, q), sram=900, inputs=inputs).sound
    monkeypatch.setattr(judge, "execute", spoiled)
    assert not simulate(kernel, problem_of(q, q, q), sram=900, inputs=inputs).sound


def test_a_peak_that_theory_or_the_replay_does_not_share_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan("flash2", SMALL, 2000, "fit", None, {})
    counts = plan.count()
    assert judge.replayed_equal(plan, counts)
    assert not judge.replayed_equal(plan, replace(counts, peak_sram=counts.peak_sram + 1))
    fewer = {**counts.arrays, "K": replace(counts.arrays["K"], reads=counts.arrays["K"].reads - 1)}
    assert not judge.replayed_equal(plan, replace(counts, arrays=fewer))
    monkeypatch.setattr(predict, "residents", lambda *_: counts.peak_sram + 1)
    assert simulate("flash2", SMALL, sram=2000).agreed == {"executed": True, "predicted": False, "replayed": True}


def test_a_row_of_scores_that_just_fits_is_kept_whole() -> None:
    long = Attention(n=100, d=1)
    assert [make_plan("standard", long, size, "fit", None, {}).options.softmax for size in (100, 99)] == ["rows", "streamed"]
    half = Attention(n=100, d=1, dtype="float16")
    assert [make_plan("standard", half, size, "fit", None, {}).options.softmax for size in ("200B", "199B")] == ["rows", "streamed"]


def test_a_bad_element_is_named_with_its_head() -> None:
    q = np.zeros((1, 2, 3, 4))
    q[0, 1, 2, 3] = np.inf
    with pytest.raises(BadInput, match=r"head 1: Q\[2, 3\] is inf"):
        simulate("flash2", problem_of(q, q, q), sram=900, inputs=(q, np.zeros_like(q), np.zeros_like(q)))


def test_compare_lists_what_cannot_run_with_its_reason() -> None:
    problem = Attention(n=64, d=8)
    ways = [Options(softmax=str(softmax)) for softmax in SOFTMAX.choices]
    needed = {name: min(predict.smallest_sram(name, problem, way) for way in ways) for name in FORWARD}
    found = compare(problem, sram=min(needed.values()), execute=False)
    assert [report.kernel for report in found] == [name for name in FORWARD if needed[name] == min(needed.values())]
    assert set(found.refused) == {name for name in FORWARD if needed[name] > min(needed.values())} != set()
    assert "smallest SRAM" in repr(found)


def test_an_option_applies_to_the_kernels_that_have_it() -> None:
    found = {report.kernel: report for report in compare(SMALL, sram=2000, first_pass="create")}
    assert found["flash"].arrays["O"].init_writes == 0
    assert found["flash2"].total == simulate("flash2", SMALL, sram=2000).total
    with pytest.raises(BadInput, match="none of standard, flash2 has an option 'first_pass'"):
        compare(SMALL, ["standard", "flash2"], first_pass="create")


def test_an_executor_gives_the_same_records() -> None:
    problem = Attention(n=256, d=16, causal=True)
    sizes: list[Capacity | int | str] = [600, 2000, "16KiB"]
    here = sweep(problem, n=[64, 256], sram=sizes)
    with ThreadPoolExecutor(2) as threads:
        assert sweep(problem, n=[64, 256], sram=sizes, executor=threads) == here
    with ProcessPoolExecutor(2) as processes:
        assert sweep(problem, n=[64, 256], sram=sizes, executor=processes) == here
    assert len(here) == 2 * 3 * len(FORWARD)


def test_a_sweep_tells_where_a_kernel_does_not_fit_and_reports_progress() -> None:
    seen: list[tuple[int, int]] = []
    poor, rich = sweep(SMALL, ["flash"], sram=[20, 2000], progress=lambda done, of: seen.append((done, of)))
    assert poor["total"] is None
    assert "smallest SRAM" in str(poor["error"])
    assert (rich["error"], seen) == (None, [(1, 2), (2, 2)])
    assert poor.keys() == rich.keys()


def test_nk_follows_n_in_a_sweep_only_where_it_was_equal() -> None:
    assert [record["nk"] for record in sweep(SMALL, ["flash2"], sram=2000, n=[10, 20])] == [10, 20]
    assert [record["nk"] for record in sweep(Attention(n=50, nk=7, d=8), ["flash2"], sram=2000, n=[10, 20])] == [7, 7]
    with pytest.raises(BadInput, match="cannot be swept over n"):
        sweep(Attention(n=4, d=1, mask=np.ones((4, 4), bool)), ["flash2"], n=[2])


def test_a_trace_as_json_lines_is_what_the_replayer_reads(sealed: Callable[[Sequence[Event]], str]) -> None:
    events = [json.loads(text) for text in sealed(trace("flash", SMALL, sram=2000)).splitlines()]
    seen = replay(events, sram=2000)
    report = simulate("flash", SMALL, sram=2000)
    assert (seen.reads, seen.writes, seen.peak_words) == (report.reads, report.writes, report.peak_sram)
    assert next(asdict(event) for event in trace("flash", SMALL, sram=2000))["kind"] == events[0]["kind"] == "input"


@given(st.integers(0, 2**32), st.sampled_from(sorted(KERNELS)))
def test_random_cases_are_valid_and_repeatable(seed: int, kernel: str) -> None:
    one, two = (random_case(np.random.default_rng(seed), kernel) for _ in range(2))
    assert repr(one) == repr(two)
    assert 1 <= one.blocks.rows <= 96
    assert set(one.options) <= set(KERNELS[kernel].has)


def test_random_inputs_are_frozen_and_of_the_problems_dtype() -> None:
    values = random_inputs(Attention(n=3, nk=5, d=2, dv=4, dtype="float16"))
    assert {name: array.shape for name, array in values.items()} == {"Q": (3, 2), "K": (5, 2), "V": (5, 4)}
    assert all(str(array.dtype) == "float16" and not array.flags.writeable for array in values.values())
