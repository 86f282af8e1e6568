"""Run the PTX that Numba compiled on the CPU, without a GPU, and count what every array moves.

`emulate` executes every thread of every thread block as a lane of NumPy arrays. It refuses what it does not know exactly, with the line;
`parse` reads the text alone. Needs NumPy and the standard library.
"""

from __future__ import annotations

from iosim_gpu.ptx.counting import Access
from iosim_gpu.ptx.execute import STEP_LIMIT, Run, emulate
from iosim_gpu.ptx.faults import KernelFault, UnsupportedPtx
from iosim_gpu.ptx.parse import Module, parse

__all__ = ["STEP_LIMIT", "Access", "KernelFault", "Module", "Run", "UnsupportedPtx", "emulate", "parse"]
