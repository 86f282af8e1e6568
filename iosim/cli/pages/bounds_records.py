"""The map over M as records: its rows, its crossovers, its regimes, and the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from iosim.cli.output import Record
from iosim.predict.formulas import formula
from iosim.predict.regimes import Regime
from iosim.study.regimes import Place, RegimeMap, Row


def document(made: Sequence[RegimeMap], places: Sequence[Place]) -> Record:
    """Everything as one record; ``made`` are the maps of one problem under some rules of blocks."""
    first = made[0]
    return {
        **problem_of(first),
        "regimes": [regime_of(one) for one in first.regimes],
        "least_sram": {one.rule: one.least for one in made},
        "rows": [record for one in made for record in rows_of(one)],
        "crossovers": [record for one in made for record in crossovers_of(one)],
        "devices": [place_of(place) for place in places],
    }


def rows_of(found: RegimeMap) -> list[Record]:
    """One record a capacity."""
    return [{**problem_of(found), "blocks": found.rule, **row_of(row)} for row in found.rows]


def problem_of(found: RegimeMap) -> Record:
    """What is asked, of one head."""
    p = found.problem
    return {"n": p.n, "nk": p.nk, "d": p.d, "dv": p.dv, "dtype": p.dtype, "pass": "backward" if found.backward else "forward"}


def row_of(row: Row) -> Record:
    """The map at one capacity; where nothing fits, who needs least and how much."""
    blocks, rival = row.blocks, row.rival
    return {
        "sram": row.sram, "sram_unit": "words", "regime": row.regime.name, "kernel": None if rival is None else rival.kernel,
        "options": options_of(row),
        "block_rows": None if blocks is None else blocks.rows, "block_cols": None if blocks is None else blocks.cols,
        "total": row.words, "overflow": row.overflow, "lower_bound": row.bound.words, "bound": row.bound.name, "ratio": row.ratio,
        "theta_words": row.theta, "needs": {"name": row.needs[0], "sram": row.needs[1]},
    }  # fmt: skip


def options_of(row: Row) -> Mapping[str, str]:
    """The options with which the kernel of a row runs."""
    if row.rival is None or row.plan is None:
        return {}
    return {name: str(getattr(row.plan.options, name)) for name in row.rival.asked(0)}


def regime_of(regime: Regime) -> Record:
    """A regime: from ``start`` words on and below ``stop``."""
    return {
        "name": regime.name, "condition": regime.condition, "start": regime.start, "stop": regime.stop, "theta": regime.theta,
        "reached_by": regime.reached, "source": regime.source,
    }  # fmt: skip


def crossovers_of(found: RegimeMap) -> Iterator[Record]:
    """For each pair, who moves fewer words from which M on."""
    for first, second in pairs(found):
        wins = [{"sram": win.sram, "fewest": win.name} for win in found.versus(first, second)]
        yield {"blocks": found.rule, "first": first, "second": second, "begin": wins[0], "crossovers": wins[1:]}


def pairs(found: RegimeMap) -> list[tuple[str, str]]:
    """Who is compared with whom: square tiles with every other kernel; where there are none or nothing else, everyone with everyone."""
    tiles = [one.name for one in found.rivals if formula(one.kernel).square]
    others = [one.name for one in found.rivals if one.name not in tiles]
    if tiles and others:
        return [(first, second) for first in tiles for second in others]
    return list(combinations([one.name for one in found.rivals], 2))


def place_of(place: Place) -> Record:
    """What the SRAM of some devices means."""
    return {"devices": list(place.devices), "part": place.part, "bytes": place.size.amount, **row_of(place.row)}
