"""Closed forms: what every kernel moves and needs, its blocks, and what no algorithm can do without. Nothing is run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iosim.core.later import later
from iosim.predict.blocks.fitting import fit_dense, would_fit
from iosim.predict.blocks.rules import choose_blocks
from iosim.predict.compulsory import compulsory
from iosim.predict.dense import dense_terms, dense_words
from iosim.predict.formulas import KERNELS, outside, theta
from iosim.predict.peaks import residents, smallest_sram
from iosim.predict.term import Moved, Term
from iosim.predict.words import predict, terms

if TYPE_CHECKING:
    from iosim.predict.blocks.frontier_search import Sides
    from iosim.predict.blocks.frontiers import Accounting, Frontier, frontier
    from iosim.predict.blocks.ideal import IdealFrontier, ideal_frontier
    from iosim.predict.blocks.penalty import Penalty, worst_penalty
    from iosim.predict.blocks.planes import Plane, plane
    from iosim.predict.leading import Leading, leading_constants

__all__ = [
    "KERNELS", "Accounting", "Frontier", "IdealFrontier", "Leading", "Moved", "Penalty", "Plane", "Sides", "Term", "choose_blocks",
    "compulsory", "dense_terms", "dense_words", "fit_dense", "frontier", "ideal_frontier", "leading_constants", "outside", "plane",
    "predict", "residents", "smallest_sram", "terms", "theta", "worst_penalty", "would_fit",
]  # fmt: skip
__getattr__ = later(__name__, {
    "blocks.frontier_search": "Sides", "blocks.frontiers": "Accounting Frontier frontier", "blocks.ideal": "IdealFrontier ideal_frontier",
    "leading": "Leading leading_constants", "blocks.penalty": "Penalty worst_penalty", "blocks.planes": "Plane plane",
})  # fmt: skip
