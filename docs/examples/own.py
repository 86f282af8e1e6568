import numpy as np

from iosim import Machine


def matmul(m, A, B, C, b):
    (rows, inner), cols = A.shape, B.shape[1]
    for i in m.tiles(rows, b):
        for j in m.tiles(cols, b):
            c = m.full(0.0, i.size, j.size, name="C_ij")
            for k in m.tiles(inner, b):
                c += m.load(A[i, k]) @ m.load(B[k, j])
            m.store(C[i, j], c)


for b in (16, 32, 64):
    m = Machine(sram=12288)
    A, B = m.input("A", (128, 128), np.eye(128)), m.input("B", (128, 128), np.ones((128, 128)))
    C = m.output("C", (128, 128))
    matmul(m, A, B, C, b)
    counts = m.finish()
    moved = sum(array.reads + array.writes for array in counts.arrays.values())
    print(f"b = {b}: {moved:7,} words, peak SRAM {counts.peak_sram:6,}, right: {bool((C.data == 1).all())}")
