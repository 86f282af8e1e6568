from iosim import Attention, simulate
from iosim.show.plots import tile_map

problem = Attention(n=1024, d=64)
figure = tile_map([simulate(name, problem, sram=12288, execute=False) for name in ("flash", "flash2")])
