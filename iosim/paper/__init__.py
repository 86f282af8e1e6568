"""The published numbers of the FlashAttention paper beside those that are counted here."""

from iosim.paper import memory, softmax
from iosim.paper.compared import Check, Compared, Finding
from iosim.paper.data import Data, load
from iosim.paper.figure2 import Figure2, figure2
from iosim.paper.memory import Kept
from iosim.paper.runtimes import Judged, Runtimes, runtimes
from iosim.paper.summary import findings
from iosim.paper.times import Times, fit

__all__ = [
    "Check",
    "Compared",
    "Data",
    "Figure2",
    "Finding",
    "Judged",
    "Kept",
    "Runtimes",
    "Times",
    "figure2",
    "findings",
    "fit",
    "load",
    "memory",
    "runtimes",
    "softmax",
]
