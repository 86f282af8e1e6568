from iosim import Attention, simulate

problem = Attention(n=1024, d=64, dtype="float16")
for cols in (128, 256, 512):
    made = simulate("released-backward", problem, sram="1MiB", blocks=(16, cols))
    print(f"Bc = {cols}: {made.total:9,} words, dQ_acc moved {made.arrays['dQ_acc'].reads + made.arrays['dQ_acc'].writes:7,}")
