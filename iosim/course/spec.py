"""What an exercise is: its words, its solution, the mistakes that are typical of it, and how an answer is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from iosim.core.problem import Attention

Array = NDArray[np.generic]
Argument = Array | int | float
PartName = Literal["values", "rules", "words"]


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first thing that is wrong with a result: where, what was found, what was wanted."""

    says: str
    where: tuple[int, ...] = ()
    found: float | None = None
    wanted: float | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of one call of a function, and a few words for what is special about them ("huge logits")."""

    label: str
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """How a plain function is judged: ``draw`` makes fresh calls, special ones among them; ``judge`` says what is wrong, or None.

    ``judge`` gets the arguments and the results as arrays (an int that was returned comes as an int64 array of no dimension).
    ``arrays``: how many arrays the function returns. ``dtypes``: what each may be.
    """

    draw: Callable[[np.random.Generator], Sequence[Given]]
    judge: Callable[[Given, tuple[Array, ...]], Wrong | None]
    arrays: int = 1
    dtypes: tuple[str, ...] = ("float64",)


@dataclass(frozen=True, slots=True)
class Trial:
    """One problem on which a kernel runs.

    ``inputs``: the HBM arrays that it reads, in the order of its parameters, ``(rows, cols)``; each data set of ``data`` has numbers of
    those shapes (float32, or bool for a mask). ``outputs``, ``scratch``: the arrays that it fills, and those that only wait between tiles.
    ``params``: what it gets by keyword. ``mask``: a problem whose block mask, causal or window rule the kernel gets as ``mask``, cut into
    ``params["Br"]`` x ``params["Bc"]``. ``expected``: what outputs should be for one data set, in float64, with the bound that each keeps.
    ``budget``: the words that may move. ``best``: the fewest that are known, ``least``: what no schedule can do without, in the same SRAM.
    ``registers``: words that may live unnamed at once. ``data_labels``: a few words for each data set ("huge logits").
    """

    label: str
    inputs: Mapping[str, tuple[int, int]]
    outputs: Mapping[str, tuple[int, int]]
    params: Mapping[str, int | float]
    sram: int
    data: Sequence[Mapping[str, Array]]
    expected: Callable[[Mapping[str, Array]], Mapping[str, tuple[NDArray[np.float64], float]]]
    budget: int
    scratch: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    mask: Attention | None = None
    registers: int | None = None
    best: int | None = None
    least: int | None = None
    data_labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """How a kernel is judged: ``trials`` makes fresh problems, ragged ones, huge logits and N_q != N_k among them.

    ``closed_form``: the formula of the words that the solution moves.
    """

    trials: Callable[[np.random.Generator], Sequence[Trial]]
    closed_form: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong answer that people really give: edits of the solution, each of which must match once, and what to tell who gave it.

    ``fails``: the part of the verdict that it fails. A wrong answer is recognised by computing what this one computes.
    """

    name: str
    says: str
    edits: tuple[tuple[str, str], ...]
    fails: PartName = "values"


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise; its text, starter file, hints, solution and mistakes are all built from this.

    ``solution`` is the function itself: its signature and docstring are what students see, its body is what they write.
    ``header``: the imports of a submission. ``lines``: about how many lines are needed is computed from the solution.
    """

    number: int
    name: str
    title: str
    solution: Callable[..., Any]
    header: str
    learn: str
    formula: str
    paper: str
    why: str
    hints: tuple[str, str, str]
    check: FunctionCheck | KernelCheck
    mistakes: tuple[Mistake, ...]

    @property
    def kind(self) -> Literal["function", "kernel"]:
        """Plain NumPy in and out, or a listing on the machine."""
        return "function" if isinstance(self.check, FunctionCheck) else "kernel"

    @property
    def function(self) -> str:
        """The name of the function that is to be written."""
        return self.solution.__name__
