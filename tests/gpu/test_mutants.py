"""Deliberately wrong kernels: a text edit of the shipped source, and which meter notices it, on which array first.

Three verdicts: ``simulator`` counts apart from the kernel, ``counters`` believes the kernel, ``values`` are compared with the oracle's.
A kernel that does the wrong thing and says so is caught by both meters, one that lies by the difference, and one that computes the wrong
thing with the right traffic by its values alone. The emulator must say what the simulator says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest

from iosim.core.masks import patterns
from iosim_gpu import judge
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.declaration import Step
from iosim_gpu.meters import counters, emulator, simulator
from iosim_gpu.moved import Measured, Moved
from iosim_gpu.ptx import KernelFault
from tests.gpu.edits import Edit, edited, swapped
from tests.gpu.every import VARIANTS
from tests.gpu.hunt import gap

LOAD_Q = "load_tile(Q, head, i0, rows, q, t, n, Q_LOADS)"
LOAD_K = "load_tile(K, head, j0, cols, k, t, n, K_LOADS)"
LOAD_V = "load_tile(V, head, j0, cols, v, t, n, V_LOADS)"
CLIP_Q, CLIP_K = "rows = min(Br, Q.shape[1] - i0)", "cols = min(Bc, K.shape[1] - j0)"
START = "first_query(j0, ahead)"
CLEAR_DQ = "dQ[head, i0 + e // d, e % d] = np.float32(0.0)"
READ_O = "O[head, i0 + r, x]"
ADD_DQ = "cuda.atomic.add(dQ, (head, i0 + r, x), scale * acc)"
STORE_DK, STORE_DV = (f"store_tile({x}, head, j0, cols, {x.lower()}, t, n, {x.upper()}_STORES)" for x in ("dK", "dV"))
BY_ALL = "if t == 0:\n                    listed[2]", "if t >= 0:\n                    listed[2]"
SHORT = "range(listed[0], listed[1])", "range(listed[0], listed[1] - 1)"
UPDATE = "update_rows(s, l, m, a, b, head, i0, rows, cols, t, n)"


def twice(text: str) -> Edit:
    return text, f"{text}; {text}"


def also(text: str, more: str) -> Edit:
    return text, f"{text}; {more}"


def never(text: str) -> Edit:
    return text, "pass"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong ``step`` of ``kernel``, and the first array that each meter, and a look at the values, must name; "" for none."""

    name: str
    kernel: str
    step: str
    edit: Edit
    simulator: str = ""
    counters: str = ""
    values: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {self.name}"


