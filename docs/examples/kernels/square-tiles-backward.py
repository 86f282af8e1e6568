from iosim import Attention, simulate

problem = Attention(n=256, d=64)
for kernel in ("square-tiles-backward", "flash2-backward"):
    made = simulate(kernel, problem, sram=1024, blocks="best")
    print(f"{kernel:21}: blocks {made.blocks}, {made.total:11,} words, sound: {made.sound}")
