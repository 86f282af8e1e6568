"""Attention in CUDA, written with Numba: one module a kernel, each a factory whose tiling becomes compile-time constants.

A factory gives a plain Python function of ``(*arrays, scale, counts)``; a meter decides how it is run. Tensors are ``(B H, N, d)`` and
statistics ``(B H, N)``, float32 and C-contiguous. Rows and columns of ragged tiles are clipped, so that nothing is padded and nothing is
moved in vain. There are no warp intrinsics: the simulator has none.

What each begins with: ``offsets(ROOMS[...](tiling))`` lays its tiles one after the other in one shared array, ``room[Q0:K0]`` is one of
them, row r of a tile begins at ``r * DP`` (d words and one of padding, so that a column's words lie in different banks), and ``WORDS`` is 0
where the launch, not the kernel, says how large the array is. Threads share a tile's elements out: element e goes to thread e mod T. ``n``
holds a thread's own counters, which are compiled away unless the tiling is ``counting``. On chip a running maximum begins at the lowest
finite number, since -inf - (-inf) is not a number; in HBM it is -inf. As in :mod:`iosim.attention.kernels.flash2`, the factor on the old O
is exp(m_old - m_new), where the FlashAttention-2 paper prints its inverse.
"""
