"""Attention kernels in Numba-CUDA, and the meters that measure what they move in global memory.

This file imports nothing. ``iosim_gpu.kernels`` has one file a kernel, and ``iosim_gpu.catalogue`` finds them. ``iosim_gpu.case`` says what
to run, ``iosim_gpu.meters`` measure it, and ``iosim_gpu.check`` compares with the model. ``iosim gpu check`` does all of that. Running or
compiling a kernel needs Numba; only ``bench`` and ``device_run`` need CuPy and a GPU.
"""

__all__: list[str] = []