MUTANTS = [
    Mutant("Q read again for every key tile", "flash2", "flash2", also(LOAD_K, LOAD_Q), "Q", "Q"),
    Mutant("K loaded twice", "flash2", "flash2", twice(LOAD_K), "K", "K"),
    Mutant("masked tiles are not skipped", "flash2", "flash2", ("end_of_keys(i0 + rows, ahead, K.shape[1])", "K.shape[1]"), "K", "K"),
    Mutant("the last query tile is not clipped", "flash2", "flash2", (CLIP_Q, "rows = Br"), "Q", "Q", "Q"),
    Mutant("the last key tile is not clipped", "flash2", "flash2", (CLIP_K, "cols = Bc"), "K", "K", "K"),
    Mutant("K is counted as V", "flash2", "flash2", (LOAD_K, LOAD_K.replace("K_LOADS", "V_LOADS")), "", "K"),
    Mutant("LSE is counted twice", "flash2", "flash2", ("n[LSE_STORES] += 1", "n[LSE_STORES] += 2"), "", "LSE"),
    Mutant("LSE is stored twice", "flash2", "flash2", twice("LSE[head, i0 + r] = lse"), "LSE"),
    Mutant("LSE is not stored, but counted", "flash2", "flash2", never("LSE[head, i0 + r] = lse"), "LSE", "", "LSE"),
    Mutant("the causal rule is one row late", "flash2", "flash2", ("i0 + ahead - j0, t)", "i0 + ahead - j0 + 1, t)"), "", "", "O"),
    Mutant("Q loaded twice", "flash", "flash", twice(LOAD_Q), "Q", "Q"),
    Mutant("K read again for every query tile", "flash", "flash", also(LOAD_Q, LOAD_K), "K", "K"),
    Mutant("masked tiles are not skipped", "flash", "flash", (START, "0"), "O", "O"),
    Mutant("the last key tile is not clipped", "flash", "flash", (CLIP_K, "cols = Bc"), "K", "K", "K"),
    Mutant("V is counted as Q", "flash", "flash", (LOAD_V, LOAD_V.replace("V_LOADS", "Q_LOADS")), "", "V"),
    Mutant("l and m are read twice", "flash", "flash", twice(UPDATE), "l", "l", "O"),
    Mutant("the list's end is read again", "block-sparse", "block-sparse", twice("listed[1] = indptr[j0 // Bc + 1]"), "indptr"),
    Mutant("every thread reads the list", "block-sparse", "block-sparse", BY_ALL, "indices", "indices"),
    Mutant("the list is one tile short", "block-sparse", "block-sparse", SHORT, "O", "O", "O"),
    Mutant("K of masked tiles is read", "standard", "scores", ("if j0 < end:\n", "if True:\n"), "K", "K"),
    Mutant("S is stored twice", "standard", "scores", twice("S[head, i0 + r, j0 + c] = acc"), "S"),
    Mutant("masked scores are not stored", "standard", "scores", ("in range(0, K.shape[1], Bc)", "in range(0, end, Bc)"), "S", "S", "O"),
    Mutant("P is counted once too often", "standard", "softmax", twice("n[P_STORES] += 1"), "", "P"),
    Mutant("V loaded twice", "standard", "weighted", twice(LOAD_V), "V", "V"),
    Mutant("O is not stored", "standard", "weighted", never("store_tile(O, head, i0, rows, o, t, n, O_STORES)"), "O", "O", "O"),
    Mutant("dQ added twice", "flash2-backward shared", "keys-outside", twice(ADD_DQ), "dQ", "", "dQ"),
    Mutant("dQ is not added", "flash2-backward shared", "keys-outside", never(ADD_DQ), "dQ", "", "dQ"),
    Mutant("dQ is not cleared first", "flash2-backward shared", "fill", never(CLEAR_DQ), "dQ", "", "dQ"),
    Mutant("masked tiles are not skipped", "flash2-backward shared", "keys-outside", (START, "0"), "dO", "dO"),
    Mutant("dV is stored twice", "flash2-backward shared", "keys-outside", twice(STORE_DV), "dV", "dV"),
    Mutant("dK is not stored", "flash2-backward shared", "keys-outside", never(STORE_DK), "dK", "dK", "dK"),
    Mutant("O is read twice", "flash2-backward shared", "delta", (f"* {READ_O}", f"* ({READ_O} + {READ_O}) / 2"), "O"),
    Mutant("K loaded twice", "flash2-backward own", "queries-outside", twice(LOAD_K), "K", "K"),
    Mutant("Q read again for every key tile", "flash2-backward own", "queries-outside", also(LOAD_K, LOAD_Q), "Q", "Q"),
]  # fmt: skip

NAMED = {str(mutant): mutant for mutant in MUTANTS}


def case_of(mutant: Mutant) -> Case:
    """Ragged tiles each way and a causal rule, so that every edit has something to spoil."""
    kernel, options = VARIANTS[mutant.kernel]
    mask = patterns.dense(21, 23, 8, 6) if KERNELS[kernel].masked else None
    return Case(kernel, 21, 5, 8, 6, 24, nk=23, causal=True, mask=mask, options=options)


def wrong_steps(mutant: Mutant) -> list[Step]:
    steps = case_of(mutant).steps
    (step,) = (step for step in steps if step.name == mutant.step)
    return swapped(steps, edited(step, mutant.edit))


def first_wrong(case: Case, found: Measured) -> str:
    """The first array, in the order of the prediction, whose counts are not the predicted ones."""
    predicted: Mapping[str, tuple[int, int]] = {array: (moved.reads, moved.writes) for array, moved in case.predicted().items()}
    for array in [*predicted, *found.arrays]:
        moved = found.arrays.get(array, Moved())
        if (moved.reads, moved.writes) != predicted.get(array, (0, 0)):
            return array
    return ""


