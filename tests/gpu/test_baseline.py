from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput, MissingExtra
from iosim.core.masks import BlockMask
from iosim_gpu import baseline, judge
from iosim_gpu.case import Case
from iosim_gpu.check import error_of
from iosim_reference import attention, lse_bound, output_bound

sizes = st.integers(1, 40)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A problem of any shape, causal or not, with a block mask or without; its tiles are the oracle's, one for all keys."""
    n, nk = draw(sizes), draw(sizes)
    plain = {"d": draw(st.integers(1, 24)), "threads": 8, "nk": nk, "batch": draw(st.integers(1, 2)), "causal": draw(st.booleans())}
    seed = draw(st.integers(0, 2**31))
    if draw(st.booleans()):
        return Case("standard", n, rows=n, cols=nk, seed=seed, **plain)  # type: ignore[arg-type]
    rows, cols = draw(st.integers(1, n)), draw(st.integers(1, nk))
    kept = draw(st.lists(st.booleans(), min_size=(size := -(-n // rows) * -(-nk // cols)), max_size=size))
    mask = BlockMask.from_dense(np.reshape(kept, (-(-n // rows), -(-nk // cols))), n, nk, rows, cols)
    return Case("block-sparse", n, rows=rows, cols=cols, mask=mask, seed=seed, **plain)  # type: ignore[arg-type]


def run(case: Case, xp: Any) -> tuple[Any, Any]:
    return baseline.prepared(case, judge.inputs(case), xp)()


@given(cases())
def test_it_is_right_to_what_float32_keeps(case: Case) -> None:
    right, bounds = judge.truth(case, judge.inputs(case))
    output, lse = run(case, np)
    assert output.dtype == lse.dtype == np.float32
    assert error_of(output, right["O"]) <= bounds["O"]
    assert error_of(lse, right["LSE"]) <= bounds["LSE"]


@given(cases())
def test_it_asks_nothing_that_the_array_api_standard_does_not_have(case: Case) -> None:
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    here, there = run(case, np), run(case, strict)
    for one, other in zip(here, there, strict=True):
        assert type(other) is type(strict.ones(1))
        np.testing.assert_array_equal(one, np.asarray(other), strict=True)


@given(st.integers(0, 2**31), sizes, sizes, st.booleans())
def test_it_computes_in_the_type_of_its_arrays(seed: int, n: int, nk: int, causal: bool) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((n, 5)), rng.standard_normal((nk, 5)), rng.standard_normal((nk, 3))
    right, (output, lse) = attention(q, k, v, causal=causal, scale=0.3), baseline.standard(q, k, v, 0.3, causal=causal)
    product = 0.3 * np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max()
    assert error_of(output, right.output) <= 2 * output_bound(right.max_score, nk, nk, float(np.abs(v).max()), "float64")
    assert error_of(lse, right.lse) <= 2 * lse_bound(float(product), nk, nk, "float64")


def test_causal_is_aligned_at_the_last_query_and_the_last_key() -> None:
    zeros, values = np.zeros((2, 1)), np.asarray([[1.0], [2.0], [6.0]])
    output, lse = baseline.standard(zeros, np.zeros((3, 1)), values, 1.0, causal=True)
    assert output.ravel().tolist() == [1.5, 3.0]
    np.testing.assert_allclose(lse, np.log([2.0, 3.0]), rtol=1e-15)


def test_a_query_that_may_attend_to_nothing_gives_0_and_minus_infinity() -> None:
    output, lse = baseline.standard(np.ones((3, 1)), np.ones((1, 1)), np.ones((1, 1)), 1.0, causal=True)
    assert output.ravel().tolist() == [0.0, 0.0, 1.0]
    assert lse.tolist() == [-np.inf, -np.inf, 1.0]


def test_large_scores_do_not_overflow() -> None:
    big = np.full((2, 1), 200.0, np.float32)
    output, lse = baseline.standard(big, big, np.asarray([[1.0], [3.0]], np.float32), 1.0)
    assert output.ravel().tolist() == [2.0, 2.0]
    np.testing.assert_allclose(lse, 40000 + np.log(2), rtol=2**-23)


def test_arrays_that_do_not_name_their_library_are_of_the_package_that_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("cupylike")
    monkeypatch.setitem(sys.modules, "cupylike", package)
    silent = type("ndarray", (), {"__module__": "cupylike._core.core"})
    assert baseline.namespace(silent()) is package
    assert baseline.namespace(np.ones(1)) is np


class NoDevice(RuntimeError):
    """As which CuPy's CUDARuntimeError counts."""


def fake_cupy(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> ModuleType:
    def count() -> int:
        if error is not None:
            raise error
        return 1

    package: Any = ModuleType("cupy")
    package.__version__, package.cuda = "14.2.0", SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count))
    monkeypatch.setitem(sys.modules, "cupy", package)
    return package  # type: ignore[no-any-return]


def test_cupy_that_is_absent_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtra, match=r'^the baseline needs CuPy, .*; pip install "iosim\[cupy\]"$'):
        baseline.cupy()


@pytest.mark.parametrize("error", [OSError("libcudart.so.13: no such file"), AttributeError("half an\ninstallation"), ImportError("x")])
def test_cupy_that_is_broken_counts_as_absent(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(baseline, "import_module", broken)
    with pytest.raises(MissingExtra, match="does not load here") as raised:
        baseline.cupy()
    assert "\n" not in str(raised.value)


def test_cupy_without_a_device_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy(monkeypatch, NoDevice("cudaErrorInsufficientDriver: CUDA driver version is insufficient"))
    with pytest.raises(BadInput, match=r"^CuPy 14.2.0 finds no GPU \(NoDevice: cudaErrorInsufficientDriver: .*\)$"):
        baseline.cupy()


def test_cupy_that_works_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    package = fake_cupy(monkeypatch)
    assert baseline.cupy() is package


def test_gpu_seconds_are_those_of_the_device_not_of_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    def benchmark(func: Any, *, n_repeat: int, n_warmup: int, name: str, max_duration: float) -> SimpleNamespace:
        for _ in range(n_warmup + n_repeat):
            func()
        return SimpleNamespace(cpu_times=np.ones(n_repeat), gpu_times=np.asarray([[0.25] * n_repeat]))

    fake_cupy(monkeypatch)
    profiler: Any = ModuleType("cupyx.profiler")
    profiler.benchmark = benchmark
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    monkeypatch.setitem(sys.modules, "cupyx.profiler", profiler)
    ran: list[int] = []
    assert baseline.benchmark(lambda: ran.append(1), repeats=3, seconds=1.0) == [0.25] * 3
    assert len(ran) == 4


def test_importing_the_baseline_imports_neither_cupy_nor_numba() -> None:
    code = "import sys, iosim_gpu.baseline, iosim_gpu.bench; sys.exit(bool({'cupy', 'numba'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
