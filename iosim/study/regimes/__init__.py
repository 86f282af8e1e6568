"""The map over M: which bound holds where, which kernel moves the fewest words, and where that changes."""

from iosim.study.regimes.device_sram import Place, places
from iosim.study.regimes.map_over_m import RegimeMap, Row, regime_map
from iosim.study.regimes.regime import Regime, floors, regimes, theta_words
from iosim.study.regimes.rivals import BlockRule, Rival, curve, known, rivals
from iosim.study.regimes.steps import FAR, Steps, Win, crossovers, leaders, versus

__all__ = [
    "FAR",
    "BlockRule",
    "Place",
    "Regime",
    "RegimeMap",
    "Rival",
    "Row",
    "Steps",
    "Win",
    "crossovers",
    "curve",
    "floors",
    "known",
    "leaders",
    "places",
    "regime_map",
    "regimes",
    "rivals",
    "theta_words",
    "versus",
]
