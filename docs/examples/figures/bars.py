from iosim import Attention, simulate
from iosim.show.plots import bars

problem = Attention(n=1024, d=64)
figure = bars([simulate(name, problem, sram=49152, execute=False) for name in ("standard", "flash", "flash2")])
