"""Numba-CUDA attention kernels and the meters that measure their global-memory traffic; nothing is built yet."""

__all__: list[str] = []
