"""What a listing can call is the same on every machine, with the same parameters, and does the same. Verbs are found here, not listed."""

from __future__ import annotations

import inspect
import operator
from types import FunctionType
from typing import Any, cast

import numpy as np
import pytest

from iosim import machine, memory
from iosim.attention.kernels.masking import Mask
from iosim.attention.symbolic import SIZES, Everywhere, SymbolicMachine
from iosim.core.expressions import ceiling
from iosim.core.masks.grid import Grid, Members, grid, index_rule
from iosim.core.problem import Attention, Blocks
from iosim.course.grading import records as r
from iosim.course.grading import standin_masks
from iosim.course.grading.caps import UNBOUNDED
from iosim.course.grading.job import kernel_job, tables_of
from iosim.course.grading.kernel_child import OPEN
from iosim.course.grading.recording import record
from iosim.course.grading.replay import HANDLERS, replay
from iosim.machine.ledger import Ledger, Scope
from iosim.memory import Counts, Hbm, Machine

OFFERED = OPEN["iosim.memory"]
OWN = [value for name in machine.__all__ if (value := getattr(machine, name)).__module__.startswith("iosim.machine.")]
CLASSES = [kind for kind in OWN if isinstance(kind, type)]
FUNCTIONS = {one.__name__: one for one in OWN if isinstance(one, FunctionType)}
INSIDE = {*dir(Ledger), *dir(Scope), *dir(Members)}  # what machines and masks ask for among themselves


def verbs(of: type) -> dict[str, Any]:
    """What can be called on it: the methods, operators and properties that its classes define, but for what they refuse."""
    found = {name: value for base in reversed(of.__mro__[:-1]) for name, value in vars(base).items() if name not in INSIDE}
    return {name: value for name, value in found.items() if is_verb(name, value)}


def is_verb(name: str, value: object) -> bool:
    asked = value.fget if isinstance(value, property) else value
    is_operator = hasattr(operator, name) or hasattr(operator, name.replace("__r", "__"))
    return isinstance(asked, FunctionType) and asked.__name__ not in ("_refuse", "_assign") and (name[0] != "_" or is_operator)


def test_what_listings_import_is_offered_to_submissions() -> None:
    assert {kind.__name__ for kind in CLASSES} | {"Mask"} == {name for name, value in OFFERED.items() if isinstance(value, type)}
    assert set(FUNCTIONS) == {name for name, value in OFFERED.items() if isinstance(value, FunctionType)}
    for name, function in FUNCTIONS.items():
        assert list(inspect.signature(function).parameters) == list(inspect.signature(OFFERED[name]).parameters), name


@pytest.mark.parametrize("real", [*CLASSES, Mask, Grid], ids=lambda kind: kind.__name__)
def test_the_stand_in_has_every_verb_of_the_machine(real: type) -> None:
    stand_in = OFFERED.get(real.__name__, standin_masks.Grid)
    assert set(verbs(real)) <= set(verbs(stand_in))
    for name, verb in verbs(real).items():
        mirrored = getattr(stand_in, name)
        if isinstance(verb, FunctionType) and name[0] != "_" and mirrored.__name__ != "_not_here":
            assert list(inspect.signature(verb).parameters) == list(inspect.signature(mirrored).parameters), name


def test_the_symbolic_grid_answers_what_a_grid_does() -> None:
    assert set(verbs(Grid)) <= set(verbs(Everywhere))


def test_what_is_written_down_is_replayed() -> None:
    assert set(HANDLERS) == set(r.USES) - {r.FAIL}


SAID = '''
from iosim.memory import exp, finite, log, maximum, nonzero, where


def listing(m, X, Y, Z, W, P, *, Br, Bc, mask):
    """Every verb, on blocks of as many rows and columns as tiles have: so all counts are sums of sizes."""
    (n, d), nk = X.shape, Y.shape[0]
    for i in m.tiles(n, Br):
        x, total = m.load(X[i]), m.empty(i.size, d, name="total")
        total[...] = x
        for j in m.tiles(nk, Bc, seen=mask.grid.row(i)):
            s = m.let(x @ m.load(Y[j]).T, "s")
            mask.hide(m, s, i, j)
            s[...] = exp(finite(s) - maximum(s.rowmax(), 0.0))
            total += s @ m.load(Y[j])
        for j in m.tiles(nk, Bc):
            m.store(P[j.slot(2)], m.full(1.0, 2, d, name="two"))
            for k in j.tiles(2):
                y = m.load(Y[k])
                y *= 2.0
                y /= nonzero(1.0 - y) + 1.0 / (3.0 + y * y)
                y -= (2.0 * m.pairs(mask.rule, i, k)).T @ x
                m.store(W[k], y)
        m.store(Z[i], where(total, log(total / 2.0 + x.rowsum()), 1.0) + m.full(0.5, i.size, d, name="half"), init=True)
        assert (x.words, X.words) == (i.size * d, n * d)
'''
PROBLEM, CUT = Attention(11, 3, nk=7, causal=True), Blocks(4, 5)
FULL = Attention(11, 3, nk=7)


