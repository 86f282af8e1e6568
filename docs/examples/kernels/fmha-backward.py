from iosim import Attention, simulate

for kernel in ("fmha-backward", "flash2-backward"):
    made = simulate(kernel, Attention(n=256, d=64), sram="1MiB")
    print(f"{kernel:16}{made.total:9,} words, blocks {made.blocks}")
