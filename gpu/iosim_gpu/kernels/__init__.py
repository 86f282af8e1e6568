"""Attention in CUDA, written with Numba: one module a kernel, each a factory whose tiling becomes compile-time constants.

A factory gives a plain Python function of ``(*arrays, scale, counts)``; a meter decides how it is run. Tensors are ``(B H, N, d)`` and
statistics ``(B H, N)``, float32 and C-contiguous. Rows and columns of ragged tiles are clipped, so that nothing is padded and nothing is
moved in vain. There are no warp intrinsics: the simulator has none.
"""
