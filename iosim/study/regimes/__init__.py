"""The map over M: which bound holds where, which kernel moves the fewest words, and where that changes."""

from iosim.predict.rivals import BlockRule
from iosim.study.regimes.device_sram import Place, places
from iosim.study.regimes.map_over_m import RegimeMap, Row, regime_map
from iosim.study.regimes.rivals import known

__all__ = ["BlockRule", "Place", "RegimeMap", "Row", "known", "places", "regime_map"]
