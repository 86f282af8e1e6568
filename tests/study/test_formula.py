"""Formulas that people type: read without running anything, evaluated exactly, and held against the count."""

from __future__ import annotations

import ast
import math
import operator
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iosim import Attention, BadInput, simulate
from iosim.study.formula.check import Verdict, check_formula
from iosim.study.formula.grid import TILES, Grid
from iosim.study.formula.intervals import Number
from iosim.study.formula.typed import NAMES, parse

SIZES = {"N": 30, "N_q": 30, "N_k": 44, "d": 4, "d_v": 6, "M": 1000, "Br": 8, "Bc": 7}

FLASH = "N_k*(d + d_v) + ceil(N_k/Bc)*(N_q*(d + 2*d_v) + 4*N_q) + N_q*(d_v + 2)"
FLASH_SQUARE = "2*N*d + ceil(N/Bc)*(3*N*d + 4*N) + N*d + 2*N"
FLASH2 = "N_q*(d + d_v + 1) + ceil(N_q/Br)*N_k*(d + d_v)"
FLASH2_SQUARE = "N*(2*d + 1) + 2*N*d*ceil(N/Br)"
STANDARD = "N_q*d + ceil(N_q/Br)*N_k*(d + d_v) + 4*N_q*N_k + N_q*d_v"


def value(text: str) -> Fraction:
    found = parse(text).value(SIZES)
    assert found.exact
    return found.low


@st.composite
def numbers(draw: st.DrawFn) -> tuple[Number, Fraction]:
    """An enclosure, or an exact number, and a fraction in it; denominators do not divide those of the grid."""
    ends = sorted(draw(st.tuples(*[st.fractions(-50, 50, max_denominator=50)] * 3)))
    return Number(ends[0], ends[2]), ends[1]


# --- reading ---


def expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(NAMES) | st.integers(0, 20).map(str) | st.sampled_from(["0.5", "2.25"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from([" + ", "-", "*", "/", " // ", "%"]), inner).map("".join),
            inner.map("-{}".format),
            inner.map("({})".format),
            st.tuples(inner, st.integers(0, 3)).map(lambda both: f"({both[0]})**{both[1]}"),
            st.tuples(st.sampled_from(["ceil", "floor"]), inner).map(lambda both: f"{both[0]}({both[1]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda three: f"{three[0]}({three[1]}, {three[2]})"),
        )

    return st.recursive(leaves, grown, max_leaves=8)


FUNCTIONS: dict[str, Callable[..., Fraction | int]] = {"ceil": math.ceil, "floor": math.floor, "min": min, "max": max}
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: a ** int(b),
}


def by_python(node: ast.expr, text: str) -> Fraction:
    """The value by Python's own grammar and fractions."""
    match node:
        case ast.Constant():
            return Fraction(ast.get_source_segment(text, node) or "")
        case ast.Name(id=name):
            return Fraction(SIZES[name])
        case ast.UnaryOp(operand=operand):
            return -by_python(operand, text)
        case ast.Call(func=ast.Name(id=name), args=args):
            return Fraction(FUNCTIONS[name](*(by_python(arg, text) for arg in args)))
        case ast.BinOp(left=left, op=op, right=right):
            return Fraction(OPERATORS[type(op)](by_python(left, text), by_python(right, text)))
    raise AssertionError(ast.dump(node))


@given(expressions())
def test_operators_bind_as_in_python_and_values_are_exact(text: str) -> None:
    if len(text) > 500:
        return
    try:
        expected = by_python(ast.parse(text, mode="eval").body, text)
    except ZeroDivisionError:
        with pytest.raises(BadInput, match="division by zero"):
            parse(text).value(SIZES)
        return
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-2**2", -4),
        ("2**-1", Fraction(1, 2)),
        ("2**3**2", 512),
        ("2^3^2", 512),
        ("10 - 4 - 3", 3),
        ("N//Bc*Bc + N%Bc", 30),
        ("+N", 30),
        ("sqrt(16) + sqrt(9/4)", Fraction(11, 2)),
        ("max(1, N, d)", 30),
        ("  N * d ", 120),
        ("1/3 + 1/3 + 1/3", 1),
        ("N\n*\td", 120),
        ("007 + 00.5 + 10.05", Fraction(1755, 100)),
        ("(" * 49 + "N" + ")" * 49, 30),
        ("-" * 48 + "N", 30),
    ],
)
def test_small_formulas(text: str, expected: Fraction | int) -> None:
    assert value(text) == expected


