"""The published numbers of the FlashAttention paper beside those that are counted here."""

from iosim.study.paper import memory, softmax
from iosim.study.paper.compared import Check, Compared, Finding
from iosim.study.paper.data import Data, load
from iosim.study.paper.figure2 import Figure2, figure2
from iosim.study.paper.memory import Kept
from iosim.study.paper.runtimes import Judged, Runtimes, runtimes
from iosim.study.paper.summary import findings
from iosim.study.paper.times import Times, fit

__all__ = [
    "Check", "Compared", "Data", "Figure2", "Finding", "Judged", "Kept", "Runtimes", "Times", "figure2", "findings", "fit", "load",
    "memory", "runtimes", "softmax",
]  # fmt: skip
