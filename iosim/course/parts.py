"""Parts: whether the values match, the memory rules were kept and the words are within the budget, each in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from iosim.course.advised import advised
from iosim.course.answers import first_wrong
from iosim.course.runs import Ran, Tried, listing_attempt, ran
from iosim.course.spec import Array, Exercise, KernelCheck, Trial
from iosim.course.verdict import Part

NOT_JUDGED = "not judged, since the run was stopped"


def values(tried: Sequence[Tried]) -> Part:
    """Whether every output is what it should be, and the first element that is not."""
    for one in tried:
        for place, run in enumerate(one.runs):
            if run.complete and (says := wrong_output(one.asked, place, run.found)):
                return Part("values", False, says)
    if not all(one.complete for one in tried):
        return Part("values", None, NOT_JUDGED)
    sets = sum(len(one.runs) for one in tried)
    return Part("values", True, f"every element within its bound on {many(len(tried), 'problem')}, {sets} sets of numbers")


def wrong_output(asked: Trial, place: int, found: Mapping[str, Array]) -> str:
    """Which element of which output is wrong first, in one line; empty if none is."""
    for name, (wanted, bound) in asked.expected(asked.data[place]).items():
        wrong = first_wrong(name, found[name], wanted, bound)
        if wrong is not None:
            label = f", {asked.data_labels[place]}" if place < len(asked.data_labels) else ""
            return f"{wrong.says}{tile_of(asked, name, wrong.where)} ({asked.label}{label}: {sizes(asked)})"
    return ""


def tile_of(asked: Trial, name: str, where: tuple[int, ...]) -> str:
    """Which tile an element lies in, in words."""
    tensor = name.removeprefix("d").removesuffix("_acc")
    axes = [("key", "Bc")] if tensor in ("K", "V") else [("query", "Br"), *([("key", "Bc")] if tensor in ("S", "P") else [])]
    held = [
        f"{axis} tile {at // int(asked.params[block])}" for (axis, block), at in zip(axes, where, strict=False) if block in asked.params
    ]
    return f", in {' and '.join(held)}" if held else ""


def sizes(asked: Trial) -> str:
    """The problem in one line: the shapes of its inputs, and its parameters."""
    shapes = [f"{name} {rows}x{cols}" for name, (rows, cols) in asked.inputs.items()]
    return ", ".join([*shapes, *(f"{name} = {value:.4g}" for name, value in asked.params.items())])


def rules(tried: Sequence[Tried], counted: Sequence[Ran] = ()) -> Part:
    """Whether the machine's rules were kept: room, lifetimes, outputs written, and what was counted is what was executed."""
    stopped = next((one for one in tried if one.stop is not None), None)
    if stopped is not None:
        return _broken(stopped)
    for one, run in zip(tried, counted, strict=False):
        if says := _counted_otherwise(one.runs[0], run):
            return Part("rules", False, f"{says} ({one.asked.label})")
    closest = min(tried, key=lambda one: one.asked.sram - peak(one))
    unnamed = max(run.peak_unnamed for run in closest.runs)
    allowed = "" if closest.asked.registers is None else f" of {closest.asked.registers:,}"
    room = f"peak SRAM {peak(closest):,} of {closest.asked.sram:,} words"
    return Part("rules", True, f"{room}, at most {unnamed:,}{allowed} unnamed words at once ({closest.asked.label})")


def words(exercise: Exercise, tried: Sequence[Tried]) -> Part:
    """Whether the words are within the budget of every problem; if not, which array moved too often.

    Who takes more room than there is may well move fewer words: then they are told, and give no point.
    """
    if not all(one.complete for one in tried):
        return Part("words", None, NOT_JUDGED)
    over = next((one for one in tried if one.runs[0].words > one.asked.budget), None)
    shown = over or tried[0]
    counts = f"{shown.runs[0].words:,} moved, budget {shown.asked.budget:,}{_closed_form(exercise)}{_against(shown.asked)}"
    why = "" if over is None else f"; {too_often(exercise, over.asked, over.runs[0])}"
    if over is None and any(one.over is not None for one in tried):
        return Part("words", None, f"{counts} ({shown.asked.label}); not scored, since room ran out")
    return Part("words", over is None, f"{counts} ({shown.asked.label}){why}")


def too_often(exercise: Exercise, asked: Trial, run: Ran) -> str:
    """The array whose words exceed the solution's by most, in passes over it."""
    right = ran(asked, listing_attempt(exercise.solution, asked), asked.data[0], lax=True).traffic
    excess = {(name, way): moved[way] - right.get(name, (0, 0))[way] for name, moved in run.traffic.items() for way in (0, 1)}
    name, way = max(excess, key=lambda key: excess[key])
    moved, enough = run.traffic[name][way], right.get(name, (0, 0))[way]
    done, size = ("read", "written")[way], prod({**asked.inputs, **asked.outputs, **asked.scratch}[name])
    if moved % size or enough % size:
        return f"of {name}, {moved:,} words were {done} where {enough:,} will do"
    return f"{name} was {done} {times(moved // size)} where {_count(enough // size)} will do"


def times(passes: int) -> str:
    """How often an array moved."""
    return "once" if passes == 1 else f"{passes} times over"


def _count(passes: int) -> str:
    return "once" if passes == 1 else str(passes)


def blocks(asked: Trial) -> tuple[int, ...]:
    """The heights of the tiles of a problem."""
    return tuple(int(value) for name, value in asked.params.items() if name.startswith("B"))


def _broken(one: Tried) -> Part:
    """What a stop says about the rules."""
    stop = one.stop
    if stop is None or not stop.rule:
        return Part("rules", None, NOT_JUDGED)
    line = "" if stop.line is None else f"line {stop.line}: "
    return Part("rules", False, f"{line}{advised(stop.says, blocks(one.asked))}{_peak_of(one)} ({one.asked.label})")


def _counted_otherwise(executed: Ran, counted: Ran) -> str:
    """How a counted run differs from an executed one."""
    if counted.stop is not None:
        return f"when it is only counted, {counted.stop.says}"
    for name, moved in executed.traffic.items():
        if moved != counted.traffic.get(name):
            times, only = sum(moved), sum(counted.traffic.get(name, (0, 0)))
            return f"{name} moves {times:,} words, but {only:,} when the kernel is only counted; a body may depend on nothing but its tile"
    return ""


def peak(one: Tried) -> int:
    """The most that stood in SRAM at once, in any run."""
    return max(run.peak for run in one.runs)


def _peak_of(one: Tried) -> str:
    return "" if one.over is None else f"; in all it needs {peak(one):,} words of SRAM, and {one.asked.sram:,} are allowed"


def _closed_form(exercise: Exercise) -> str:
    form = exercise.check.closed_form if isinstance(exercise.check, KernelCheck) else ""
    return f" = {form}" if form else ""


def _against(asked: Trial) -> str:
    """The best known and the lower bound, where there are such."""
    known = [("best known in this SRAM, with other blocks or another order,", asked.best), ("lower bound", asked.least)]
    return "".join(f", {name} {count:,}" for name, count in known if count is not None)


def many(count: int, name: str) -> str:
    """A count and what is counted."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
