"""From counted bytes and FLOPs to times: one bandwidth and one rate, fitted on ten published cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from iosim.core.errors import BadInput
from iosim.core.hardware import DEVICES, device
from iosim.predict.roofline import occupancy
from iosim.study.calibration import UNFUSED, throughput
from iosim.study.paper.counting import CREATED, IDEAL, Options, Work, asked_of, count
from iosim.study.paper.data import Data
from iosim.study.published import Cell, Setup

FLASH = "FlashAttention"
FMHA = "Apex FMHA"
KERNELS: dict[str, tuple[str, Options]] = {
    "PyTorch Attention": ("pytorch", IDEAL),
    "Megatron": ("megatron", IDEAL),
    FLASH: ("flash", CREATED),
    FMHA: ("fmha", ()),
}
FITTED_ON = 18
UNFUSED_RANGE = range(1024, 4096 + 1)  # where the bandwidth holds
FLASH_FROM = 4096  # and where the rate does


@dataclass(frozen=True, slots=True)
class Times:
    """How fast the device of the tables was: ``bandwidth`` in bytes/s, ``rate`` in flop/s of a fused kernel that fills every wave.

    ``fitted`` is the rate as fitted, on a grid that does not.
    """

    bandwidth: float
    rate: float
    fitted: float

    def memory(self, work: Work) -> float:
        """Milliseconds that the bytes take."""
        return work.bytes / self.bandwidth * 1e3

    def compute(self, work: Work, setup: Setup) -> float:
        """Milliseconds that the matrix products of a fused kernel take, on a grid of one thread block a head."""
        return work.flops / (self.rate * filled(setup)) * 1e3

    def predicted(self, work: Work, setup: Setup, method: str) -> float:
        """Milliseconds: of the bytes, and in a fused kernel of the products where those take longer."""
        return self.memory(work) if method in UNFUSED else max(self.memory(work), self.compute(work, setup))

    def made(self, *, fused: bool) -> str:
        """How a time follows from what was counted."""
        bytes_said = f"counted_bytes / {self.bandwidth / 1e12:.4f} TB/s"
        if not fused:
            return bytes_said
        return f"the longer of {bytes_said} and counted_flops / {self.rate / 1e12:.1f} TFLOP/s on the part of the waves that is full"


def work_of(setup: Setup, cell: Cell) -> Work:
    """What the kernel of a cell's method moves and computes there; a mask costs the unfused ones a pass, and fused ones nothing."""
    kernel, options = KERNELS[cell.method]
    hidden = cell.mask and cell.method in UNFUSED
    return count(asked_of(setup, kernel, cell.pass_, cell.n, dropout=cell.dropout, masked=hidden, options=options))


def fixes_bandwidth(cell: Cell) -> bool:
    """Whether the bandwidth is fitted on it: PyTorch and Megatron in Table 18 (forward, no dropout, no mask), N = 1024 to 4096."""
    return cell.table == FITTED_ON and cell.method in UNFUSED and cell.n in UNFUSED_RANGE


def fixes_rate(cell: Cell) -> bool:
    """Whether the rate is fitted on it: FlashAttention in Table 18 (forward, no dropout, no mask), N >= 4096."""
    return cell.table == FITTED_ON and cell.method == FLASH and cell.n >= FLASH_FROM


def fit(data: Data) -> Times:
    """The bandwidth and the rate; raises :class:`BadInput` where the data lacks the cells that fix them.

    >>> from iosim.study.paper.data import load
    >>> found = fit(load())
    >>> round(found.bandwidth / 1e12, 4), round(found.fitted / 1e12, 2), round(found.rate / 1e12, 1)
    (0.9717, 65.54, 110.6)
    """
    setups = {cell: found.setup for found, cell in data.cells() if fixes_bandwidth(cell) or fixes_rate(cell)}
    slow, fast = [cell for cell in setups if fixes_bandwidth(cell)], [cell for cell in setups if fixes_rate(cell)]
    if not slow or not fast:
        raise BadInput(
            f"times need Table {FITTED_ON}: {' and '.join(UNFUSED)} at N = 1024 to 4096 and {FLASH} from N = 4096 on; the data lacks them"
        )
    bandwidth = throughput(slow, lambda cell: work_of(setups[cell], cell).bytes)
    fitted = throughput(fast, lambda cell: work_of(setups[cell], cell).flops)
    return Times(bandwidth, fitted / filled(setups[fast[0]]), fitted)


def filled(setup: Setup) -> float:
    """The part of the SMs that one thread block a head keeps busy, in waves of one an SM.

    >>> from iosim.study.published import table
    >>> round(filled(table(18).setup), 3), round(filled(table(7).setup), 3)
    (0.593, 0.948)
    """
    return occupancy(setup.instances, sms(setup))


def sms(setup: Setup) -> int:
    """How many multiprocessors the device has; raises :class:`BadInput` for one that is not known."""
    name = setup.device.lower()
    if not name.startswith("a100") and name not in DEVICES:
        raise BadInput(f"the multiprocessors of {setup.device!r} are unknown; known: A100, {', '.join(DEVICES)}")
    return _multiprocessors(name if name in DEVICES else "a100-40gb")


@cache
def _multiprocessors(name: str) -> int:
    return device(name).sms