def first_off(case: Case, found: Measured) -> str:
    """The first output whose values are not within their bound."""
    right, bounds = judge.truth(case, judge.inputs(case))
    return next((name for name in right if name in found.outputs and not gap(found.outputs[name], right[name]) <= bounds[name]), "")


def verdict(case: Case, measure: Callable[[], Measured]) -> tuple[str, str]:
    """What is wrong with counts and with values; the array that was left, for both, where the run ends there."""
    try:
        found = measure()
    except (IndexError, KernelFault) as error:
        return left_by(error), left_by(error)
    return first_wrong(case, found), first_off(case, found)


def left_by(error: Exception) -> str:
    """The array that an access fell outside of."""
    (array,) = re.findall(r"outside (?:of )?(\w+)", str(error))
    return str(array)


@pytest.mark.needs_simulator
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_simulator_and_the_counters_notice(mutant: Mutant, scheduler: None) -> None:
    assert mutant.simulator or mutant.counters or mutant.values
    case, steps = case_of(mutant), wrong_steps(mutant)
    seen, told = (verdict(case, partial(meter.measure, case, steps)) for meter in (simulator, counters))
    assert (seen[0], told[0], seen[1]) == (mutant.simulator, mutant.counters, mutant.values)


@pytest.mark.needs_simulator
@pytest.mark.parametrize("kernel", sorted({mutant.kernel for mutant in MUTANTS}))
def test_the_shipped_kernels_are_not_accused(kernel: str, scheduler: None) -> None:
    case = case_of(next(mutant for mutant in MUTANTS if mutant.kernel == kernel))
    for meter in (simulator, counters):
        assert verdict(case, partial(meter.measure, case)) == ("", "")


@pytest.mark.needs_simulator
def test_an_addition_that_is_not_atomic_reads_and_writes_as_much_but_is_none(scheduler: None) -> None:
    """Its counts are the predicted ones: what tells it is the kind of access, which the counters state and the simulator sees."""
    case = Case("flash2-backward", 21, 5, 8, 6, 24, nk=23, causal=True)
    plain = edited(case.steps[2], (ADD_DQ, "dQ[head, i0 + r, x] = dQ[head, i0 + r, x] + scale * acc"))
    seen, told = (meter.measure(case, swapped(case.steps, plain)) for meter in (simulator, counters))
    assert first_wrong(case, seen) == first_wrong(case, told) == ""
    assert (seen.arrays["dQ"].atomics, told.arrays["dQ"].atomics) == (0, told.arrays["dQ"].reads)


COMPILED = [
    "flash2: Q read again for every key tile",
    "flash2: masked tiles are not skipped",
    "flash2: the last key tile is not clipped",
    "flash2: LSE is not stored, but counted",
    "keys-outside: dQ added twice",
]
"""Each takes a second to compile."""


@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", COMPILED)
def test_the_emulator_notices_too(name: str) -> None:
    mutant = NAMED[name]
    case, steps = case_of(mutant), wrong_steps(mutant)
    assert verdict(case, partial(emulator.measure, case, steps)) == (mutant.simulator, mutant.values)


@pytest.mark.needs_compiler
def test_a_store_that_the_compiler_drops_is_not_measured() -> None:
    """Of two equal stores NVVM keeps one: the emulator counts what would run on a GPU, the simulator what is written in the source."""
    mutant = NAMED["flash2: LSE is stored twice"]
    case, steps = case_of(mutant), wrong_steps(mutant)
    assert verdict(case, partial(emulator.measure, case, steps)) == ("", "")


@pytest.mark.needs_compiler
def test_counters_that_lie_lie_on_the_emulator_too() -> None:
    mutant = NAMED["flash2: K is counted as V"]
    case, steps = case_of(mutant), wrong_steps(mutant)
    assert verdict(case, partial(counters.measure, case, steps, runner=emulator.launch)) == ("K", "")
