from iosim import Attention, simulate
from iosim.show.plots import timeline

problem = Attention(n=128, d=16)
figure = timeline([simulate(name, problem, sram=2048, blocks=(16, 16)) for name in ("flash", "flash2")])
