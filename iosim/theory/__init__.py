"""Closed forms: what every kernel moves and needs, its blocks, and what no algorithm can do without. Nothing is run here."""

from iosim.theory.bounds import compulsory
from iosim.theory.dense import dense_terms, dense_words
from iosim.theory.fitting import fit_dense, would_fit
from iosim.theory.formulas import KERNELS, outside, theta
from iosim.theory.frontier import Accounting, Frontier, frontier
from iosim.theory.frontier_search import Sides
from iosim.theory.ideal import IdealFrontier, ideal_frontier
from iosim.theory.leading import Leading, leading_constants
from iosim.theory.peaks import residents, smallest_sram
from iosim.theory.penalty import Penalty, worst_penalty
from iosim.theory.plane import Plane, plane
from iosim.theory.rules import choose_blocks
from iosim.theory.term import Moved, Term
from iosim.theory.words import predict, terms

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
