"""Small kernels compiled by Numba for two architectures and run by the emulator: what NumPy says, and the counts that one expects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from iosim_gpu.compiling import declared
from iosim_gpu.ptx import Access, KernelFault, Run, UnsupportedPtx, emulate

pytestmark = pytest.mark.needs_compiler

Kernel = Callable[..., None]
Maker = Callable[[Any], Kernel]  # of Numba's cuda module, which is imported as late as possible

bothways = pytest.mark.parametrize("arch", [(8, 0), (9, 0)], ids=["sm_80", "sm_90"])


@cache
def _compiled(make: Maker, kinds: tuple[tuple[str, int], ...], arch: tuple[int, int], *, fast: bool) -> str:
    from iosim_gpu.cuda import cuda, types

    signature = tuple(getattr(types, name) if rank == 0 else types.Array(getattr(types, name), rank, "C") for name, rank in kinds)
    return str(cuda.compile_ptx(make(cuda), signature, cc=arch, fastmath=fast)[0])


def _text(make: Maker, arch: tuple[int, int], *values: Any, fast: bool = False) -> str:
    arrays = [np.asarray(value) for value in values]
    kinds = tuple(("boolean" if a.dtype == np.bool_ else a.dtype.name, a.ndim) for a in arrays)
    return _compiled(make, kinds, arch, fast=fast)


def _run(
    make: Maker, arch: tuple[int, int], threads: int, values: Sequence[Any], *, blocks: int = 1, fast: bool = False, dynamic_shared: int = 0
) -> Run:
    args = [(f"a{i}", value) for i, value in enumerate(values)]
    text = _text(make, arch, *values, fast=fast)
    return emulate(text, grid=(blocks, 1), threads=threads, args=args, dynamic_shared=dynamic_shared)


def _saxpy(cuda: Any) -> Kernel:
    def kernel(a: Any, x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = a * x[i] + y[i]

    return kernel


@bothways
def test_a_ragged_vector(arch: tuple[int, int]) -> None:
    n = 150
    x, y = np.linspace(-3, 3, n, dtype=np.float32), np.ones(n, np.float32)
    a = np.float32(1.1)
    expected = (np.float64(a) * x + y).astype(np.float32)  # fused
    run = _run(_saxpy, arch, 64, [a, x, y], blocks=3)
    assert np.array_equal(y, expected)
    sectors, requests = math.ceil(n * 4 / 32), math.ceil(n / 32)
    assert run.arrays["a1"] == Access(loads=n, load_sectors=sectors, load_requests=requests)
    assert run.arrays["a2"] == Access(n, n, 0, sectors, sectors, 0, requests, requests, 0)


def _whole_numbers(cuda: Any) -> Kernel:
    def kernel(a: Any, b: Any, quotient: Any, rest: Any, mixed: Any) -> None:
        i = cuda.grid(1)
        quotient[i] = a[i] // b[i]
        rest[i] = a[i] % b[i]
        mixed[i] = ((a[i] << 3) ^ (b[i] >> 1)) * a[i] - abs(b[i]) // 10 + a[i] % 7

    return kernel


@bothways
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_whole_numbers(arch: tuple[int, int], dtype: type[np.signedinteger[Any] | np.unsignedinteger[Any]]) -> None:
    chance = np.random.default_rng(0)
    low = 0 if dtype is np.uint32 else -1000
    a, b = chance.integers(low, 1000, 96).astype(dtype), chance.integers(low, 60, 96).astype(dtype)
    b[b == 0] = 7
    quotient, rest, mixed = (np.zeros(96, dtype) for _ in range(3))
    _run(_whole_numbers, arch, 48, [a, b, quotient, rest, mixed], blocks=2)
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    assert np.array_equal(quotient, a // b)
    assert np.array_equal(rest, a % b)
    expected = ((wide_a << 3) ^ (wide_b >> 1)) * wide_a - abs(wide_b) // 10 + wide_a % 7
    assert np.array_equal(mixed, expected.astype(dtype))


def _functions(cuda: Any) -> Kernel:
    def kernel(x: Any, out: Any) -> None:
        i = cuda.threadIdx.x
        v = x[i]
        out[0, i] = math.exp(v)
        out[1, i] = math.log(v)
        out[2, i] = math.sqrt(v)
        out[3, i] = x[0] / v
        out[4, i] = max(v, x[1])
        out[5, i] = min(v, x[1])
        out[6, i] = math.floor(v)
        out[7, i] = abs(x[2] - v)
        out[8, i] = int(v)

    return kernel


@bothways
@pytest.mark.parametrize("fast", [False, True])
def test_functions_of_floats(arch: tuple[int, int], fast: bool) -> None:
    x = np.linspace(0.1, 9, 64, dtype=np.float32)
    out = np.zeros((9, 64), np.float32)
    _run(_functions, arch, 64, [x, out], fast=fast)
    wide = x.astype(float)
    exact = [np.exp(wide), np.log(wide), np.sqrt(wide), wide[0] / wide, np.maximum(x, x[1]), np.minimum(x, x[1])]
    exact += [np.floor(wide), abs(wide[2] - wide), np.trunc(wide)]
    # exp(v) is 2^(v log2 e) with a product rounded to float32: half an ulp of up to 13, times ln 2, in the exponent.
    assert np.allclose(out, exact, rtol=1e-6, atol=2e-7)
    assert np.array_equal(out[4:7], np.array(exact[4:7], np.float32))


def _reverse(cuda: Any) -> Kernel:
    def kernel(a: Any) -> None:
        room = cuda.shared.array(0, a.dtype)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        room[t] = a[i]
        cuda.syncthreads()
        a[i] = room[cuda.blockDim.x - 1 - t]

    return kernel


@bothways
def test_dynamic_shared_memory(arch: tuple[int, int]) -> None:
    a = np.arange(120, dtype=np.float32)
    run = _run(_reverse, arch, 40, [a], blocks=3, dynamic_shared=160)
    assert np.array_equal(a.reshape(3, 40), np.arange(120).reshape(3, 40)[:, ::-1])
    assert (run.barriers, run.shared_loads, run.shared_stores) == (3, 120, 120)
    with pytest.raises(KernelFault, match="shared memory: byte 156 is outside its 156 bytes"):
        _run(_reverse, arch, 40, [a], blocks=3, dynamic_shared=156)


def _atomics(cuda: Any) -> Kernel:
    def kernel(values: Any, count: Any, total: Any, most: Any, order: Any) -> None:
        t = cuda.threadIdx.x
        cuda.atomic.add(count, t % 3, 1)
        cuda.atomic.add(total, t % 3, values[t])
        cuda.atomic.max(most, 0, values[t])  # for floats, a loop around a compare and swap
        cuda.atomic.max(count, 3, t)
        order[cuda.atomic.add(count, 4, 1)] = t

    return kernel


@bothways
def test_atomics(arch: tuple[int, int]) -> None:
    values = np.arange(70, dtype=np.float32) % 13 - 4
    count, total, most, order = np.zeros(5, np.int32), np.zeros(3, np.float32), np.full(1, -9, np.float32), np.zeros(70, np.int64)
    run = _run(_atomics, arch, 70, [values, count, total, most, order])
    assert count.tolist() == [24, 23, 23, 69, 70]
    assert np.array_equal(total, [values[i::3].sum() for i in range(3)])
    assert most[0] == values.max()
    assert sorted(order.tolist()) == list(range(70))
    assert run.arrays["a1"].atomics == 210
    assert run.arrays["a2"].atomics == 70
    assert (run.arrays["a2"].loads, run.arrays["a2"].stores) == (0, 0)


def _local(cuda: Any) -> Kernel:
    def kernel(a: Any, turns: Any) -> None:
        t = cuda.threadIdx.x
        room = cuda.local.array(8, a.dtype)
        for i in range(8):
            room[i] = i * t
        total = room[0]
        for i in range(turns):
            total += room[(i * t) % 8]
            room[(i + t) % 8] = total
        a[t] = total

    return kernel


@bothways
def test_local_memory(arch: tuple[int, int]) -> None:
    a, turns = np.zeros(20, np.float32), 9
    _run(_local, arch, 20, [a, np.int64(turns)])
    for t in range(20):
        room, total = [float(i * t) for i in range(8)], 0.0
        for i in range(turns):
            total += room[(i * t) % 8]
            room[(i + t) % 8] = total
        assert a[t] == total
    assert declared(_text(_local, arch, a, np.int64(turns)), "local") == 32


def _bytes(cuda: Any) -> Kernel:
    def kernel(small: Any, flags: Any, out: Any) -> None:
        t = cuda.threadIdx.x
        if flags[t]:
            out[t] += small[t]
        small[t] = small[t] * 3
        flags[t] = out[t] > 2

    return kernel


@bothways
def test_bytes_and_truth_values(arch: tuple[int, int]) -> None:
    small, flags = np.arange(-20, 20, dtype=np.int8), np.arange(40) % 3 == 0
    out = np.zeros(40, np.float32)
    tripled, added = small * np.int8(3), np.where(flags, small, 0)
    run = _run(_bytes, arch, 40, [small, flags, out])
    assert np.array_equal(small, tripled)
    assert np.array_equal(out, added)
    assert np.array_equal(flags, added > 2)
    assert (run.arrays["a1"].loads, run.arrays["a1"].stores) == (40, 40)


def _collatz(cuda: Any) -> Kernel:
    def kernel(out: Any) -> None:
        i = cuda.grid(1)
        n = i + 1
        steps = 0
        while n != 1:
            if n % 2:
                n = 3 * n + 1
            else:
                n //= 2
            steps += 1
        out[i] = steps

    return kernel


def _collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


@bothways
def test_threads_that_diverge(arch: tuple[int, int]) -> None:
    out = np.zeros(100, np.int64)
    run = _run(_collatz, arch, 50, [out], blocks=2)
    assert out.tolist() == [_collatz_steps(i + 1) for i in range(100)]
    assert run.arrays["a0"].stores == 100


def _one_too_far(cuda: Any) -> Kernel:
    def kernel(a: Any, b: Any) -> None:
        i, j = cuda.threadIdx.x, cuda.blockIdx.x
        b[i, j] = a[i, j] + a[i + 1, j]

    return kernel


@bothways
def test_out_of_bounds_is_found_in_compiled_code(arch: tuple[int, int]) -> None:
    values: list[NDArray[Any]] = [np.ones((5, 3), np.float32), np.zeros((5, 3), np.float32)]
    with pytest.raises(KernelFault, match=r"thread 4 of block \(0, 0\): outside a0: element 15 of 15, index \(5, 0\) of shape \(5, 3\)"):
        _run(_one_too_far, arch, 5, values, blocks=3)


def _sine(cuda: Any) -> Kernel:
    def kernel(a: Any) -> None:
        a[cuda.threadIdx.x] = math.sin(a[0])

    return kernel


@bothways
def test_what_the_emulator_does_not_know_is_refused_not_guessed(arch: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedPtx, match=r"^PTX line \d+ "):
        _run(_sine, arch, 1, [np.zeros(1)])
