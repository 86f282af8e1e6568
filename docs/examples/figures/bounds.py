from iosim import Attention, regime_map
from iosim.show.plots import bounds

figure = bounds(regime_map(Attention(n=1024, d=64)))
