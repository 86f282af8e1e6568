"""Runs: what an attempt at a kernel did on the real machine, also where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from iosim.attention.kernels.masking import Mask
from iosim.core.errors import DeadValue, IosimError, KindMismatch, LoopMisuse, NotWritten, RegisterOverflow, SramOverflow
from iosim.core.events import Event
from iosim.course.grading.stream import Failed, Refused
from iosim.course.spec import Array, Trial
from iosim.course.trials import Data, declared, mask_of
from iosim.machine import Block, Hbm, Machine

Attempt = Callable[[Machine, Sequence[Hbm], Mask | None], None]
"""A kernel on one trial: a listing called with the trial's parameters, or the replay of a stream that one has emitted.

It raises what the machine raises, with a ``line`` where that is known, or :class:`Stopped`.
"""
RULES = (SramOverflow, RegisterOverflow, DeadValue, LoopMisuse, NotWritten, KindMismatch)
MOVES = ("load", "store", "init")
CHECKED = 4  # other tiles of each kind that a count visits too


class Stopped(Exception):
    """An answer that ended otherwise than by returning: what it raised itself, or why it was ended."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.line = line


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run was stopped: the error's name (empty where the words say it all) and words, and the line of the submission.

    ``rule``: a memory rule was broken. ``room``: there was not enough of it, so that the run may be repeated with more.
    """

    kind: str
    says: str
    line: int | None
    rule: bool
    room: bool = False

    @property
    def told(self) -> str:
        """The error as Python tells it."""
        return ": ".join(part for part in (self.kind, self.says) if part)


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt on one data set: outputs as far as they were written, words (reads, writes) of each array, the most that lived at once.

    ``complete``: the listing returned, whatever the machine said afterwards. ``moves``: the loads and stores, in order.
    """

    found: Mapping[str, Array]
    traffic: Mapping[str, tuple[int, int]]
    peak: int
    largest_unnamed: int
    peak_unnamed: int
    complete: bool
    moves: tuple[Event, ...]
    stop: Stop | None = None

    @property
    def words(self) -> int:
        """Words moved, all arrays together."""
        return sum(map(sum, self.traffic.values()))


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt on the data sets of a trial, up to one that was stopped.

    ``over``: why it was run again with room and registers enough, if it was.
    """

    asked: Trial
    runs: tuple[Ran, ...]
    over: Stop | None

    @property
    def stop(self) -> Stop | None:
        """What was wrong first: the room, or what ended a run."""
        return self.over or next((run.stop for run in self.runs if run.stop is not None), None)

    @property
    def complete(self) -> bool:
        """Whether every run returned."""
        return all(run.complete for run in self.runs)


class Begun(Machine):
    """A machine on which a running maximum begins at a number, not at -inf: what divides 0 by 0 elsewhere says something here."""

    __slots__ = ()

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number, or of -4 where -inf was asked for."""
        return super().full(-4.0 if fill == -np.inf else fill, rows, cols, name=name)


def attempted(asked: Trial, attempt: Attempt) -> Tried:
    """Run every data set; where room or registers do not suffice, run all again without those limits, so that the rest can be judged."""
    runs = _on_all(asked, attempt)
    over = next((run.stop for run in runs if run.stop is not None and run.stop.room), None)
    if over is not None:
        runs = _on_all(asked, attempt, lax=True)
    return Tried(asked, runs, over)


def _on_all(asked: Trial, attempt: Attempt, *, lax: bool = False) -> tuple[Ran, ...]:
    """One run for each data set, up to the first that did not come to its end: the others would not either."""
    runs: list[Ran] = []
    for data in asked.data:
        runs.append(ran(asked, attempt, data, lax=lax))
        if not runs[-1].complete:
            break
    return tuple(runs)


