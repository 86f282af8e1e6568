"""The time model: exact where it is arithmetic, and held against published times where it is calibrated."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.hardware import DEVICES, device
from iosim.predict.roofline import LEFT_OUT, Time, occupancy, roofline

A100 = device("a100-40gb")
HEADS, D = 128, 64  # of the benchmarks in the FlashAttention paper, Appendix E: batch 16, 8 heads


def time(name: str = "a100-40gb", /, **asked: Any) -> Time:
    return roofline(device(name), **{"read_bytes": 0, "write_bytes": 0, "matmul_flops": 0, "other_flops": 0, **asked})


def test_memory_time_is_bytes_over_sustained_bandwidth() -> None:
    made = time(read_bytes=10**12, write_bytes=10**9, sustained_bandwidth=1e12)
    assert (made.moved, made.memory, made.compute, made.seconds, made.bound) == (1_001_000_000_000, 1.001, 0.0, 1.001, "memory")
    assert time(read_bytes=155_500 * 65).memory == 155_500 * 65 / 1_010_750_000_000


def test_compute_time_is_flops_over_sustained_rate() -> None:
    made = time(matmul_flops=5 * 10**13, sustained_rate=1e14)
    assert (made.memory, made.matmul, made.compute, made.bound, made.occupancy) == (0.0, 0.5, 0.5, "compute", 1.0)
    assert time(matmul_flops=11 * 10**13).seconds == 1.0


def test_the_sustained_values_are_stated_fractions_of_peak() -> None:
    made = time()
    assert (made.bandwidth, made.matmul_rate) == (1.01075e12, 1.1e14)
    for name in DEVICES:
        made = time(name)
        assert Fraction(made.bandwidth) == Fraction(65, 100) * device(name).bandwidth
        assert math.isclose(made.matmul_rate, device(name).fp16_tensor_rate * 110 / 312, rel_tol=2**-52)
        assert math.isclose(made.other_rate, device(name).fp32_rate * 110 / 312, rel_tol=2**-52)


@pytest.mark.parametrize(("grid", "busy"), [(1, Fraction(1, 108)), (107, Fraction(107, 108)), (108, 1), (109, Fraction(109, 216)),
                                            (128, Fraction(16, 27)), (216, 1), (1024, Fraction(1024, 1080))])  # fmt: skip
def test_waves_leave_sms_idle(grid: int, busy: Fraction) -> None:
    assert occupancy(grid, 108) == float(busy)
    work = {"read_bytes": 10**12, "matmul_flops": 11 * 10**13, "other_flops": 10**12}
    made, whole = time(grid=grid, **work), time(**work)
    assert made.matmul == 11 * 10**13 / (1.1e14 * float(busy))
    assert (made.other >= whole.other, made.memory) == (True, whole.memory)


@given(st.integers(1, 10**6), st.integers(1, 300))
def test_occupancy_is_the_share_of_busy_sms_over_all_waves(grid: int, sms: int) -> None:
    waves = [min(sms, grid - start) for start in range(0, grid, sms)]
    assert sum(waves) == grid
    assert occupancy(grid, sms) == float(Fraction(grid, sms * len(waves)))
    assert 0 < occupancy(grid, sms) <= 1
    assert (occupancy(grid, sms) == 1) == (grid % sms == 0)


def test_tensor_cores_work_beside_the_others_and_float32_shares_its_cores() -> None:
    work = {"matmul_flops": 4 * 10**12, "other_flops": 10**12, "read_bytes": 5}
    half, single = time(**work), time(dtype="float32", **work)
    assert half.compute == max(half.matmul, half.other) < half.matmul + half.other
    assert single.compute == single.matmul + single.other
    assert single.matmul_rate == single.other_rate == half.other_rate == 6.875e12
    assert single.matmul == 4 * single.other
    assert time(dtype="float32", sustained_rate=1e13, **work).compute == 0.5
    assert time(sustained_rate=1e13, **work).other == half.other


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_other_narrow_types_are_taken_for_float16(dtype: str) -> None:
    assert time(dtype=dtype, matmul_flops=10**12).seconds == time(matmul_flops=10**12).seconds


def test_float64_needs_a_rate() -> None:
    with pytest.raises(BadInput, match="no rate of float64 is known for a100-40gb; give sustained_rate in flop/s"):
        time(dtype="float64", matmul_flops=10**12)
    made = time(dtype="float64", matmul_flops=10**12, other_flops=10**12, sustained_rate=1e12)
    assert made.seconds == 2.0


@given(*[st.integers(0, 10**15)] * 4, st.none() | st.integers(1, 10**4), st.sampled_from(DEVICES), st.sampled_from(["float16", "float32"]))
def test_the_slower_side_binds_and_more_work_is_never_faster(
    read: int, write: int, matmul: int, other: int, grid: int | None, name: str, dtype: str
) -> None:
    work = {"read_bytes": read, "write_bytes": write, "matmul_flops": matmul, "other_flops": other}
    made = time(name, grid=grid, dtype=dtype, **work)
    assert made.seconds == max(made.memory, made.compute) == (made.memory if made.bound == "memory" else made.compute)
    assert made.compute >= max(made.matmul, made.other)
    for part, amount in work.items():
        assert time(name, grid=grid, dtype=dtype, **{**work, part: amount + 10**12}).seconds >= made.seconds


# FlashAttention paper v2, Tables 18, 19 and 20 (no dropout, no mask), the row of FlashAttention, in ms. Operations are a N^2 d, and
# bytes those of the paper's own count, b Tc + c passes over N x d halves in key tiles of 256.
FLASH = {
    "fwd": (4, 3, 1, {4096: 8.42, 8192: 33.54, 16384: 134.03, 32768: 535.95, 65536: 2147.05}),
    "bwd": (10, 4, 4, {4096: 21.57, 8192: 84.75, 16384: 336.00, 32768: 1338.56, 65536: 5343.19}),
    "fwd+bwd": (14, 7, 5, {4096: 30.09, 8192: 118.50, 16384: 470.51, 32768: 1876.08, 65536: 7492.85}),
}


@pytest.mark.parametrize("pass_", FLASH)
def test_flash_attention_is_predicted_from_its_waves(pass_: str) -> None:
    """128 blocks on 108 SMs keep 64/108 of them busy; rounded to a thousandth, no time is further off than these bounds."""
    a, b, c, published = FLASH[pass_]
    for n, milliseconds in published.items():
        made = time(read_bytes=2 * n * D * HEADS * (b * n // 256 + c), matmul_flops=a * n * n * D * HEADS, grid=HEADS)
        assert made.bound == "compute"
        assert 0.977 <= round(made.seconds * 1e3 / milliseconds, 3) <= 1.010
    assert round(110 * made.occupancy, 1) == 65.2


# The same tables, the row of PyTorch Attention: words are (a N^2 + b N d) of 2 bytes.
STANDARD = {
    "fwd": (4, 4, {1024: 1.27, 2048: 4.32, 4096: 16.47}),
    "bwd": (7, 8, {1024: 2.44, 2048: 8.82, 4096: 33.87}),
    "fwd+bwd": (11, 12, {1024: 3.67, 2048: 13.22, 4096: 50.44}),
}


@pytest.mark.parametrize("pass_", STANDARD)
def test_standard_attention_is_predicted_from_its_bytes(pass_: str) -> None:
    a, b, published = STANDARD[pass_]
    flops = {"fwd": 4, "bwd": 8, "fwd+bwd": 12}[pass_]
    for n, milliseconds in published.items():
        made = time(read_bytes=(a * n * n + b * n * D) * 2 * HEADS, matmul_flops=flops * n * n * D * HEADS)
        assert made.bound == "memory"
        assert abs(made.seconds * 1e3 / milliseconds - 1) <= (0.15 if n >= 2048 else 0.20)  # as BANDWIDTH_CALIBRATION says


def test_what_is_assumed_and_left_out_is_said() -> None:
    here = time()
    doubts = {
        ("a100-40gb", "float16"): [0, 0, 0],
        ("a100-40gb", "float32"): [0, 1, 0],
        ("a100-80gb", "float16"): [1, 0, 0],
        ("h100", "float16"): [1, 1, 0],
        ("t4", "float32"): [1, 1, 0],
    }
    for (name, dtype), expected in doubts.items():
        assumed = time(name, dtype=dtype).assumed
        assert [text.count("only assumed") for text in assumed] == expected
        assert [f"for {dtype} on {name} it is" in text for text in assumed] == [False, bool(expected[1]), False]
    assert time(dtype="bfloat16").assumed == here.assumed
    assert len(time(sustained_bandwidth=1e12, sustained_rate=1e14).assumed) == 1
    assert here.left_out == LEFT_OUT
    for word in ("launch latency", "L2", "exponentials", "overlap"):
        assert any(word in text for text in LEFT_OUT)


def test_its_repr_is_a_table_with_the_reasons() -> None:
    made = time(read_bytes=10**10, write_bytes=7 * 10**9, matmul_flops=4 * 4096**2 * D * HEADS, other_flops=7 * 4096**2 * 128, grid=128)
    assert repr(made).split("\n\n")[:2] == [
        "a100-40gb, float16: 16.8 ms, bound by memory",
        """\
              work     sustained  occupancy    ms
