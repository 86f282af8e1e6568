"""A roofline: how long a kernel takes, from the bytes it moves and the operations it does."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from fractions import Fraction

from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.hardware import Device
from iosim.core.tables import Cell, table, words
from iosim.core.units import whole

BANDWIDTH_SUSTAINED = Fraction(65, 100)
RATE_SUSTAINED = Fraction(110, 312)

BANDWIDTH_CALIBRATION = (
    "65 % of peak: what the unmasked PyTorch and Megatron rows of the FlashAttention paper's Tables 15 to 20 sustain on the A100-40GB, "
    "within 15 % from N = 2048 on and 20 % at 1024"
)
RATE_CALIBRATION = (
    "110/312 of peak: what FlashAttention-1 sustains at d = 64 on the A100 where its blocks fill the device (FlashAttention-2 paper, "
    "forward and backward); FlashAttention-2 reaches 176 TFLOP/s at d = 64 and 203 at d = 128 there"
)
BANDWIDTH_CALIBRATED_ON = ("a100-40gb",)
RATE_CALIBRATED_ON = ("a100-40gb", "a100-80gb")

LEFT_OUT = (
    "launch latency: on an A100 it dominates the attention of N <= 256",
    "the L2 cache: what is found there again is charged to HBM again",
    "exponentials and logarithms, which have units of their own: other_flops counts each as one operation",
    "imperfect overlap: loads and stores, matrix products and the rest are taken to hide behind the slowest of them",
    "few blocks: waves slow the arithmetic, but a part of the SMs is taken to draw the whole bandwidth",
    "bank conflicts, spilled registers, sector granularity and clocks that fall under load",
)


@dataclass(frozen=True, slots=True, repr=False)
class Time:
    """Seconds, side by side: ``memory``, ``matmul``, ``other`` and what follows from them.

    ``bandwidth`` (bytes/s), ``matmul_rate`` and ``other_rate`` (flop/s) are the sustained values, before waves; ``occupancy`` is the part
    of the SMs that the grid keeps busy on average. ``shared_cores`` says that matrix products and the rest run on the same cores, so that
    their times add; on tensor cores the products run beside the rest. ``assumed`` says where the sustained values come from.
    """

    device: Device
    dtype: str
    moved: int
    matmul_flops: int
    other_flops: int
    grid: int | None
    bandwidth: float
    matmul_rate: float
    other_rate: float
    shared_cores: bool
    assumed: tuple[str, ...]
    left_out: tuple[str, ...] = LEFT_OUT

    @property
    def occupancy(self) -> float:
        """1 without a grid."""
        return 1.0 if self.grid is None else occupancy(self.grid, self.device.sms)

    @property
    def memory(self) -> float:
        """Seconds that the bytes take."""
        return self.moved / self.bandwidth

    @property
    def matmul(self) -> float:
        """Seconds that the matrix products take."""
        return self.matmul_flops / (self.matmul_rate * self.occupancy)

    @property
    def other(self) -> float:
        """Seconds that all other operations take."""
        return self.other_flops / (self.other_rate * self.occupancy)

    @property
    def compute(self) -> float:
        """Seconds that the arithmetic takes."""
        return self.matmul + self.other if self.shared_cores else max(self.matmul, self.other)

    @property
    def seconds(self) -> float:
        """The slower of the two sides."""
        return max(self.memory, self.compute)

    @property
    def bound(self) -> str:
        """The side that binds: "memory" or "compute"."""
        return "memory" if self.memory >= self.compute else "compute"

    def __repr__(self) -> str:
        rows: list[list[Cell]] = [
            ["memory", _spelled(self.moved, "B"), _spelled(self.bandwidth, "B/s"), None, self.memory * 1e3],
            ["matmul", _spelled(self.matmul_flops, "FLOP"), _spelled(self.matmul_rate, "FLOP/s"), self.occupancy, self.matmul * 1e3],
            ["other", _spelled(self.other_flops, "FLOP"), _spelled(self.other_rate, "FLOP/s"), self.occupancy, self.other * 1e3],
        ]
        head = ["", "work", "sustained", "occupancy", "ms"]
        title = f"{self.device.key}, {self.dtype}: {self.seconds * 1e3:.3g} ms, bound by {self.bound}"
        notes = [*(f"assumed: {text}" for text in self.assumed), *(f"left out: {text}" for text in self.left_out)]
        return "\n".join([title, "", table(head, rows, right=head[1:]), "", *map(_wrapped, notes)])


def roofline(
    device: Device, *, read_bytes: int, write_bytes: int, matmul_flops: int, other_flops: int, dtype: str = "float16",
    grid: int | None = None, sustained_bandwidth: float | None = None, sustained_rate: float | None = None,
) -> Time:  # fmt: skip
    """The time of one kernel on ``device``: that of its bytes or that of its arithmetic, whichever is longer.

    ``matmul_flops`` counts a multiplication and an addition as two. Matrix products of 2-byte types run on the tensor cores, beside all
    other operations. Assumed for other types: bfloat16 and float8 are as fast as float16 everywhere; float32 runs on the float32 cores
    (no TF32), which it shares with all other operations; no rate is known for float64.

    ``grid`` is the number of thread blocks, one an SM at a time (FlashAttention-1 launches one per batch and head); they run in waves, the
    last of which may leave SMs idle. ``sustained_bandwidth`` in bytes/s and ``sustained_rate`` in flop/s of the matrix products replace
    the fractions of peak that were calibrated on the A100. What is assumed and what is left out stands in the result, in words.

    Raises :class:`BadInput` for a count below 0, a rate or a grid that is not above 0, and float64 without a ``sustained_rate``.

    >>> from iosim.core.hardware import device
    >>> a100, flops = device("a100-40gb"), 4 * 4096**2 * 64 * 128
    >>> time = roofline(a100, read_bytes=0, write_bytes=0, matmul_flops=flops, other_flops=0, grid=128)
    >>> round(time.seconds * 1e3, 2), time.bound  # published: 8.42 ms (FlashAttention paper, Table 18)
    (8.43, 'compute')
    """
    tensor = dtypes.itemsize(dtype) <= 2
    peak = device.fp16_tensor_rate if tensor else device.fp32_rate
    other = _fraction(device.fp32_rate, RATE_SUSTAINED)
    if dtypes.itemsize(dtype) > 4 and sustained_rate is None:
        raise BadInput(f"no rate of {dtype} is known for {device.key}; give sustained_rate in flop/s")
    rate = _given("sustained_rate", sustained_rate, _fraction(peak, RATE_SUSTAINED))
    return Time(
        device=device, dtype=dtype, moved=whole("read_bytes", read_bytes, 0) + whole("write_bytes", write_bytes, 0),
        matmul_flops=whole("matmul_flops", matmul_flops, 0), other_flops=whole("other_flops", other_flops, 0),
        grid=None if grid is None else whole("grid", grid),
        bandwidth=_given("sustained_bandwidth", sustained_bandwidth, _fraction(device.bandwidth, BANDWIDTH_SUSTAINED)),
        matmul_rate=rate, other_rate=other if tensor else rate, shared_cores=not tensor,
        assumed=_assumed(device, dtype, sustained_bandwidth, sustained_rate),
    )  # fmt: skip


def occupancy(grid: int, sms: int) -> float:
    """The part of the SMs that ``grid`` blocks keep busy on average, in waves of one block an SM: (grid / sms) / ceil(grid / sms).

    >>> occupancy(108, 108), round(occupancy(128, 108), 3)
    (1.0, 0.593)
    """
    return whole("grid", grid) / (whole("sms", sms) * -(-grid // sms))


def _fraction(peak: int, sustained: Fraction) -> float:
    return float(peak * sustained)


def _given(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadInput(f"{name} must be a number above 0, in base units such as 1.01e12, not {value!r}")
    return float(value)


def _assumed(device: Device, dtype: str, bandwidth: float | None, rate: float | None) -> tuple[str, ...]:
    """Where the sustained values come from."""
    texts = []
    if bandwidth is None:
        texts.append(f"bandwidth {BANDWIDTH_CALIBRATION}{_elsewhere(device, device.key in BANDWIDTH_CALIBRATED_ON)}")
    if rate is None:
        calibrated = device.key in RATE_CALIBRATED_ON and dtypes.itemsize(dtype) == 2
        texts.append(f"rate {RATE_CALIBRATION}{_elsewhere(device, calibrated, dtype)}")
    return (*texts, "other operations run at the same part of the float32 peak; nothing calibrates that")


def _elsewhere(device: Device, calibrated: bool, dtype: str = "") -> str:
    return "" if calibrated else f"; for {f'{dtype} on ' if dtype else ''}{device.key} it is only assumed"


def _spelled(count: float, unit: str) -> str:
    text = words(count)
    return text + unit if text[-1].isalpha() else f"{text} {unit}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
