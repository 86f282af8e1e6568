"""iosim: attention that really runs on a model of the HBM/SRAM hierarchy, with every word that moves counted and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iosim.attention.catalogue import BACKWARD, FORWARD, KERNELS
from iosim.attention.compare import Comparison, compare
from iosim.attention.declaration import Array, fills, keeps, kernel, reads
from iosim.attention.inputs import problem_of, random_inputs
from iosim.attention.report import Report
from iosim.attention.run import simulate
from iosim.attention.sweep import sweep
from iosim.attention.trace import trace
from iosim.core.errors import BadInput, IosimError, SramOverflow
from iosim.core.later import later
from iosim.core.masks import BlockMask
from iosim.core.options import Option, Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, capacity
from iosim.machine import Machine

if TYPE_CHECKING:
    from iosim.attention.passes import Passes, both
    from iosim.show.animation import MovingPicture, animate
    from iosim.study.formula.check import check_formula
    from iosim.study.regimes import regime_map

__all__ = [
    "BACKWARD", "FORWARD", "KERNELS", "Array", "Attention", "BadInput", "BlockMask", "Blocks", "Capacity", "Comparison", "IosimError",
    "Machine", "MovingPicture", "Option", "Options", "Passes", "Report", "SramOverflow", "animate", "both", "capacity", "check_formula",
    "compare", "fills", "keeps", "kernel", "problem_of", "random_inputs", "reads", "regime_map", "simulate", "sweep", "trace",
]  # fmt: skip
__version__ = "0.1.0"
__getattr__ = later(__name__, {
    "show.animation": "MovingPicture animate", "study.formula.check": "check_formula", "attention.passes": "Passes both",
    "study.regimes": "regime_map",
})  # fmt: skip
