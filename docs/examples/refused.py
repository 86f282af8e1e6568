from textwrap import fill

from iosim import Attention, IosimError, simulate
from iosim.memory import exp


def uses_twice(m, Q, K, V, O, *, Br, Bc, scale):
    for i in m.tiles(Q.shape[0], Br):
        q, o = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="O_i")
        l = m.full(0.0, i.size, 1, name="l_i")
        for j in m.tiles(K.shape[0], Bc):
            p = exp(scale * (q @ m.load(K[j]).T))
            l += p.rowsum()
            o += p @ m.load(V[j])
        m.store(O[i], o / l)


def forgets_to_store(m, Q, K, V, O, *, Br, Bc):
    for i in m.tiles(Q.shape[0], Br):
        m.load(Q[i])


def has_an_array_of_its_own(m, Q, K, V, O, kept, *, Br, Bc):
    pass


def flash2(m, Q, K, V, O):
    pass


def loads_twice(m, Q, K, V, O, *, Br, Bc, scale):
    for i in m.tiles(Q.shape[0], Br):
        q, o = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="O_i")
        for j in m.tiles(K.shape[0], Bc):
            k, v = m.load(K[j]), m.load(V[j])
            o += (q @ m.load(K[j]).T) @ v
        m.store(O[i], o)


for listing in (uses_twice, forgets_to_store, has_an_array_of_its_own, flash2, loads_twice):
    try:
        made = simulate(listing, Attention(n=64, d=8), sram=2048, blocks=(16, 16))
        print(*made.notes, sep="\n")
    except IosimError as error:
        print(fill(str(error), 96), end="\n\n")
