"""Closed forms: what every kernel moves and needs, its blocks, and what no algorithm can do without. Nothing is run here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from iosim.theory.bounds import compulsory
from iosim.theory.dense import dense_terms, dense_words
from iosim.theory.fitting import fit_dense, would_fit
from iosim.theory.formulas import KERNELS, outside, theta
from iosim.theory.peaks import residents, smallest_sram
from iosim.theory.rules import choose_blocks
from iosim.theory.term import Moved, Term
from iosim.theory.words import predict, terms

if TYPE_CHECKING:
    from iosim.theory.frontier_search import Sides
    from iosim.theory.frontiers import Accounting, Frontier, frontier
    from iosim.theory.ideal import IdealFrontier, ideal_frontier
    from iosim.theory.leading import Leading, leading_constants
    from iosim.theory.penalty import Penalty, worst_penalty
    from iosim.theory.planes import Plane, plane

__all__ = [
    "KERNELS",
    "Accounting",
    "Frontier",
    "IdealFrontier",
    "Leading",
    "Moved",
    "Penalty",
    "Plane",
    "Sides",
    "Term",
    "choose_blocks",
    "compulsory",
    "dense_terms",
    "dense_words",
    "fit_dense",
    "frontier",
    "ideal_frontier",
    "leading_constants",
    "outside",
    "plane",
    "predict",
    "residents",
    "smallest_sram",
    "terms",
    "theta",
    "worst_penalty",
    "would_fit",
]
LATER = {
    "frontier_search": ("Sides",),
    "frontiers": ("Accounting", "Frontier", "frontier"),
    "ideal": ("IdealFrontier", "ideal_frontier"),
    "leading": ("Leading", "leading_constants"),
    "penalty": ("Penalty", "worst_penalty"),
    "planes": ("Plane", "plane"),
}


def __getattr__(name: str) -> object:
    """Load what few need where it is first asked for."""
    for module, names in LATER.items():
        if name in names:
            return getattr(import_module(f"iosim.theory.{module}"), name)
    raise AttributeError(f"module 'iosim.theory' has no attribute {name!r}")
