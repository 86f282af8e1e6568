"""Declarations: what they hold, and what contradicts itself in them; ours agree with their closed forms, and nobody asks for a name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iosim
import iosim_gpu
import iosim_reference
from iosim import KERNELS, Array, Attention, BadInput, BlockMask, Blocks, Option, Options, both, fills, keeps, reads, simulate
from iosim import kernel as declare
from iosim.attention.catalogue import kernel
from iosim.attention.declaration import ARRAYS, TAKEN, Kernel, Type, declarations
from iosim.attention.symbolic import closed_form
from iosim.core import dtypes
from iosim.core.expressions import evaluate
from iosim.core.options import OPTIONS
from iosim.memory import exp
from iosim.predict.formulas import FORMULAS

SMALL = Attention(n=12, d=4, nk=18, dv=3)


def plain(m: Any, Q: Any, K: Any, V: Any, O: Any, *, Br: int, Bc: int, scale: float) -> None:
    """Attention in one tile of keys, without a mask."""
    for i in m.tiles(Q.shape[0], Br):
        q, k, v = m.load(Q[i]), m.load(K[:]), m.load(V[:])
        s = m.let(scale * (q @ k.T), "S")
        s[...] = exp(s - s.rowmax())
        m.store(O[i], (s @ v) / s.rowsum())


# Ours and their closed forms


@pytest.fixture(params=KERNELS)
def own(request: pytest.FixtureRequest) -> Kernel:
    return KERNELS[request.param]


def combinations(own: Kernel) -> Iterator[Options]:
    """All values of all its options, together."""
    for values in product(*(option.choices for option in own.options)):
        yield own.chosen(dict(zip(own.has, values, strict=True)))


def test_every_kernel_has_a_closed_form_and_every_form_a_kernel() -> None:
    assert KERNELS.keys() == FORMULAS.keys()


def test_a_kernel_and_its_closed_form_say_the_same(own: Kernel) -> None:
    form = FORMULAS[own.name]
    assert {*form.options} == {*own.has} - {"skip", "pack"}  # which say what a listing is given
    assert form.skips == ("skip" in own.has)
    assert form.outside == own.outside
    assert form.masks == (own.brings is not None) == (own.computes == "masked")
    assert form.shares == any(array.per_kv_head and array.role == "output" for array in own.arrays)
    assert all(own.wide(options) == (form.wide or options.reuse == "ideal") for options in combinations(own))


def test_the_words_of_a_closed_form_are_of_declared_arrays(own: Kernel) -> None:
    from iosim.predict import terms

    mask = BlockMask.from_dense(np.ones((3, 6), bool), 12, 18, 4, 3) if own.brings else None
    problem = Attention(12, 4, nk=18, dv=3, block_mask=mask, dropout=0.5)
    for options in combinations(own):
        if options.accumulator != "float32" or options.first_pass == "create" or "first_pass" not in own.has:
            moved = {term.array for term in terms(own.name, problem, Blocks(4, 3), options)}
            held = {array.name for array in own.arrays if array.when(problem, options)}
            assert moved <= held | {"mask"}


def test_passes_know_each_other(own: Kernel) -> None:
    if own.forward is None:
        assert own.backward is not None
        assert KERNELS[str(own.backward)].forward is not None
    else:
        made = {array.name for array in KERNELS[str(own.forward)].arrays if array.role == "output"}
        assert {*own.inputs} <= {"Q", "K", "V", "dO"} | made
        assert any(other.backward == own.name for other in KERNELS.values())


def test_names_letters_and_places_are_their_own() -> None:
    for told in ("letter", "place"):
        values = [getattr(one, told) for one in KERNELS.values()]
        assert len({*values}) == len(values)
    assert [one.place for one in KERNELS.values()] == sorted(one.place for one in KERNELS.values())


def asked_by_name(tree: ast.AST) -> Iterator[int]:
    """The lines that compare something with the name of a kernel."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += [node.value] if isinstance(node, ast.MatchValue) else []
        parts = [part for side in sides for part in (side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side])]
        yield from (part.lineno for part in parts if isinstance(part, ast.Constant) and part.value in KERNELS)


