"""What a mapping tool found: the fewest words off chip at every size of its buffer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from iosim.study.published.datasets import Dataset, Given, located, rows_of
from iosim.study.published.documents import Document, read_document


@dataclass(frozen=True, slots=True)
class MapperPoint:
    """From ``sram`` words on the mappings of the tool move ``words``."""

    sram: int
    words: int


@dataclass(frozen=True, slots=True)
class Mapped(Dataset[MapperPoint]):
    """The steps of a mapper's frontier, smallest SRAM first, for one head of Q, K, V ``(n, d)`` without a mask; all in ``unit``."""

    n: int
    d: int
    unit: str


def mapper_frontier(path: Given = None) -> Mapped:
    """The frontier that AccelForge finds for fused attention; what it finds below the first point is not among the data.

    Raises :class:`iosim.core.errors.BadInput`, which names file and line, for data that does not parse.

    >>> found = mapper_frontier()
    >>> found.n, found.d, found.rows[0], found.rows[-1]
    (256, 32, MapperPoint(sram=430, words=466944), MapperPoint(sram=16450, words=32768))
    """
    document = read_document(located(path, "mapper_frontier.toml"))
    top, problem = document.top, document.table("problem")
    top.only("name", "source", "read", "unit", "problem", "row")
    problem.only("n", "d")
    origin = top.text("name"), top.text("source"), top.text("read")
    return Mapped(*origin, _points(document), problem.whole("n"), problem.whole("d"), top.choice("unit", ["words"]))


def _points(document: Document) -> tuple[MapperPoint, ...]:
    found, records = rows_of(MapperPoint, "sram")(document), document.entries("row")
    for record, (before, after) in zip(records[1:], pairwise(found), strict=True):
        if not (before.sram < after.sram and before.words > after.words):
            raise record.fault("words", "each point must take more SRAM and move fewer words than the one before; sort them")
    return found
