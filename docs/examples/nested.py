import numpy as np

from iosim import Machine


def scaled(m, A, B, rows):
    for i in m.tiles(64, 16):
        total = m.full(0.0, 1, 1, name="total")
        for j in i.tiles(rows):
            a = m.load(A[j])
            total += a.T @ a
        for j in i.tiles(rows):
            m.store(B[j], m.load(A[j]) / total)


def run(mode, rows):
    m = Machine(mode=mode)
    A, B = m.input("A", (64, 1), np.arange(64.0)[:, None]), m.output("B", (64, 1))
    scaled(m, A, B, rows)
    return A, B, m.finish()


for rows in (16, 5, 1):
    A, B, counts = run("execute", rows)
    sums = A.data[15::16] / B.data[15::16]
    print(f"{rows:2} rows at a time: {counts.arrays['A'].reads} words of A, peak SRAM {counts.peak_sram:2}, sums {sums.ravel().round()}")
    assert run("count", rows)[2] == counts
