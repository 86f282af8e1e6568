"""Everything that is published, beside ours."""

from __future__ import annotations

from iosim.study.paper import memory, softmax
from iosim.study.paper.compared import Finding
from iosim.study.paper.data import Data
from iosim.study.paper.figure2 import figure2
from iosim.study.paper.runtimes import runtimes
from iosim.study.paper.times import fit


def findings(data: Data) -> list[Finding]:
    """Figure 2, the tables and the listings of softmax, what belongs together in one finding.

    Raises :class:`iosim.core.errors.BadInput` for data that cannot be compared.

    >>> from iosim.study.paper.data import load
    >>> found = findings(load())
    >>> [(one.section, one.title) for one in found if one.failures]
    []
    """
    times = fit(data)
    return [*figure2(data, times).findings, *runtimes(data, times).findings, *memory.findings(data), *softmax.findings(data)]
