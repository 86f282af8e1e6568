from iosim import Attention, sweep
from iosim.show.plots import curves

over_n = sweep(Attention(n=256, d=64), n=[2**k for k in range(8, 16)])
over_m = sweep(Attention(n=4096, d=64), sram=[2**k for k in range(12, 19)])
figure = curves(over_n, over_m)
