from iosim import Attention, simulate

for n in (512, 1024, 2048):
    problem = Attention(n=n, d=64)
    sparse, dense = (simulate(name, problem, sram=49152, blocks=(64, 64)) for name in ("block-sparse", "flash"))
    print(f"N = {n:5,}: {sparse.total:9,} words, {sparse.total / dense.total:.2f} of flash's")
