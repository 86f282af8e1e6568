from iosim import Attention, simulate

problem = Attention(n=512, d=64, causal=True)
for kernel in ("pytorch", "megatron"):
    made = simulate(kernel, problem, sram="1MiB", reuse="ideal", overflow="record")
    print(f"{kernel:9}{made.total:10,} words, S moved {made.arrays['S'].reads + made.arrays['S'].writes:9,}")
