from iosim import Attention, simulate

problem = Attention(n=1024, d=64)
for first in ("load", "create"):
    made = simulate("flash-backward", problem, sram="300KiB", blocks=(64, 128), first_pass=first)
    print(f"{first:6}: O read {made.arrays['O'].reads:7,}, dQ read {made.arrays['dQ'].reads:7,}, all {made.total:,}")
