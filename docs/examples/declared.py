"""A declared kernel: an option of its own, and an array that it keeps for one value of it."""

import numpy as np

import iosim
from iosim.memory import exp, maximum


@iosim.kernel(
    iosim.reads("Q", "K", "V"),
    iosim.fills("O"),
    iosim.keeps(iosim.Array("kept", rows="n", cols="nk", type="scores", when=lambda problem, options: options.second == "load")),
    options=(iosim.Option("second", "compute", "the second pass makes S again (compute), or loads it (load)", ("compute", "load")),),
)
def two_ways(m, Q, K, V, O, kept, *, Br, Bc, scale, second="compute"):
    for i in m.tiles(Q.shape[0], Br):
        q, o = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="O_i")
        l, top = m.full(0.0, i.size, 1, name="l_i"), m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(K.shape[0], Bc):
            s = m.let(scale * (q @ m.load(K[j]).T), "S_ij")
            top[...] = maximum(top, s.rowmax())
            if second == "load":
                m.store(kept[i, j], s)
        for j in m.tiles(K.shape[0], Bc):
            s = m.load(kept[i, j]) if second == "load" else m.let(scale * (q @ m.load(K[j]).T), "S_ij")
            s[...] = exp(s - top)
            l += s.rowsum()
            o += s @ m.load(V[j])
        m.store(O[i], o / l)


if __name__ == "__main__":
    problem = iosim.Attention(n=1024, d=64)
    for second in ("compute", "load"):
        made = iosim.simulate(two_ways, problem, sram=49152, blocks=(64, 64), second=second)
        print(f"{second}: {made.total:,} words, {made.peak_hbm:,} of HBM, {made.agreed}")
