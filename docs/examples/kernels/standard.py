from iosim import Attention, simulate

for n in (512, 1024, 2048):
    made = simulate("standard", Attention(n=n, d=64), sram="1MiB", reuse="ideal", overflow="record")
    print(f"N = {n:5,}: {made.total:10,} words, 4 N² are {4 * n * n:10,}, 4 N d are {4 * n * 64:7,}")
