"""iosim: attention that really runs on a model of the HBM/SRAM hierarchy, with every word that moves counted and checked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from iosim.catalogue import BACKWARD, FORWARD, KERNELS
from iosim.compare import Comparison, compare
from iosim.errors import BadInput, IosimError, SramOverflow
from iosim.inputs import problem_of, random_inputs
from iosim.masks import BlockMask
from iosim.memory import Machine
from iosim.report import Report
from iosim.run import simulate
from iosim.specs import Attention, Blocks, Options
from iosim.sweep import sweep
from iosim.trace import trace
from iosim.units import Capacity, capacity

if TYPE_CHECKING:
    from iosim.animation import MovingPicture, animate
    from iosim.formula_check import check_formula
    from iosim.passes import Passes, both
    from iosim.regimes import regime_map

__all__ = [
    "BACKWARD", "FORWARD", "KERNELS", "Attention", "BadInput", "BlockMask", "Blocks", "Capacity", "Comparison", "IosimError", "Machine",
    "MovingPicture", "Options", "Passes", "Report", "SramOverflow", "animate", "both", "capacity", "check_formula", "compare", "problem_of",
    "random_inputs", "regime_map", "simulate", "sweep", "trace",
]  # fmt: skip
__version__ = "0.1.0"
LATER = {
    "animation": ("MovingPicture", "animate"),
    "formula_check": ("check_formula",),
    "passes": ("Passes", "both"),
    "regimes": ("regime_map",),
}


def __getattr__(name: str) -> object:
    """Load what few need where it is first asked for."""
    for module, names in LATER.items():
        if name in names:
            return getattr(import_module(f"iosim.{module}"), name)
    raise AttributeError(f"module 'iosim' has no attribute {name!r}")