def test_no_file_compares_the_name_of_a_kernel() -> None:
    files = [file for one in (iosim, iosim_gpu, iosim_reference) for file in Path(one.__path__[0]).rglob("*.py")]
    found = {str(file): [*asked_by_name(ast.parse(file.read_text(encoding="utf-8")))] for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_planted_comparison_is_found() -> None:
    planted = 'a == "flash"\nb in ("x", "block-sparse")\nmatch c:\n    case "x" | "fmha": pass\nd == "other"\nsimulate("flash2")\n'
    assert [*asked_by_name(ast.parse(planted))] == [1, 2, 4]


# What is declared is what a run holds


SIZES = {"n": 12, "nk": 18, "d": 4, "dv": 3, "Br": 5, "Bc": 7}
factors = st.sampled_from([*SIZES, "parts", "2", "ceil(nk / Bc)", "ceil(n / parts)"])
shapes = st.lists(factors, min_size=1, max_size=2).map(" * ".join) | st.tuples(factors, factors).map(" + ".join)


@given(rows=shapes, cols=shapes, parts=st.integers(1, 6), type_=st.sampled_from(get_args(Type)), dtype=st.sampled_from(dtypes.NAMES))
def test_an_array_has_the_shape_and_the_type_that_it_declares(rows: str, cols: str, parts: int, type_: Type, dtype: str) -> None:
    @declare(reads("Q", "K", "V"), keeps(Array("X", rows, cols, type_)), fills(), options=(Option("parts", 2, "how many"),), computes=None)
    def holds(m: Any, Q: Any, K: Any, V: Any, X: Any, *, parts: int) -> None:
        m.store(X[:], m.full(1.0, *X.shape, name="x"))

    problem = Attention(n=12, d=4, nk=18, dv=3, dtype=dtype)
    made = simulate(holds, problem, sram="1GiB", blocks=(5, 7), parts=parts)
    words = evaluate(rows, {**SIZES, "parts": parts}) * evaluate(cols, {**SIZES, "parts": parts})
    wide = {"storage": dtype, "accumulator": dtypes.accumulator(dtype), "scores": dtypes.intermediate(dtype)}
    item = dtypes.itemsize(wide[type_]) if type_ in wide else 1
    assert (made.arrays["X"].writes, made.arrays["X"].itemsize) == (words, item)
    assert made.agreed == {"executed": True, "derived": True, "replayed": True}
    assert made.peak_hbm == words + 12 * 4 + 18 * (4 + 3)


def test_an_output_must_be_written_whole_and_scratch_need_not() -> None:
    def listing(m: Any, Q: Any, K: Any, V: Any, X: Any) -> None:
        m.load(Q[:])

    assert simulate(declare(reads("Q", "K", "V"), keeps(Array("X", "n", "2")), computes=None)(listing), SMALL).sound
    del listing.declarations  # type: ignore[attr-defined]
    with pytest.raises(iosim.IosimError, match="never written"):
        simulate(declare(reads("Q", "K", "V"), fills(Array("X", "n", "2")), computes=None)(listing), SMALL)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_known_array_has_the_shape_of_the_papers(name: str) -> None:
    role = fills if name != "R" else keeps

    @declare(reads("Q", "K", "V"), role(name) if name not in ("Q", "K", "V") else fills(), computes=None)
    def holds(m: Any, Q: Any, K: Any, V: Any, X: Any = None) -> None:
        if X is not None:
            m.store(X[:], m.full(1.0, *X.shape, name="x"))

    made = simulate(holds, SMALL, sram=10**6)
    sizes = {**SIZES, "Br": 1, "Bc": 1}
    assert made.counts.peak_hbm_bytes >= made.counts.peak_hbm
    assert name in made.arrays
    assert made.arrays[name].writes in (0, evaluate(ARRAYS[name].rows, sizes) * evaluate(ARRAYS[name].cols, sizes))


def test_an_input_of_its_own_is_drawn_and_nothing_judges_what_comes_of_it() -> None:
    @declare(reads("Q", "K", "V", Array("bias", "n", "nk"), Array("kept", "n", "nk", "bool")), fills("O"), computes=None)
    def biased(m: Any, Q: Any, K: Any, V: Any, bias: Any, kept: Any, O: Any, *, Br: int, Bc: int) -> None:
        for i in m.tiles(Q.shape[0], Br):
            q, o = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="O")
            for j in m.tiles(K.shape[0], Bc):
                o += ((q @ m.load(K[j]).T + m.load(bias[i, j])) * m.load(kept[i, j])) @ m.load(V[j])
            m.store(O[i], o)

    for problem in (SMALL, Attention(n=12, d=4, nk=18, dv=3, heads=6, kv_heads=2, dtype="bfloat16")):
        made = simulate(biased, problem, sram=400)
        assert (made.sound, made.errors, made.bounds, made.record()["lower_bound"]) == (True, {}, {}, None)
        assert made.arrays["bias"].reads == made.arrays["kept"].reads == 12 * 18 * problem.heads
        assert made.arrays["kept"].itemsize == 1
        assert np.isfinite(made.values["O"].astype(float)).all()
        assert (made.values["O"] == simulate(biased, problem, sram=400).values["O"]).all()
        assert made.record()["max_error"] is None