──────  ──────────  ────────────  ─────────  ────
memory     17.0 GB     1.01 TB/s          –  16.8
matmul   550 GFLOP   110 TFLOP/s      0.593  8.43
other   15.0 GFLOP  6.88 TFLOP/s      0.593  3.69""",
    ]
    assert max(map(len, repr(made).splitlines())) <= 100
    assert " ".join(repr(made).split()).count("left out: ") == len(LEFT_OUT)
    assert "0 FLOP" in repr(time(read_bytes=5))
    assert "5 B " in repr(time(read_bytes=5))


REFUSED: dict[str, dict[str, object]] = {
    "read_bytes must be a whole number >= 0, not -1": {"read_bytes": -1},
    "write_bytes must be a whole number >= 0, not 1.5": {"write_bytes": 1.5},
    "matmul_flops must be a whole number >= 0, not None": {"matmul_flops": None},
    "other_flops must be a whole number >= 0, not True": {"other_flops": True},
    "grid must be a whole number >= 1, not 0": {"grid": 0},
    "sustained_bandwidth must be a number above 0, in base units such as 1.01e12, not 0": {"sustained_bandwidth": 0},
    "sustained_rate must be a number above 0, in base units such as 1.01e12, not nan": {"sustained_rate": math.nan},
    "sustained_rate must be a number above 0, in base units such as 1.01e12, not inf": {"sustained_rate": math.inf},
    "sustained_rate must be a number above 0, in base units such as 1.01e12, not '1e14'": {"sustained_rate": "1e14"},
    "sustained_bandwidth must be a number above 0, in base units such as 1.01e12, not True": {"sustained_bandwidth": True},
    "unknown dtype 'half'": {"dtype": "half"},
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(told: str) -> None:
    with pytest.raises(BadInput) as error:
        time(**REFUSED[told])
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)
