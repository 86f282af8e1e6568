"""Attention in CUDA, written with Numba: one file a kernel, in which ``KERNEL`` declares it; :mod:`iosim_gpu.catalogue` finds it there.

A launch is declared by ``@launch`` above its factory, whose tiling becomes compile-time constants. The factory gives a plain Python
function of ``(*arrays, scale, counts)``; a meter decides how it is run. Tensors are ``(B H, N, d)`` and statistics ``(B H, N)``, float32
and C-contiguous. Rows and columns of ragged tiles are clipped, so that nothing is padded and nothing is moved in vain. There are no warp
intrinsics: the simulator has none. The global name ``cuda`` is Numba's module; ``Step.make`` sets it.

What each begins with: ``parts`` are its tiles, which lie in one shared array; in it row r of a tile begins at ``r * DP`` (d words and one
of padding, so that a column's words lie in different banks).
Threads share a tile's elements out: element e goes to thread e mod T. ``n`` holds a thread's own counters, which are compiled away unless
the tiling is ``counting``. On chip a running maximum begins at the lowest finite number, since -inf - (-inf) is not a number; in HBM it is
-inf. As in :mod:`iosim.attention.kernels.flash2`, the factor on the old O is exp(m_old - m_new), where the FlashAttention-2 paper prints
its inverse.
"""
