"""What a curve shows, in sentences: where each kernel wins, how far the others are behind, and what stands behind the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from iosim.cli.pages.curve_points import Curve
from iosim.cli.wrapping import TIE


def sentences(curve: Curve) -> list[str]:
    """All that the numbers of a curve say, each in a sentence."""
    exact = curve.exact
    lines = []
    if len(exact) > 1:
        lines.append(f"Fewest words among exact kernels: {'; '.join(wins(curve, exact))}.")
        lines += behind(curve, exact)
    lines += near(curve, exact)
    lines += [sparser(curve, exact, name) for name, kernel in curve.listings.items() if kernel.brings is not None]
    counted = sum(record["total"] is not None for record in curve.records)
    roads = [record["agreed"] for record in curve.records if isinstance(record["agreed"], dict)]
    known = sum("predicted" in agreed or "derived" in agreed for agreed in roads)
    which = "" if known == counted else f"the {known} that have a closed form "
    verdict = f"equal {'it' if which else 'their closed forms'}"
    if curve.differing:
        verdict = f"DIFFER from {'it' if which else 'their closed forms'} in {curve.differing} cases"
    lines.append(f"All {counted} numbers were counted by running the listings on the machine, and {which}{verdict}.")
    return lines


def wins(curve: Curve, names: Sequence[str]) -> list[str]:
    """For each kernel, where it fits and moves the fewest words."""
    first = [winner(curve, names, index) for index in range(len(curve.points))]
    return [
        f"{name} {where(curve, [found == name for found in first])}"
        for name in sorted(names, key=lambda name: (name not in first, names.index(name)))
    ]


def winner(curve: Curve, names: Sequence[str], index: int) -> str | None:
    """The kernel that fits and moves the fewest words at one point, if any fits."""
    fitting = {name: total for name in names if (total := curve.moved(name)[index]) is not None and not curve.over(name)[index]}
    return min(fitting, key=lambda name: fitting[name]) if fitting else None


def where(curve: Curve, holds: Sequence[bool]) -> str:
    """The points at which something holds, in words."""
    spans = []
    for held, group in groupby(range(len(holds)), key=lambda index: holds[index]):
        places = list(group)
        if held:
            spans.append(span(curve, places[0], places[-1]))
    return " and ".join(spans) or "nowhere"


def span(curve: Curve, start: int, stop: int) -> str:
    """A run of points, in words."""
    first, last = at(curve, start), at(curve, stop)
    if start == 0 and stop == len(curve.points) - 1:
        return f"at every {curve.letter} shown"
    if start == stop:
        return f"at {first}"
    if stop == len(curve.points) - 1:
        return f"from {first} on"
    return f"up to {last}" if start == 0 else f"from {first} to {last}"


def at(curve: Curve, index: int) -> str:
    """One point, in words that stay on one line."""
    return f"{curve.letter} = {curve.names[index]}".replace(" ", TIE)


def behind(curve: Curve, names: Sequence[str]) -> list[str]:
    """At the last point, how many times the fewest words the other kernels move."""
    best = winner(curve, names, -1)
    fewest = curve.moved(best)[-1] if best is not None else None
    last = {name: curve.moved(name)[-1] for name in names if name != best and not curve.over(name)[-1]}
    times = [f"{name} moves {total / fewest:#.3g}" for name, total in last.items() if total and fewest]
    return [f"Against {best} at {at(curve, -1)}: {', '.join(times)} times as many words."] if times else []


def near(curve: Curve, names: Sequence[str]) -> list[str]:
    """How far the fewest words are from the lower bound, at the points where they are nearest and farthest."""
    best = [winner(curve, names, index) for index in range(len(curve.points))]
    fewest = [None if name is None else curve.moved(name)[index] for index, name in enumerate(best)]
    times = [f"{total / bound:#.3g}" for total, bound in zip(fewest, curve.bounds, strict=True) if total and bound]
    ends = dict.fromkeys([min(times, key=float), max(times, key=float)] if times else [])
    return [f"The fewest words are {' to '.join(ends)} times the lower bound."] if ends else []


def sparser(curve: Curve, exact: Sequence[str], sparse: str) -> str:
    """Where a kernel that skips tiles, and so computes fewer pairs, fits and moves fewer words than every exact kernel."""
    found = [winner(curve, [*exact, sparse], index) == sparse for index in range(len(curve.points))]
    others = exact[0] if len(exact) == 1 else "all others"
    beats = f"; it moves fewer than {others} {where(curve, found)}" if exact else ""
    return f"{sparse} skips tiles ({curve.pattern} mask){beats}."