def test_square_roots_are_enclosed_and_round_exactly() -> None:
    assert value("floor(sqrt(M/4))") == 15
    assert value("ceil(sqrt(2)*1000)") == 1415
    root = parse("sqrt(2)").value({})
    assert not root.exact
    assert root.low**2 < 2 < root.high**2
    assert root.high - root.low < Fraction(1, 2**250)
    with pytest.raises(BadInput, match="square roots leave it open"):
        parse("floor(sqrt(2)*sqrt(2))").value({})
    with pytest.raises(BadInput, match="divides by zero"):
        parse("1/(sqrt(2)*sqrt(2) - 2)").value({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nd + N^2/M", r"unknown name 'Nd' in a formula; known: N, N_q, .*sqrt; a product is written N\*d"),
        ("Tr*d", r"Tr is ceil\(N_q/Br\)"),
        ("Nq*d", "did you mean N_q"),
        ("__import__('os')", 'cannot hold "\'"'),
        ("__import__", "unknown name '__import__'"),
        ("N.real", "'real'"),
        ("N.d", "character 1, where 'N.d' stands"),
        ("(1).d", "cannot read"),
        ("N[0]", r"cannot hold '\['"),
        ("lambda: 1", "cannot hold ':'"),
        ("N if d else 1", "'if'"),
        ("not N", "'not'"),
        ("~N", "cannot hold '~'"),
        ("N @ d", "cannot hold '@'"),
        ("N == 1", "cannot hold '='"),
        ("N; M", "cannot hold ';'"),
        ("N # d", "cannot hold '#'"),
        ("N \\\n+ d", "cannot hold"),
        ("é", "cannot hold 'é'"),
        ("٣", "cannot hold"),
        ("N\x00", "cannot hold"),
        ("", "at its end"),
        ("2*", "at its end"),
        ("2 N", r"character 3, where 'N' stands; a product is written with \*"),
        ("2N", r"a product is written with \*"),
        ("2(N)", r"a product is written with \*"),
        ("N(2)", r"a product is written with \*"),
        ("ceil(N)(d)", r"a product is written with \*"),
        ("N\nd", r"where 'd' stands; a product is written with \*"),
        ("(N", r"character 1, where '\(' stands"),
        ("N)", r"character 2, where '\)' stands"),
        ("N, d", "cannot read"),
        ("()", "cannot read"),
        ("ceil", r"ceil\(\.\.\.\)"),
        ("ceil(N, d)", "ceil takes one argument, not 2"),
        ("min(N)", "min takes two arguments or more, not 1"),
        ("max()", "max takes two arguments or more, not 0"),
        ("max(*N)", "max takes two arguments or more"),
        ("max(N, *d)", r"where '\*' stands"),
        ("max(1, 2, **N)", "cannot read"),
        ("ceil(N,)", r"cannot hold ',\)'"),
        ("1e9", "'e9'"),
        ("1j", "'j'"),
        ("0x10", "'x10'"),
        ("1_000", "'_000'"),
        ("0Br", "cannot read"),
        (".", "cannot read"),
        ("...", "cannot read"),
        ("1.5.", "cannot read"),
        ("..5", "cannot read"),
        ("1..5", "cannot read"),
        ("x" * 501, "has 501 characters; at most 500"),
        ("(" * 60 + "1" + ")" * 60, "nested more than 50"),
        ("-" * 60 + "1", "nested more than 50"),
        ("**".join(["2"] * 60), "nested more than 50"),
        ("(" * 250 + "1" + ")" * 249, "nested more than 50"),
        ("-(" * 30 + "1" + ")" * 30, "nested more than 50"),
        ("9" * 5000, "has 5,000 characters"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_line(text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(BadInput, match=message) as refused:
        parse(text)
    assert time.process_time() - started < 5
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("N + N/(Br - 8)", r"division by zero, in 'N/\(Br - 8\)' at N=30, Br=8"),
        ("N//0", "division by zero, in 'N//0' at N=30"),
        ("N%(d-4)", r"division by zero, in 'N%\(d-4\)' at N=30, d=4"),
        ("0**-1", r"division by zero, in '0\*\*-1'$"),
        ("sqrt(d - N)", r"square root of a negative number, in 'sqrt\(d - N\)' at N=30, d=4"),
        ("9**9**9", r"a power above 64, in '9\*\*9\*\*9'"),
        ("9^9^9^9", "a power above 64"),
        ("2**-99", "a power below -64"),
        ("N**0.5", r"no whole number; roots are written sqrt\(...\)"),
        ("2**sqrt(2)", "no whole number"),
        ("((9**64)**64)**64", "more than 4,096 bits"),
        ("sqrt(2)**64*" * 10 + "((9**64)**30)", "more than 4,096 bits"),
    ],
)
def test_what_is_undefined_or_too_large_is_named_with_the_point(text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(BadInput, match=message):
        parse(text).value(SIZES)
    assert time.process_time() - started < 5


def test_a_point_may_begin_or_end_a_number() -> None:
    assert value(".5") == Fraction(1, 2)
    assert value("5.") == 5
    assert value("5.*N + .25/2.") == 150 + Fraction(1, 8)


def test_as_many_characters_are_read_as_the_limit_says() -> None:
    text = "+".join(["1"] * 250)
    assert len(text) == 499 < len(f"{text}0") == 500
    assert value(f"{text}0") == 259
    with pytest.raises(BadInput, match="has 501 characters; at most 500"):
        parse(f"{text}00")


@pytest.mark.parametrize("operation", ["*", "/"])
def test_enclosures_are_rounded_outward(operation: str) -> None:
    """What is left of n after the operation and its inverse, in fractions, lies on either side of n."""
    for n, k in product((2, 3, 5, 7, 11), (3, 7, 9, 11)):
        found, times = parse(f"sqrt({n}){operation}{k}/{k + 2}").value({}), Fraction(k) if operation == "*" else Fraction(1, k)
        squared = n * (times / (k + 2)) ** 2
        assert found.low**2 < squared < found.high**2
        assert found.high - found.low < Fraction(1, 2**250)


@given(numbers(), numbers(), st.sampled_from([operator.add, operator.sub, operator.mul, operator.truediv]))
def test_what_is_enclosed_stays_enclosed(
    x: tuple[Number, Fraction], y: tuple[Number, Fraction], operation: Callable[[Any, Any], Any]
) -> None:
    assume(operation is not operator.truediv or y[0].low * y[0].high > 0)
    found, inside = operation(x[0], y[0]), operation(x[1], y[1])
    assert found.low <= inside <= found.high


def test_only_text_is_read() -> None:
    with pytest.raises(BadInput, match="a formula is text"):
        parse(3)  # type: ignore[arg-type]


def test_long_sums_need_no_recursion() -> None:
    assert value("+".join(["1"] * 250)) == 250


# --- holding it against the count ---


def check(kernel: str, text: str, **options: object) -> Verdict:
    return check_formula(kernel, text, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "text", "options"),
    [
        ("flash", FLASH, {}),
        ("flash", FLASH_SQUARE, {}),
        ("flash2", FLASH2, {}),
        ("flash2", FLASH2_SQUARE, {}),
        ("flash2", "N*(2*d+1) - 2*N*d*(-N//Br)", {}),
        ("flash2", "N*(2*d+1) + 2*N*d*floor((N + Br - 1)/Br)", {}),
        ("standard", STANDARD, {}),
        ("standard", "4*N*d + 4*N^2", {"reuse": "ideal"}),
        ("flash", "2*N*d + ceil(N/ceil(M/(4*d)))*(3*N*d + 4*N) + N*d + 2*N", {"blocks": "paper"}),
        ("flash", FLASH_SQUARE + " + 0*M", {}),
        ("flash2", "N*d*ceil(N/Br)", {"of": "K"}),
        ("flash2", "N*d + 2*N*d*ceil(N/Br)", {"of": "reads"}),
        ("flash2", "N*(d + 1)", {"of": "writes"}),
        ("flash", "N*d*(2*ceil(N/Bc) + 1)", {"of": "O"}),
        ("flash2", FLASH2_SQUARE, {"dtype": "float16"}),
    ],
)
def test_right_formulas_hold(kernel: str, text: str, options: dict[str, object]) -> None:
    verdict = check(kernel, text, **options)
    assert verdict.holds, str(verdict)
    assert verdict.equal == verdict.points >= 70
    assert verdict.reason is None


@pytest.mark.parametrize(
    ("kernel", "text", "options", "reason"),
    [
        ("flash2", "2*N*d*(1 + ceil(N/Br))", {}, "too few by exactly the words of LSE (the statistics)"),
        ("flash", "2*N*d + ceil(N/Bc)*3*N*d + N*d", {}, "too few by exactly the words of l and m (the statistics)"),
        ("flash", "2*N*d + ceil(N/Bc)*(3*N*d + 4*N)", {}, "too few by exactly the initial writes of O, l and m"),
        ("flash2", f"{FLASH2_SQUARE} + N*d", {}, "too many by exactly the words of Q"),
        ("flash2", "N*(2*d + 1) + N*d*ceil(N/Br)", {}, "too few by exactly the words of K"),
        ("flash2", "N*(2*d + 1) + 2*N*d*N/Br", {}, "at all 32 points where Br divides N, not elsewhere: a quotient is not rounded up"),
        ("flash2", "N*(2*d + 1) + 2*N*d*(N//Br)", {}, "where Br divides N, "),
        ("flash", FLASH_SQUARE.replace("ceil", ""), {}, "where Bc divides N, "),
        ("flash", FLASH.replace("ceil(N_k/Bc)", "N_k/Bc"), {}, "where Bc divides N_k, "),
        ("flash", "2*N*d + 4*N*d/M*(3*N*d + 4*N) + N*d + 2*N", {"blocks": "paper"}, "where Bc divides N and 4d divides M, "),
        ("flash2", f"4*({FLASH2_SQUARE})", {}, "these are bytes, not words"),
        ("flash2", f"2*({FLASH2_SQUARE}) + 2*N", {"dtype": "float16"}, "these are bytes, not words"),
        ("flash2", f"({FLASH2_SQUARE})*3/2", {}, "everywhere exactly 3/2 times the count"),
        ("flash2", "N_q*(2*d + 1) + 2*ceil(N_q/Br)*N_q*d", {}, "where N_q = N_k, not elsewhere"),
        ("flash2", FLASH2.replace("d + d_v)", "2*d)") + "+ 0*d_v", {}, "where d = d_v, not elsewhere"),
        ("flash", "N*d + N^2/M", {}, None),
        ("flash", "N*sqrt(N)", {}, None),
        ("flash2", "0", {}, None),
        ("flash2", f"{FLASH2_SQUARE} + 1/2", {}, None),
    ],
)
def test_wrong_formulas_fail_first_where_they_do_and_for_the_likely_reason(
    kernel: str, text: str, options: dict[str, object], reason: str | None
) -> None:
    verdict = check(kernel, text, **options)
    found = verdict.counterexample
    assert found is not None
    assert not verdict.holds
    p = found.sizes
    n = p.get("N", p.get("N_q", 0))
    problem = Attention(n, p["d"], nk=p.get("N_k", n), dv=p.get("d_v", p["d"]), dtype=str(options.get("dtype", "float32")))
    again = simulate(
        kernel, problem, sram=p.get("M", 2**30), blocks=(p["Br"], p["Bc"]), overflow="record", execute=False, replay=False
    )  # the point stands for itself: counting it afresh gives the same number
    assert found.counted == again.total
    given_there = parse(text).value({"N": n, "N_q": n, "N_k": problem.nk, "d": p["d"], "d_v": problem.dv, "M": p.get("M", 0), **p})
    assert (given_there.low, given_there.high) == (found.value.low, found.value.high)
    assert found.value.low != found.counted
    if reason is None:
        assert verdict.reason is None
    else:
        assert verdict.reason is not None
        assert reason in verdict.reason


def test_the_first_counterexample_is_the_first() -> None:
    verdict = check("flash2", "N*(2*d + 1) + 2*N*d*N/Br")
    assert verdict.counterexample is not None
    assert verdict.counterexample.sizes == {"N": 16, "d": 4, "Br": 5, "Bc": 7}
    assert str(verdict.counterexample) == "at N=16, d=4, Br=5, Bc=7 it gives 553.6, but 656 words are counted"


def test_rows_and_columns_are_told_apart_only_where_the_formula_does() -> None:
    assert "N_q from" not in check("flash2", FLASH2_SQUARE).tried
    apart = check("flash2", FLASH2)
    assert "N_q from 16 to 100, N_k from 16 to 100, d from 4 to 7, d_v from 3 to 6" in apart.tried
    assert "d_v" not in check("flash2", "N_q").tried
    assert check("flash2", "N*(2*d + 1) + 2*N_k*d*ceil(N_q/Br)").holds  # N says that they are equal


def test_the_grid_has_whole_and_ragged_tiles() -> None:
    for text in (FLASH2_SQUARE, FLASH2, "N*M"):
        verdict = check("flash2", f"0*({text})")
        assert verdict.points >= 70
    whole = check("flash2", "N*(2*d + 1) + 2*N*d*(N//Br)")
    assert 0 < whole.equal < whole.points


def test_m_holds_whole_tiles_of_k_and_v_or_five_words_more() -> None:
    points = Grid("flash2", frozenset({"M", "d", "d_v"}), "fit", "float32", False, None, {}).points()
    apart = [divmod(point.sizes["M"], 2 * (point.sizes["d"] + point.sizes["d_v"])) for point in points]
    assert {rest for _, rest in apart} == {0, 5}
    assert {tiles for tiles, _ in apart} <= set(TILES)
    assert any(point.sizes["d"] != point.sizes["d_v"] for point in points)


def test_variants_of_a_kernel_move_other_words() -> None:
    assert not check("flash", FLASH_SQUARE, first_pass="create").holds
    assert check("flash", "2*N*d + ceil(N/Bc)*(3*N*d + 4*N) - N*d - 2*N", first_pass="create").holds
    assert not check("flash2", FLASH2_SQUARE, causal=True).holds
    assert check("flash2", FLASH2_SQUARE, causal=True, skip=False).holds


@pytest.mark.parametrize(
    ("kernel", "text", "options", "message"),
    [
        ("flesh", "N", {}, "unknown kernel 'flesh'"),
        ("flash2", "N", {"of": "X"}, "words, reads, writes or an array of this kernel: Q, K, V, O, LSE; not 'X'"),
        ("flash2", "N", {"softmax": "rows"}, "flash2 has no option 'softmax'"),
        ("block-sparse", "N", {}, "its block mask"),
        ("flash2", "N*M", {"blocks": (8, 8)}, "a rule chooses the blocks"),
        ("flash2", "N/(Br - Bc)", {}, "division by zero, in .* at N=16, Br=8, Bc=8"),
        ("flash2", "sqrt(N)*sqrt(N)*(2*d + 1) + 2*N*d*ceil(N/Br)", {}, "square roots leave it open whether this is 792; .*, at N=24, d=4"),
    ],
)
def test_what_cannot_be_checked_says_why(kernel: str, text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check(kernel, text, **options)


def test_a_verdict_is_plain_data() -> None:
    record = check("flash2", "N*(2*d + 1) + 2*N*d*N/Br").record()
    assert record["holds"] is False
    assert record["counterexample"] == {"N": 16, "d": 4, "Br": 5, "Bc": 7, "counted": 656, "value": "553.6"}
    assert check("flash2", FLASH2_SQUARE).record()["counterexample"] is None
