"""The door to Numba's CUDA target: the only module that imports it, so that it can be mended or exchanged in one place."""

from __future__ import annotations

import numpy as np

from iosim.core.errors import BadInput

if not hasattr(np, "row_stack"):
    setattr(np, "row_stack", np.vstack)  # noqa: B010  # numba-cuda 0.30 asks for it while it compiles; NumPy 2.5 has only the other name

try:
    from numba import config, cuda, types
except Exception as error:  # whatever a broken installation raises, it is as good as none
    found = f"{type(error).__name__}: {error}".splitlines()[0]
    raise BadInput(f'the CUDA kernels need numba and numba-cuda, which do not load here ({found}); pip install "iosim[gpu]"') from error

SIMULATED = bool(config.ENABLE_CUDASIM)
"""Whether this process runs kernels in Numba's simulator, which NUMBA_ENABLE_CUDASIM=1 decides before Numba is imported."""

__all__ = ["SIMULATED", "cuda", "types"]