def declared(m: Machine, n: Any, nk: Any, d: Any, Bc: Any = 5) -> list[Hbm]:
    X, Y = np.arange(33.0).reshape(11, 3) / 33, np.arange(21.0).reshape(7, 3) / 21
    return [
        m.input("X", (n, d), X),
        m.input("Y", (nk, d), Y),
        m.output("Z", (n, d)),
        m.output("W", (nk, d)),
        m.output("P", (2 * ceiling(nk, Bc), d)),
    ]


def said(m: Machine, asked: Attention) -> list[Hbm]:
    """Run the listing that says everything."""
    world: dict[str, Any] = {}
    exec(SAID, world)
    arrays = declared(m, 11, 7, 3)
    world["listing"](m, *arrays, Br=4, Bc=5, mask=mask_of(asked))
    return arrays


def mask_of(asked: Attention) -> Mask:
    return Mask(grid(asked, CUT), index_rule(PROBLEM))


def test_the_listing_says_every_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    said_so: set[tuple[Any, str]] = set()

    def noted(place: Any, name: str, verb: Any) -> Any:
        if isinstance(verb, property):
            return property(noted(place, name, verb.fget))

        def call(*args: Any, **options: Any) -> Any:
            said_so.add((place, name))
            return verb(*args, **options)

        return call

    places = {(base, name): vars(base)[name] for kind in CLASSES for base in kind.__mro__ for name in verbs(kind) if name in vars(base)}
    found: dict[tuple[Any, str], Any] = places | {(memory, name): function for name, function in FUNCTIONS.items()}
    for (place, name), verb in found.items():
        monkeypatch.setattr(place, name, noted(place, name, verb))
    m = Machine()
    arrays = said(m, PROBLEM)
    m.finish()
    assert all(np.isfinite(array.data).all() for array in arrays)
    assert set(found) == said_so


def test_the_machine_does_alike_in_every_mode() -> None:
    counts = []
    for mode in ("execute", "trace", "count"):
        m = Machine(mode=mode, check=100)
        said(m, PROBLEM)
        counts.append(m.finish())
    assert counts[0] == counts[1] == counts[2]


def test_the_stand_in_does_alike() -> None:
    m, other = Machine(), Machine()
    here, there = said(m, PROBLEM), declared(other, 11, 7, 3)
    shapes = {array.name: array.shape for array in there}
    job = kernel_job("listing", shapes, {"Br": 4, "Bc": 5}, tables_of(mask_of(PROBLEM)))
    replay(record(SAID, job), other, there, mask_of(PROBLEM), UNBOUNDED)
    assert other.finish() == m.finish()
    assert [array.data.tobytes() for array in there] == [array.data.tobytes() for array in here]


def test_the_symbolic_machine_does_alike() -> None:
    """Where all pairs attend, as in a symbolic grid; the same sizes put in give the same counts."""
    N_q, N_k, d, _, Br, Bc = SIZES
    m, counter = SymbolicMachine(), Machine(mode="count")
    world: dict[str, Any] = {}
    exec(SAID, world)
    mask = Mask(cast(Grid, Everywhere()), index_rule(PROBLEM))
    world["listing"](m, *declared(m, N_q, N_k, d, Bc), Br=Br, Bc=Bc, mask=mask)
    said(counter, FULL)
    at = {N_q: 11, N_k: 7, d: 3, Br: 4, Bc: 5}
    assert [words.subs(at) for words in numbers(m.finish())] == numbers(counter.finish())


def numbers(counts: Counts) -> list[Any]:
    moved = [words for array in counts.arrays.values() for words in (array.reads, array.writes, array.init_writes)]
    return [*moved, counts.flops.matmul, counts.flops.elementwise, counts.flops.exp]
