"""Meters: each runs one case and says what every array moved. They share a type, :class:`iosim_gpu.moved.Measured`, and no code path.

``simulator`` counts in arrays that stand in for global memory, ``counters`` reports what the kernel counted itself, ``emulator`` executes
the PTX that was compiled. The simulator and the compiler need processes of their own: Numba reads NUMBA_ENABLE_CUDASIM when it loads.
"""
