from iosim import Attention, simulate

problem = Attention(n=1024, d=64, dtype="float16")
for kernel in ("flash", "released"):
    made = simulate(kernel, problem, sram="164KiB", blocks=(16, 256))
    print(f"{kernel:9}{made.total:9,} words, {made.bytes:9,} bytes")