def ran(asked: Trial, attempt: Attempt, data: Data, *, lax: bool = False, begun: bool = False) -> Ran:
    """Run an attempt on one data set; ``lax`` lets it exceed its room and its registers, ``begun`` on a machine of that kind."""
    moves: list[Event] = []
    m = (Begun if begun else Machine)(
        asked.sram, overflow="record" if lax else "error", registers=None if lax else asked.registers,
        observers=[lambda event: moves.append(event) if event.kind in MOVES else None],
    )  # fmt: skip
    return _watched(m, asked, attempt, data, moves)


def counted_run(asked: Trial, attempt: Attempt) -> Ran:
    """Only count it: one tile of each kind, and a few others to compare with it."""
    return _watched(Machine(mode="count", check=CHECKED), asked, attempt, None, [])


def compared_run(asked: Trial, attempt: Attempt) -> Ran:
    """Run it without numbers on every tile, each of which has to do what the others of its kind do: counting takes that for granted."""
    return _watched(Machine(mode="trace", check=1), asked, attempt, None, [])


def listing_attempt(listing: Callable[..., object], asked: Trial) -> Attempt:
    """A listing in this process, called with the trial's parameters; errors of its own are told with their lines."""

    def attempt(m: Machine, arrays: Sequence[Hbm], mask: Mask | None) -> None:
        rules = {} if mask is None else {"mask": mask}
        try:
            listing(m, *arrays, **asked.params, **rules)
        except IosimError as error:
            vars(error)["line"] = line_of(error.__traceback__, listing)
            raise
        except (Exception, SystemExit) as error:
            raise stopped(error, listing) from error

    return attempt


def stopped(error: BaseException, function: Callable[..., object]) -> Stopped:
    """An error of a function itself, in one line, and where it was."""
    said = " ".join(str(error).split())
    return Stopped(f"{type(error).__name__}: {said}" if said else type(error).__name__, line_of(error.__traceback__, function))


def line_of(trace: TracebackType | None, function: Callable[..., object]) -> int | None:
    """The last line of the function's file that was being run; None where none was."""
    file, line = getattr(getattr(function, "__code__", None), "co_filename", None), None
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return line


def _watched(m: Machine, asked: Trial, attempt: Attempt, data: Data | None, moves: list[Event]) -> Ran:
    arrays = declared(m, asked, data)
    stop = _stop(lambda: attempt(m, arrays, mask_of(asked))) or _own_arrays(m, arrays)
    complete = stop is None
    stop = stop or _stop(m.finish)
    m.finished = True  # whatever stopped it, its numbers may be looked at now
    return Ran(
        found={a.name: a.data for a in arrays if a.name in asked.outputs} if m.mode == "execute" else {},
        traffic={a.name: (a.reads, a.writes) for a in m.arrays.values()},
        peak=m.peak, largest_unnamed=m.largest_unnamed, peak_unnamed=m.peak_unnamed, complete=complete, moves=tuple(moves), stop=stop,
    )  # fmt: skip


def _stop(run: Callable[[], object]) -> Stop | None:
    """Run, and tell what stopped it: a rule of the machine, or something that makes no sense to it."""
    try:
        with np.errstate(all="ignore"):
            run()
    except (IosimError, Stopped) as error:
        return stop_of(error)
    return None


def stop_of(error: IosimError | Stopped) -> Stop:
    """What an error says of the run that it stopped; a stream tells of an exception of the submission by its name."""
    line = getattr(error, "line", None)
    if isinstance(error, Failed):
        return Stop(error.kind, " ".join(error.message.split()), line, rule=error.kind in {rule.__name__ for rule in RULES})
    if isinstance(error, Stopped | Refused):
        return Stop("", str(error), line, rule=False)
    return Stop(type(error).__name__, str(error), line, isinstance(error, RULES), isinstance(error, SramOverflow | RegisterOverflow))


def _own_arrays(m: Machine, given: Sequence[Hbm]) -> Stop | None:
    own = [name for name, array in m.arrays.items() if array not in given]
    if not own:
        return None
    says = f"it declared HBM arrays of its own, {', '.join(own)}; a listing moves the arrays that it is given"
    return Stop("OwnArrays", says, None, rule=True)
