from iosim import Attention, simulate
from iosim.core.hardware import device
from iosim.show.plots import roofline

problem = Attention(n=4096, d=64, batch=16, heads=8, dtype="float16")
figure = roofline([simulate(name, problem, execute=False) for name in ("standard", "flash", "flash2")], device("a100-40gb"))
