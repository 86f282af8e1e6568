"""Numba-CUDA attention kernels, and the meters that measure what they really move in global memory.

Nothing is imported here: ``iosim_gpu.case`` says what to run, ``iosim_gpu.meters`` measure it, ``iosim_gpu.check`` sets the numbers beside
the model's, and ``iosim gpu check`` does all of it. Numba is needed where a kernel is run or compiled, CuPy and a GPU nowhere else.
"""

__all__: list[str] = []