def test_an_array_that_is_not_always_there_is_nothing_or_another_in_its_place() -> None:
    from iosim.attention.declaration import dropout, only

    seen: list[tuple[bool, bool]] = []

    @declare(reads("Q", "K", "V"), fills("O"), keeps(only("R", dropout), only("O_acc", dropout, "O")), computes=None)
    def listing(m: Any, Q: Any, K: Any, V: Any, O: Any, R: Any, O_acc: Any, *, mask: Any) -> None:
        seen.append((R is None, O_acc is O))
        m.store(O[:], m.full(0.0, *O.shape, name="o"))

    for p, expected in ((0.0, (True, True)), (0.5, (False, False))):
        seen.clear()
        made = simulate(listing, Attention(n=4, d=2, dropout=p))
        assert {*seen} == {expected}
        assert ("R" in made.arrays) == ("O_acc" in made.arrays) == (p > 0)


# Options


WAYS = (Option("mode", "a", "which way", ("a", "b")), Option("fast", False, "leave out steps"), Option("parts", 4, "how many", (1, 2)))


def test_options_reach_the_listing_with_their_defaults() -> None:
    given: list[tuple[object, ...]] = []

    @declare(reads("Q", "K", "V"), fills("O"), options=WAYS, computes=None)
    def listing(m: Any, Q: Any, K: Any, V: Any, O: Any, *, mode: str, fast: bool, parts: int) -> None:
        given.append((mode, fast, parts))
        m.store(O[:], m.full(0.0, *O.shape, name="o"))

    for options in ({}, {"mode": "b"}, {"fast": True, "parts": 9}, {"mode": None, "fast": False}):
        given.clear()
        made = simulate(listing, SMALL, **options)
        asked = {"mode": "a", "fast": False, "parts": 4} | {name: value for name, value in options.items() if value is not None}
        assert {*given} - {(asked["mode"], asked["fast"], asked["parts"])} == set()
        assert dict(made.plan.options) == asked
    for wrong in ({"mode": "c"}, {"fast": 1}, {"parts": 0}, {"parts": True}, {"first_pass": "load"}, {"splits": 3}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            simulate(listing, SMALL, **wrong)


def test_options_that_are_open_are_settled_and_those_that_do_not_go_together_refused() -> None:
    def settle(problem: Attention, _: object, given: dict[str, Any]) -> tuple[str, ...]:
        if given.get("mode") == "b" and given.get("fast"):
            raise BadInput("b is never fast")
        given.setdefault("parts", problem.n)
        return ("one part a query",)

    @declare(reads("Q", "K", "V"), fills("O"), options=WAYS, computes=None, settle=settle)
    def listing(m: Any, Q: Any, K: Any, V: Any, O: Any, *, mode: str, fast: bool, parts: int) -> None:
        m.store(O[:], m.full(float(parts), *O.shape, name="o"))

    made = simulate(listing, SMALL)
    assert (made.plan.options.parts, made.values["O"][0, 0], "one part a query" in made.notes) == (12, 12.0, True)
    with pytest.raises(BadInput, match="b is never fast"):
        simulate(listing, SMALL, mode="b", fast=True)


def test_no_option_can_be_called_like_what_a_function_of_iosim_takes() -> None:
    functions = [*(getattr(iosim, name) for name in iosim.__all__), closed_form]
    for function in functions:
        parameters = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
        if any(one.kind is one.VAR_KEYWORD and one.name == "options" for one in parameters):
            assert {one.name for one in parameters if one.kind is not one.VAR_KEYWORD} <= TAKEN
    assert not TAKEN & OPTIONS.keys()


# What it computes


def test_a_listing_may_do_what_flash2_does_with_masks_dropout_groups_and_packing() -> None:
    from iosim.attention.kernels.flash2 import flash2

    @declare(reads("Q", "K", "V"), fills("O", "LSE"), options=(OPTIONS["skip"], OPTIONS["pack"]), backward="flash2-backward")
    def mine(*given: Any, **named: Any) -> None:
        flash2(*given, **named)

    rules: tuple[dict[str, Any], ...] = (
        {}, {"causal": True}, {"window": (3, 2)}, {"mask": np.tri(9, 14, dtype=bool)}, {"dropout": 0.4},
        {"block_mask": BlockMask.from_dense(np.eye(3, 4, dtype=bool), 9, 14, 3, 4)}, {"heads": 4, "kv_heads": 2},
        {"heads": 4, "kv_heads": 1, "pack": True, "causal": True}, {"batch": 3}, {"causal": True, "skip": False},
    )  # fmt: skip
    for rule, dtype in product(rules, ("float32", "float64", "float8_e5m2")):
        given = {name: value for name, value in rule.items() if name not in ("pack", "skip")}
        options = {name: value for name, value in rule.items() if name in ("pack", "skip")}
        problem = Attention(n=9, d=4, nk=14, dv=3, dtype=dtype, **given)
        made, ours = (simulate(one, problem, sram=4096, blocks=(3, 4), **options) for one in (mine, "flash2"))
        assert made.sound
        assert (made.arrays, made.flops, made.peak_sram, made.errors, made.floors) == (
            ours.arrays, ours.flops, ours.peak_sram, ours.errors, ours.floors
        )  # fmt: skip
        assert all((made.values[name] == ours.values[name]).all() for name in ours.values)
    assert both(mine, SMALL).total == both("flash2", SMALL).total


def test_a_kernel_that_brings_its_mask_is_judged_on_the_pairs_that_it_leaves() -> None:
    from iosim.attention.kernels.flash import flash
    from iosim.core.masks.patterns import local_band

    def band(problem: Attention, blocks: Blocks) -> BlockMask:
        return local_band(problem.n, problem.nk, blocks.rows, blocks.cols, 1)

    @declare(reads("Q", "K", "V"), fills("O", "l", "m"), computes="masked", brings=band, outside="keys", options=(OPTIONS["skip"],))
    def banded(m: Any, Q: Any, K: Any, V: Any, O: Any, L: Any, M: Any, **named: Any) -> None:
        flash(m, Q, K, V, O, L, M, O, **named)

    made = simulate(banded, SMALL, sram=2000, blocks=(3, 3))
    assert made.sound
    assert made.problem.block_mask is not None
    assert made.total < simulate("flash", SMALL, sram=2000, blocks=(3, 3)).total
    assert made.total == simulate("block-sparse", made.problem, sram=2000, blocks=(3, 3)).total
    with pytest.raises(BadInput, match="block mask"):
        closed_form(banded)


def test_a_backward_kernel_reads_what_a_forward_kernel_of_ours_left() -> None:
    from iosim.attention.kernels.backward.flash2_backward import flash2_backward

    as_ours: dict[str, Any] = {"forward": "flash2", "outside": "keys", "options": (OPTIONS["skip"],)}

    @declare(reads("Q", "K", "V", "O", "LSE", "dO"), fills("dQ", "dK", "dV", "D"), **as_ours)
    def mine(*given: Any, **named: Any) -> None:
        flash2_backward(*(*given, given[7]), **named)

    for problem in (SMALL, Attention(n=9, d=4, nk=14, dv=3, heads=4, kv_heads=2, causal=True, dropout=0.3)):
        made, ours = (simulate(one, problem, sram=4096, blocks=(3, 4)) for one in (mine, "flash2-backward"))
        assert (made.arrays, made.errors, made.bounds, made.pass_) == (ours.arrays, ours.errors, ours.bounds, "backward")
        assert made.sound
    with pytest.raises(BadInput, match="reads P, but its forward kernel flash2"):
        kernel(declare(reads("Q", "P", "dO"), fills("dQ", "dK", "dV"), forward="flash2", name="odd")(lambda m, Q, P, dO, dQ, dK, dV: None))
    with pytest.raises(BadInput, match="reads O_acc"):  # which only waits between tiles
        kernel(declare(reads("O_acc", "dO"), fills("dQ", "dK", "dV"), forward="flash", name="odd")(lambda m, O_acc, dO, dQ, dK, dV: None))
    with pytest.raises(BadInput, match="unknown kernel 'flush'"):
        kernel(declare(reads("Q", "dO"), fills("dQ", "dK", "dV"), forward="flush", name="odd")(lambda m, Q, dO, dQ, dK, dV: None))


# Contradictions


def listing(m: Any, Q: Any, K: Any, V: Any, O: Any, *, Br: int, scale: float = 1.0, parts: int = 2) -> None: ...


async def waits(m: Any, Q: Any, K: Any, V: Any, O: Any) -> None: ...


def yields(m: Any, Q: Any, K: Any, V: Any, O: Any) -> Iterator[None]:
    yield


QKV, FILLS = reads("Q", "K", "V"), fills("O")
PARTS = Option("parts", 2, "how many")
CONTRADICTIONS: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "an array that nobody knows": (lambda: reads("Z"), ("'Z'", "Array(")),
    "a number for an array": (lambda: reads(5), ("5",)),  # type: ignore[arg-type]
    "an array with the name of the mask": (lambda: Array("mask", "n", "d"), ("mask",)),
    "an array with the name of one of many": (lambda: Array("X[0]", "n", "d"), ("X[0]",)),
    "a type that nobody knows": (lambda: Array("X", "n", "d", "float7"), ("float7", "scores")),  # type: ignore[arg-type]
    "a role that nobody knows": (lambda: Array("X", "n", "d", role="both"), ("both", "scratch")),  # type: ignore[arg-type]
    "names without a role": (lambda: declare("Q", "K")(listing), ("reads(", "fills(")),  # type: ignore[arg-type]
    "an array twice": (lambda: declare(QKV, reads("Q"), FILLS)(listing), ("listing", "'Q' twice")),
    "a size that nobody knows": (lambda: declare(QKV, fills(Array("O", "N", "d")), computes=None)(listing), ("'N'", "nk", "ceil")),
    "a size of a text": (
        lambda: declare(QKV, fills(Array("O", "n * way", "d")), options=(Option("way", "a", "", ("a",)),))(lambda m, Q, K, V, O, way: None),
        ("'n * way'",),
    ),
    "a shape of numbers": (lambda: declare(QKV, fills(Array("O", 5, "d")))(listing), ("5",)),  # type: ignore[arg-type]
    "another in place, not declared": (lambda: declare(QKV, fills(Array("O", "n", "d", instead="P")))(listing), ("'P'", "no such array")),
    "too few parameters": (lambda: declare(QKV, FILLS, keeps("S", "P"))(lambda m, Q: None), ("(m, Q, K, V, O, S, P, *, Br", "(m, Q)")),
    "too many parameters": (lambda: declare(reads("Q"), FILLS)(listing), ("(m, Q, O, *", "(m: 'Any', Q")),
    "another order": (lambda: declare(reads("K", "Q", "V"), FILLS)(listing), ("declares K where its listing has Q",)),
    "sizes in the place of an array": (lambda: declare(QKV, FILLS)(lambda m, Q, K, V, Br: None), ("(m, Q, K, V, Br)",)),
    "sizes by position alone": (lambda: declare(QKV, FILLS)(lambda m, Q, K, V, O, Br=1, /: None), ("Br by position alone",)),
    "a coroutine": (lambda: declare(QKV, FILLS)(waits), ("a coroutine", "async")),  # type: ignore[type-var]
    "a generator": (lambda: declare(QKV, FILLS)(yields), ("a generator", "yield")),  # type: ignore[type-var]
    "an option that is a text": (lambda: declare(QKV, FILLS, options=("parts",))(listing), ("'parts'", "Option(")),
    "one option, in no tuple": (lambda: declare(QKV, FILLS, options=PARTS)(listing), ("not iterable",)),
    "an option twice": (lambda: declare(QKV, FILLS, options=(PARTS, PARTS))(listing), ("'parts' twice",)),
    "an option without a parameter": (lambda: declare(QKV, FILLS, options=(Option("other", 2, ""),))(listing), ("'other'", "parameter")),
    "an option with two defaults": (lambda: declare(QKV, FILLS, options=(Option("parts", 3, ""),))(listing), ("parts with 3", "has 2")),
    "an option of ours, redefined": (lambda: declare(QKV, FILLS, options=(Option("pack", True, ""),))(listing), ("'pack'", "another name")),
    "an option called like a size": (lambda: declare(QKV, FILLS, options=(Option("nk", 3, ""),))(listing), ("'nk'", "another name")),
    "attention that fills no O": (lambda: declare(QKV, fills("LSE"))(listing), ("fill O", "computes=None")),
    "gradients that are not filled": (lambda: declare(QKV, FILLS, forward="flash2")(listing), ("dK, dQ, dV", "computes=None")),
    "dO without a forward kernel": (lambda: declare(reads("Q", "K", "dO"), FILLS)(listing), ("reads dO", "forward=")),
    "something else to compute": (lambda: declare(QKV, FILLS, computes="approximate")(listing), ("'approximate'", "'exact'")),
    "another axis": (lambda: declare(QKV, FILLS, outside="rows")(listing), ("'rows'", "'queries', 'keys'")),
    "a grid that is a number": (lambda: declare(QKV, FILLS, grid=7)(listing), ("grid=7", "function")),
    "nothing to settle": (lambda: declare(QKV, FILLS, settle=None)(listing), ("settle=None", "function")),
    "a colour by name": (lambda: declare(QKV, FILLS, colour="red")(listing), ("'red'", "#RRGGBB")),
    "a long letter": (lambda: declare(QKV, FILLS, letter="own")(listing), ("'own'",)),
    "a word that nobody knows": (lambda: declare(QKV, FILLS, colours="red")(listing), ("colours", "settle, grid")),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_declaration_that_contradicts_itself_is_refused_in_one_line(name: str) -> None:
    build, told = CONTRADICTIONS[name]
    with pytest.raises(BadInput) as caught:
        build()
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in told), str(caught.value)


def test_a_listing_that_was_declared_stays_as_it_is() -> None:
    assert declare(QKV, FILLS)(plain) is plain
    (made,) = declarations(plain)
    assert (made.name, made.inputs, made.outputs, made.has, str(made)) == ("plain", ("Q", "K", "V"), ("O",), (), "plain")
    assert simulate(plain, SMALL).total == simulate(kernel(plain), SMALL).total
    assert simulate(plain, SMALL).sound
