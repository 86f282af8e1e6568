from iosim import Attention
from iosim.show.plots.cliff import cliff
from iosim.study.cache import replay_cache

replays = [replay_cache("flash", Attention(n=256, d=32), sram="100KiB", blocks=(32, 32), order=order) for order in ("listing", "first-use")]
figure = cliff(replays, range(2048, 8193, 512))
