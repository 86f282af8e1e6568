from iosim import Attention, simulate

problem = Attention(n=512, d=64)
for sram in (512, 1024, 4096, 16384):
    small = simulate("square-tiles", problem, sram=sram, blocks="best", depth="one", execute=False)
    fused = simulate("flash2", problem, sram=sram, blocks="best", execute=False)
    print(f"M = {sram / 64**2:6.4g} d²: square-tiles {small.total:12,}, flash2 {fused.total:12,}")
