"""The map over M as text: the rows regime by regime, every crossover, and what the SRAM of devices means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from iosim.cli.pages.bounds_counted import Counted
from iosim.cli.pages.bounds_records import pairs
from iosim.cli.wrapping import TIE, wrapped
from iosim.core.described import described
from iosim.core.dtypes import accumulator, itemsize
from iosim.core.hardware import DEVICES
from iosim.core.tables import Cell, table, words
from iosim.core.units import Capacity
from iosim.predict.bounds import BACKWARD_GROWTH
from iosim.predict.over_m import Win
from iosim.predict.regimes import Regime
from iosim.study.regimes import Place, RegimeMap, Row

ROOMY = 98  # columns that the whole table needs
HEAD = ("M (words)", "M/d²", "fewest words", "Br x Bc", "words", "at least", "by", "ratio", "")
RIGHT = ("M (words)", "M/d²", "Br x Bc", "words", "at least", "ratio")
POSSESSIVE = {"best": "its best", "paper": "the papers'"}
RULES = {"best": "the best blocks of all that fit", "paper": "the papers' blocks, overflow recorded"}


def text_of(made: Sequence[RegimeMap], places: Sequence[Place], checked: Counted, width: int) -> str:
    """The page for the maps of one problem under some rules of blocks, of which the first is shown whole."""
    first = made[0]
    passes = "backward" if first.backward else "forward"
    title = f"bounds: {described(first.problem)}, {passes}, {RULES[first.rule]}; words of one head"
    parts = [
        wrapped(title, width),
        rows_of(first, width),
        "\n".join(wrapped(note, width) for note in (*notes(made), checked.sentence) if note),
        crossings(made, width),
        devices(places, first, width),
    ]
    return "\n\n".join(part for part in parts if part)


def rows_of(found: RegimeMap, width: int) -> str:
    """The rows as a table, with a line before those of each regime; fewer columns where there is little room."""
    left_out = (("M/d²", "by", "") if found.backward else ("M/d²", "")) if width < ROOMY else ("M/d²",) if found.backward else ()
    kept = [place for place in range(len(HEAD)) if HEAD[place] not in left_out]
    cells = [cells_of(row, found) for row in found.rows]
    lines = table([HEAD[place] for place in kept], [[row[place] for place in kept] for row in cells], right=RIGHT).split("\n")
    by_regime = groupby(zip(found.rows, lines[2:], strict=True), key=lambda pair: pair[0].regime.name)
    shown = {name: [line for _, line in group] for name, group in by_regime}
    titles = [(one.name, wrapped(titled(one, found), width)) for one in found.regimes]
    return "\n".join([*lines[:2], *(line for name, title in titles for line in (title, *shown.get(name, [])))])


def titled(regime: Regime, found: RegimeMap) -> str:
    """What a regime is called, where it lies, and how the least traffic grows there."""
    if regime.start == regime.stop:
        return f"{regime.name}: nowhere, since N is no more than d"
    edge = regime.stop if regime.stop is not None else regime.start
    size = Capacity(edge * found.problem.itemsize, "bytes")
    amount = f"{edge:,} word{'s' if edge > 1 else ''}"
    return f"{regime.name}: {regime.condition} = {amount} ({size}); {regime.theta}, which {regime.reached} reaches"


def cells_of(row: Row, found: RegimeMap) -> list[Cell]:
    """One capacity; where nothing fits, what is needed."""
    m: list[Cell] = [f"{row.sram:,}", of_square(row.sram, found)]
    bound: list[Cell] = [words(row.bound.words), row.bound.name]
    if row.rival is None or row.words is None:
        name, least = row.needs
        return [*m, f"does not fit, needs {least:,} ({name})", None, None, *bound, None, remark(row, found)]
    return [*m, row.rival.name, str(row.blocks), words(row.words), *bound, row.ratio, remark(row, found)]


def remark(row: Row, found: RegimeMap) -> str:
    """Why a row stands there, and whether its blocks need more than M."""
    whole = found.regimes[-1]
    edges = {found.problem.d**2: "= d²", whole.start: f"= {whole.condition.removeprefix('M ≥ ')}"}
    turn = "crossover" if row.sram in [win.sram for win in found.leaders()[1:]] else ""
    over = f"{row.overflow:,} over" if row.overflow else ""
    return " ".join(part for part in (edges.get(row.sram), turn, over) if part)


def of_square(sram: int, found: RegimeMap) -> str:
    """M in units of d²."""
    share = sram / found.problem.d**2
    return f"{share:#.2g}" if share < 0.1 else f"{share:.2f}" if share < 10 else f"{share:,.{int(share < 100)}f}"


def notes(made: Sequence[RegimeMap]) -> Iterator[str]:
    """What stands behind the numbers."""
    first, p = made[0], made[0].problem
    smallest = sorted(first.least.items(), key=lambda item: item[1])
    yield f"Least M for any blocks: {', '.join(f'{name} {least:,}'.replace(' ', TIE) for name, least in smallest)}."
    if any(one.options.get("depth") == "one" for one in first.rivals):
        yield "(one): --depth one. Its products meet single columns and rows, where those of the printed listing meet square tiles."
    if first.backward:
        yield f"Θ has no constant and is no number of words; {BACKWARD_GROWTH.remark} ({BACKWARD_GROWTH.source})."
    if (p.nk, p.dv) != (p.n, p.d):
        yield "The Θ and the edges of the regimes are proved for N_k = N and d_v = d; the bounds (at least) hold as they are."


def crossings(made: Sequence[RegimeMap], width: int) -> str:
    """Where each pair crosses: a sentence for each."""
    lines = []
    for one in made:
        for first, group in groupby(pairs(one), key=lambda pair: pair[0]):
            lines.append(f"{first} in {POSSESSIVE[one.rule]} blocks moves")
            lines += [wrapped(told(one.versus(first, second), second, one), width, before="  ", indent=4) for _, second in group]
    return "\n".join(["Crossovers, exact; every change of sign is told.", *lines]) if lines else ""


def told(wins: Sequence[Win], other: str, found: RegimeMap) -> str:
    """How one kernel compares with another over M, in words.

    >>> from iosim import Attention, regime_map
    >>> found = regime_map(Attention(n=64, d=4))
    >>> told((Win(4, "flash"), Win(17, None), Win(20, "flash2")), "flash2", found).replace(TIE, " ")
    'fewer words than flash2 up to M = 16 (1.00 d²), as many to 19, more from 20 (1.25 d²) on'
    """

    def at(sram: int) -> str:
        return f"{sram:,} ({of_square(sram, found)} d²)"

    how = [{other: "more", None: "as many"}.get(win.name, "fewer") for win in wins]
    if len(wins) == 1:
        return f"{how[0]} words than {other} wherever either fits"
    middle = [f"{how[place]} to {wins[place + 1].sram - 1:,}" for place in range(1, len(wins) - 1)]
    parts = [f"up to M = {at(wins[1].sram - 1)}", *middle, f"{how[-1]} from {at(wins[-1].sram)} on"]
    return f"{how[0]} words than {other} " + ", ".join(part.replace(" ", TIE) for part in parts)


def devices(places: Sequence[Place], found: RegimeMap, width: int) -> str:
    """What the shared memory of devices means for this problem: capacities that are equal share a line."""
    by_size = [list(group) for _, group in groupby(places, key=lambda place: place.size.amount)]
    rows = [place_of(group, found) for group in by_size]
    p = found.problem
    head = ["SRAM", f"M {p.dtype}", "M/d²", "regime", "fewest words", "of"]
    title = f"What the shared memory of a GPU means at d = {p.d} in {p.dtype}:"
    computed = f"A computed value is taken to need {p.itemsize} bytes too; where it needs more, as on the machine, less fits (iosim tiles)."
    remarks = [] if itemsize(accumulator(p.dtype)) == p.itemsize else ["", wrapped(computed, width)]
    return "\n".join([title, "", table(head, rows, right=["SRAM", f"M {p.dtype}", "M/d²"], width=width), *remarks])


def place_of(group: Sequence[Place], found: RegimeMap) -> list[Cell]:
    """One capacity, and whose it is."""
    row, size = group[0].row, group[0].size
    best = f"does not fit, needs {row.needs[1]:,}" if row.rival is None else row.rival.name
    owners = ["any of them" if len(place.devices) == len(DEVICES) else ", ".join(place.devices) for place in group]
    of = "; ".join(f"{place.part} of {names}" for place, names in zip(group, owners, strict=True))
    return [str(size), f"{row.sram:,}", of_square(row.sram, found), row.regime.name, best, of]
