"""Symbolic runs: the listings derive their own closed forms, which are those written by hand, those counted, and those of the papers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, Attention, Blocks, predict
from iosim.attention.catalogue import kernel
from iosim.attention.kernels.flash2 import flash2
from iosim.attention.plan import make_plan
from iosim.attention.symbolic import SIZES, ClosedForm, Everywhere, Moves, SymbolicMachine, closed_form
from iosim.attention.symbolic.sizes import NUMBERS, of_term
from iosim.attention.symbolic.spelled import FORMULA, PLAIN
from iosim.core.errors import BadInput, DeadValue, LoopMisuse
from iosim.core.units import Capacity
from iosim.memory import Counts, Hbm, Machine
from iosim.predict.formulas import FORMULAS
from iosim.study.formula.check import check_formula
from iosim.study.formula.typed import parse
from iosim.testing import variants

N_q, N_k, d, d_v, Br, Bc = SIZES
T_r, T_c = sympy.ceiling(N_q / Br), sympy.ceiling(N_k / Bc)
AMPLE = Capacity(2**40)

DERIVED = [name for name, found in KERNELS.items() if found.brings is None]


def asked_of(name: str) -> list[dict[str, Any]]:
    return [*variants(name, skip=True, pack=False), {"dropout": 0.1}]


CASES = [pytest.param(name, asked, id=" ".join([name, *map(str, asked.values())])) for name in DERIVED for asked in asked_of(name)]
POINTS = [  # n, nk, d, dv, Br, Bc: one tile, two, three; ragged and not; blocks as large as their axes, and larger
    (12, 12, 4, 4, 4, 4), (13, 17, 3, 5, 4, 5), (9, 7, 2, 1, 9, 7), (5, 3, 4, 7, 8, 8), (16, 9, 5, 7, 5, 8), (7, 21, 1, 3, 2, 10),
]  # fmt: skip


@cache
def derived(name: str, *asked: tuple[str, Any]) -> ClosedForm:
    return closed_form(name, **dict(asked))


def form(name: str, asked: dict[str, Any]) -> ClosedForm:
    return derived(name, *asked.items())


@pytest.mark.parametrize(("name", "asked"), CASES)
def test_the_listing_derives_the_closed_form_by_hand(name: str, asked: dict[str, Any]) -> None:
    found = form(name, asked)
    assert found.derived == found.by_hand
    assert found.agrees
    assert all(line.equal for line in found.lines())
    assert found.total.free_symbols <= set(SIZES)


@pytest.mark.parametrize(("name", "asked"), CASES)
def test_at_ragged_sizes_it_is_what_is_predicted_and_counted(name: str, asked: dict[str, Any]) -> None:
    found, options = form(name, asked), {key: value for key, value in asked.items() if key != "dropout"}
    for n, nk, width, width_v, rows, cols in POINTS:
        problem = Attention(n, width, nk=nk, dv=width_v, dropout=asked.get("dropout", 0.0))
        plan = make_plan(name, problem, AMPLE, (rows, cols), None, {"softmax": "rows", **options} if "standard" in name else options)
        counts = plan.count()
        words = found.at(n=n, nk=nk, d=width, dv=width_v, Br=rows, Bc=cols)
        assert words == predict.predict(name, problem, Blocks(rows, cols), plan.options)
        assert words == {array: predict.Moved(c.reads, c.writes, c.init_writes) for array, c in counts.arrays.items()}
        sizes = dict(zip(SIZES, (n, nk, width, width_v, min(rows, n), min(cols, nk)), strict=True))
        flops = counts.flops.matmul, counts.flops.elementwise, counts.flops.exp
        assert tuple(sum_ and sum_.subs(sizes) for sum_ in found.operations) == flops


def test_flash2_is_that_of_the_paper() -> None:
    """FlashAttention-2 (arXiv 2307.08691, Algorithm 1): reads Nq d + Tr 2 Nk d, writes Nq d + Nq where d = d_v."""
    found = derived("flash2").derived
    assert {array: tuple(moves) for array, moves in found.items()} == {
        "Q": (N_q * d, 0, 0), "K": (T_r * N_k * d, 0, 0), "V": (T_r * N_k * d_v, 0, 0), "O": (0, N_q * d_v, 0), "LSE": (0, N_q, 0),
    }  # fmt: skip
    total = derived("flash2").total.subs(d_v, d)
    assert sympy.expand(total - (2 * N_q * d + 2 * N_k * d * T_r + N_q)) == 0


@pytest.mark.parametrize(
    ("asked", "reads", "writes", "filled"),
    [
        ({}, 2 * N_k * d + T_c * (2 * N_q * d + 2 * N_q), T_c * (N_q * d + 2 * N_q), N_q * d + 2 * N_q),
        ({"first_pass": "create"}, 2 * N_k * d + T_c * N_q * d + (T_c - 1) * (N_q * d + 2 * N_q), T_c * (N_q * d + 2 * N_q), 0),
    ],
)
def test_flash_is_that_of_the_paper(asked: dict[str, Any], reads: sympy.Expr, writes: sympy.Expr, filled: sympy.Expr) -> None:
    """FlashAttention (arXiv 2205.14135, Algorithm 1) where d = d_v: as printed, line 2 apart, and without what a first visit reads."""
    found = [Moves(*(words.subs(d_v, d) for words in moves)) for moves in form("flash", asked).derived.values()]
    assert sympy.expand(sum(moves.reads for moves in found) - reads) == 0
    assert sympy.expand(sum(moves.writes for moves in found) - writes - filled) == 0
    assert sympy.expand(sum(moves.init_writes for moves in found) - filled) == 0


@pytest.mark.parametrize(("asked", "ideal"), [({"reuse": "ideal"}, True), ({}, False)])
def test_standard_is_that_of_the_paper(asked: dict[str, Any], ideal: bool) -> None:
    """Algorithm 0: 4 N^2 + 4 N d where every operand moves once; K and V once a query tile otherwise."""
    N, T = sympy.symbols("N T_r", integer=True, positive=True)
    keys = 2 * N * d if ideal else 2 * T * N * d
    assert sympy.expand(form("standard", asked).square - (4 * N**2 + 2 * N * d + keys)) == 0


@pytest.mark.parametrize(
    ("name", "asked"),
    [("flash2", {}), ("flash", {"first_pass": "create"}), ("flash2-backward", {"dq_pass": "own"}), ("square-tiles", {})],
)
def test_its_formula_passes_the_check_of_formulas(name: str, asked: dict[str, Any]) -> None:
    verdict = check_formula(name, form(name, asked).formula, **asked)
    assert verdict.holds, verdict
    assert verdict.points > 50


@pytest.mark.parametrize(
    "symbol",
    sorted({t.symbol for closed in FORMULAS for t in predict.dense_terms(closed, n=9, nk=7, d=5, dv=4, Br=2, Bc=3, dropout=True)}),
)
def test_symbols_of_terms_are_read_as_their_numbers(symbol: str) -> None:
    given_ = predict.Term("X", "read", 1, 1, symbol, "")
    sizes = dict(zip(SIZES, (9, 7, 5, 4, 2, 3), strict=True))
    found = {
        t.total
        for closed in FORMULAS
        for t in predict.dense_terms(closed, n=9, nk=7, d=5, dv=4, Br=2, Bc=3, dropout=True)
        if t.symbol == symbol
    }
    assert found == {of_term(given_).subs(sizes)}


def wrong(listing: Callable[..., None], again: str) -> Callable[..., None]:
    @wraps(listing)
    def run(m: Machine, *arrays: Hbm, **options: Any) -> None:
        listing(m, *arrays, **options)
        for i in m.tiles(arrays[0].shape[0], options["Br"]):
            m.load(next(array for array in arrays if array.name == again)[i])

    return run


def test_a_listing_that_moves_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KERNELS, "flash2", replace(kernel("flash2"), listing=wrong(flash2, "O")))
    found = closed_form("flash2")
    assert not found.agrees
    assert [(line.array, line.move, line.by_hand) for line in found.lines() if not line.equal] == [("O", "read", "0")]
    assert "DIFFERENT" in str(found)


def test_a_wrong_term_by_hand_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FORMULAS["flash2"]
    monkeypatch.setitem(FORMULAS, "flash2", replace(right, terms=lambda *asked: iter(list(right.terms(*asked))[1:])))
    found = closed_form("flash2")
    assert [(line.array, line.derived, line.by_hand) for line in found.lines() if not line.equal] == [("Q", N_q * d, "0")]


def machine() -> tuple[SymbolicMachine, Hbm, Hbm, Any]:
    m = SymbolicMachine()
    return m, m.input("X", (N_q, d)), m.output("Y", (N_q, N_k)), Everywhere()


def test_a_loop_of_ones_own_is_summed_exactly() -> None:
    m, X, Y, grid = machine()
    for j in m.tiles(N_k, Bc):
        for i in m.tiles(N_q, Br, seen=grid.col(j)):
            x = m.load(X[i])
            if i.first:
                m.load(X[i])
            m.store(Y[i, j], m.full(0.0, i.size, j.size, name="y"))
            x *= 2.0
    counts = m.finish()
    assert counts.arrays["X"].reads == sympy.expand(T_c * N_q * d + N_q * d)
    assert counts.arrays["Y"].writes == N_q * N_k
    assert counts.flops.elementwise == T_c * N_q * d


def test_what_depends_on_the_rows_of_the_first_tile_has_no_closed_form() -> None:
    m, _, Y, grid = machine()
    for j in m.tiles(N_k, Bc):
        for i in m.tiles(N_q, Br, seen=grid.col(j)):
            if i.first:
                m.store(Y[i, j], m.full(0.0, i.size, j.size, name="y"))
    with pytest.raises(BadInput, match="no closed form"):
        m.finish()


def test_what_an_only_visit_alone_does_has_no_closed_form() -> None:
    m, X, _, grid = machine()
    for j in m.tiles(N_k, Bc):
        for i in m.tiles(N_q, Br, seen=grid.col(j)):
            if i.first and i.last:
                m.load(X[i])
    with pytest.raises(BadInput, match="no closed form"):
        m.finish()


def test_squares_of_tiles_have_no_closed_form() -> None:
    m = SymbolicMachine()
    X = m.input("X", (N_q, N_q))
    for i in m.tiles(N_q, Br):
        m.load(X[i, i])
    with pytest.raises(BadInput, match="not linear in the rows of a tile"):
        m.finish()


def nested(m: Machine, X: Hbm, Y: Hbm, outer: Any, inner: Any, inmost: Any, *, divides: bool) -> None:
    """Tiles inside tiles inside tiles, whose rows are read, written and added; what is done once in each of the middle ones counts them."""
    for i in m.tiles(X.shape[0], outer):
        x = m.load(X[i])
        for j in i.tiles(inner):
            if divides:
                m.full(0.0, 1, 1, name="one") + 1.0
            for k in j.tiles(inmost):
                for l in m.tiles(Y.shape[1], inner):
                    m.store(Y[k, l], m.load(Y[k, l]) + m.load(X[k]).rowsum())
        x += 1.0


@cache
def nested_words(*heights: Any) -> dict[str, sympy.Expr]:
    m = SymbolicMachine()
    nested(m, m.input("X", (N_q, d_v)), m.output("Y", (N_q, N_k), whole=False), *heights, divides=heights[0] % heights[1] == 0)
    return flat(m.finish())


def flat(counts: Counts) -> dict[str, Any]:
    moved = {f"{name} {way}": getattr(array, way) for name, array in counts.arrays.items() for way in ("reads", "writes")}
    return moved | {"elementwise": counts.flops.elementwise}


@pytest.mark.parametrize("heights", [(Br, d, 2), (6 * Bc, 3 * Bc, Bc), (4 * Bc, 2 * Bc, 3), (Br, Br, Br), (9, 4, 2)])
@given(sizes=st.tuples(*[st.integers(1, 9)] * 6))
def test_tiles_inside_tiles_are_summed_exactly(heights: tuple[Any, Any, Any], sizes: tuple[int, ...]) -> None:
    m, at = Machine(mode="count"), dict(zip(SIZES, sizes, strict=True))
    X, Y, zero = m.input("X", (at[N_q], at[d_v])), m.output("Y", (at[N_q], at[N_k])), m.full(0.0, at[N_q], at[N_k], name="zero")
    m.store(Y[:], zero)
    nested(m, X, Y, *(int(sympy.sympify(size).subs(at)) for size in heights), divides=heights[0] % heights[1] == 0)
    found = flat(m.finish())
    assert {name: words.subs(at) for name, words in nested_words(*heights).items()} == found | {"Y writes": found["Y writes"] - zero.words}


def test_ragged_tiles_inside_tiles_may_have_no_closed_form() -> None:
    def read_again(m: SymbolicMachine, X: Hbm, grid: Any) -> None:
        for i in m.tiles(N_q, Br):
            for _ in i.tiles(Bc):
                m.load(X[i])

    def count_inside_the_first(m: SymbolicMachine, X: Hbm, grid: Any) -> None:
        for j in m.tiles(N_k, 2 * Bc):
            for _ in j.tiles(Bc):
                for i in m.tiles(N_q, Br, seen=grid.col(j)):
                    if i.first:
                        m.load(X[i])

    for listing in (read_again, count_inside_the_first):
        m, X, _, grid = machine()
        listing(m, X, grid)
        with pytest.raises(BadInput, match=r"not linear in the rows of a tile.*no closed form"):
            m.finish()


def test_operations_without_a_sum_are_left_open() -> None:
    m, X, _, _ = machine()
    for i in m.tiles(N_q, Br):
        for _ in i.tiles(Bc):
            m.full(0.0, 1, 1, name="one") + 1.0
        m.load(X[i]) @ m.full(0.0, X.shape[1], 2, name="two")
    flops = m.finish().flops
    assert flops.elementwise is None
    assert flops.matmul == 4 * N_q * d


def test_tiles_of_another_axis_and_masks_of_tiles_inside_tiles_are_refused() -> None:
    m, X, _, grid = machine()
    for i in m.tiles(N_q, Br):
        with pytest.raises(BadInput, match="visits all rows of i"):
            i.tiles(Bc, seen=grid.columns())
        for j in m.tiles(i.size, Bc):
            with pytest.raises(BadInput, match=r"comes from a loop over rows0; .* over i.tiles\(Bc\)"):
                m.load(X[j])
        for j in i.tiles(Bc):
            for asked in (grid.row, grid.col, grid.unseen):
                with pytest.raises(BadInput, match="no tile inside a tile"):
                    asked(j)


def test_misuse_is_refused_as_by_any_machine() -> None:
    m, X, Y, grid = machine()
    with pytest.raises(BadInput, match="a name of its own"):
        m.input("X", (N_q, d))
    for j in m.tiles(N_k, Bc):
        with pytest.raises(BadInput, match="comes from a loop over N_k"):
            m.load(X[j])
        for i in m.tiles(N_q, Br, seen=grid.col(j)):
            y = 2.0 * m.load(X[i])
            m.let(y, "y")
            with pytest.raises(DeadValue, match="twice"):
                m.let(y, "again")
            with pytest.raises(BadInput, match="the inner sizes"):
                m.load(X[i]) @ m.load(X[i])
            with pytest.raises(BadInput, match="cannot store"):
                m.store(Y[i, j], 2.0 * m.load(X[i]))
            with pytest.raises(LoopMisuse, match="limits a loop around this one"):
                m.tiles(N_q, Br, seen=grid.col(j))
            break
        break
    with pytest.raises(LoopMisuse, match="left by break"):
        m.finish()


def test_tiles_of_a_real_grid_are_refused() -> None:
    seen = make_plan("flash2", Attention(8, 2), AMPLE, (4, 4), None, {})
    runs = closed_grid(seen.problem, seen.blocks).columns()
    with pytest.raises(BadInput, match="Everywhere"):
        SymbolicMachine().tiles(N_q, Br, seen=runs)


def closed_grid(problem: Attention, blocks: Blocks) -> Any:
    from iosim.core.masks.grid import grid

    return grid(problem, blocks)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (partial(closed_form, "block-sparse"), "block-sparse moves what its block mask says"),
        (partial(closed_form, "flash3"), "unknown kernel 'flash3'"),
        (partial(closed_form, "flash2", first_pass="create"), "flash2 has no option 'first_pass'"),
        (partial(closed_form, "flash2", dropout=1.5), "dropout"),
    ],
)
def test_what_cannot_be_derived_is_refused_in_a_line(ask: Callable[[], ClosedForm], said: str) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        ask()
    assert "\n" not in str(caught.value)


SYMBOLS = st.sampled_from([N_q, N_k, d, d_v, *NUMBERS.values()])
MONOMIALS = st.builds(lambda factors, times: times * sympy.prod(factors), st.lists(SYMBOLS, max_size=4), st.integers(-5, 5))
POLYNOMIALS = st.builds(lambda parts: sympy.expand(sum(parts)), st.lists(MONOMIALS, max_size=5))


@given(words=POLYNOMIALS, sizes=st.tuples(*[st.integers(1, 40)] * 6))
def test_spelling_changes_no_value(words: sympy.Expr, sizes: tuple[int, ...]) -> None:
    value = parse(FORMULA.spell(words)).value({size.name: number for size, number in zip(SIZES, sizes, strict=True)})
    assert value.equals(int(words.subs(dict(zip(SIZES, sizes, strict=True)))))


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        (sympy.Integer(0), "0"),
        (N_q * (T_c - 1) * d_v, "(Tc - 1) Nq dv"),
        (N_q * d + N_q, "Nq (d + 1)"),
        (N_k * d + N_q * d - N_q * d_v, "Nq (d - dv) + Nk d"),
        (2 * T_r * N_k * d - N_q * (d + 2) + N_q * N_k, "Nq Nk + 2 Tr Nk d - Nq (d + 2)"),
        (-N_q * N_q, "-Nq^2"),
    ],
)
def test_words_are_spelled_as_terms_are(words: sympy.Expr, spelled: str) -> None:
    assert PLAIN.spell(words) == spelled


def test_it_shows_itself_in_text_and_latex() -> None:
    found = form("flash", {"first_pass": "create"})
    assert str(found) == (
        "flash, first_pass create: Nk (d + dv) + Tc Nq (d + 2 dv + 4) - Nq (dv + 2) words, equal to the closed form by hand"
    )
    assert found._repr_latex_() == (r"$N_k (d + d_v) + \lceil N_k / B_c \rceil N_q (d + 2 d_v + 4) - N_q (d_v + 2)$")


def test_without_sympy_it_says_what_to_install_and_all_else_works(tmp_path: Path) -> None:
    ask = """
import sys
sys.modules["sympy"] = None  # importing it raises ImportError
import iosim, iosim.cli.commands.explain
from iosim.core.errors import MissingExtra
try:
    import iosim.attention.symbolic
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("symbolic runs need sympy, which does not load here")
    assert line.endswith('pip install "iosim[symbolic]"')
