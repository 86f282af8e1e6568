"""Closed forms: what every kernel moves and needs, its blocks, and what no algorithm can do without. Nothing is run here."""

from iosim.theory.bounds import compulsory
from iosim.theory.dense import dense_terms, dense_words
from iosim.theory.fitting import fit_dense, would_fit
from iosim.theory.formulas import KERNELS, outside, theta
from iosim.theory.peaks import residents, smallest_sram
from iosim.theory.rules import choose_blocks
from iosim.theory.term import Moved, Term
from iosim.theory.words import predict, terms

__all__ = [
    "KERNELS",
    "Moved",
    "Term",
    "choose_blocks",
    "compulsory",
    "dense_terms",
    "dense_words",
    "fit_dense",
    "outside",
    "predict",
    "residents",
    "smallest_sram",
    "terms",
    "theta",
    "would_fit",
]
