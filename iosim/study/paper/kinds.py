"""The cells of the time tables in kinds that are judged alike, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iosim.study.calibration import UNFUSED
from iosim.study.paper.compared import NO_FIT, NO_KERNEL, NO_TEST, SHOWN
from iosim.study.paper.times import FLASH, FLASH_FROM, FMHA, UNFUSED_RANGE
from iosim.study.published import Cell

SECTION, SHORT = "Tables 9 to 20, ms", "Table 7, ms"
PYTORCH, MEGATRON = UNFUSED


@dataclass(frozen=True, slots=True)
class Kind:
    """Cells that are judged alike: within ``claim`` percent, or, where that is None, with a ``word``; and ``why``."""

    title: str
    why: str
    holds: Callable[[Cell], bool]
    claim: float | None = None
    word: str = SHOWN
    section: str = SECTION


def unfused(cell: Cell) -> bool:
    """Whether every step of the method goes through HBM."""
    return cell.method in UNFUSED


def flash(cell: Cell) -> bool:
    """FlashAttention."""
    return cell.method == FLASH


KINDS = (
    Kind(
        "Apex FMHA", "P is written forwards and read backwards; that it moves bytes as fast as PyTorch is assumed",
        lambda cell: cell.method == FMHA, section=SHORT,
    ),
    Kind(
        "FlashAttention", "eight times the heads of the other tables, so that the grid is nearly full; dropout as below",
        lambda cell: cell.table == 7 and flash(cell), section=SHORT,
    ),
    Kind(
        "PyTorch, Megatron", "no mask, N = 1024 to 4096: the counted bytes at one bandwidth",
        lambda cell: unfused(cell) and not cell.mask and cell.n in UNFUSED_RANGE, claim=21,
    ),
    Kind(
        "FlashAttention",
        "no mask, no dropout, from N = 4096 on: the counted FLOPs at one rate, on a grid that leaves SMs idle in its last wave",
        lambda cell: flash(cell) and not cell.mask and not cell.dropout and cell.n >= FLASH_FROM, claim=5,
    ),
    Kind(
        "FlashAttention, mask", "from N = 4096 on: a mask of padding costs the kernel next to nothing",
        lambda cell: flash(cell) and not cell.dropout and cell.n >= FLASH_FROM,
    ),
    Kind(
        "FlashAttention, dropout",
        "from N = 4096 on: dropout takes the same part more at every N and in every pass; random numbers are neither bytes nor matrix "
        "products", lambda cell: flash(cell) and cell.n >= FLASH_FROM,
    ),
    Kind("FlashAttention, short", "N < 4096: launching, and the start and end of few blocks, are not in the model", flash, word=NO_TEST),
    Kind(
        "PyTorch, Megatron, short", "N < 1024: mostly the time of launching kernels, which is not in the model",
        lambda cell: unfused(cell) and cell.n < UNFUSED_RANGE.start, word=NO_TEST,
    ),
    Kind(
        "PyTorch, mask, forward", "from N = 1024 on: a pass that reads and writes S for the mask, and the same bandwidth",
        lambda cell: cell.method == PYTORCH and cell.mask and cell.pass_ == "fwd",
    ),
    Kind(
        "PyTorch, mask, backward",
        "from N = 1024 on: the mask costs the backward pass far more than any fill of an N x N array, which no count explains",
        lambda cell: cell.method == PYTORCH and cell.mask, word=NO_FIT,
    ),
    Kind(
        "Megatron, Table 9", "forward, from N = 1024 on: takes longer than Tables 10 and 11 leave for it, most likely a misprint",
        lambda cell: cell.method == MEGATRON and cell.table == 9, word=NO_FIT,
    ),
    Kind(
        "Megatron, mask", "from N = 1024 on: mask and softmax are one kernel, whose speed is not that of the other steps",
        lambda cell: cell.method == MEGATRON and cell.mask,
    ),
    Kind("PyTorch, long", "no mask, N > 4096: the same bandwidth, beyond the N that is claimed", unfused),
    Kind(
        "Block-Sparse", "FlashAttention under a block mask: iosim has the kernel, but the paper does not say which blocks were kept",
        lambda cell: cell.method == "Block-Sparse FlashAttention", word=NO_KERNEL,
    ),
    Kind("other methods", "approximate or sparse attention of others: iosim has no kernel", lambda _: True, word=NO_KERNEL),
)  # fmt: skip
