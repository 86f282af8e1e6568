"""The numbers and the formulas that the notebooks say between their cells are computed here.

A number of three digits or with a decimal point is one that the notebook prints, in the output that test_notebooks holds to a run, or it
is claimed here. ``N = 512`` agrees with the notebook's code, with its output, or with a claim. A claim is a number beside the few words
that say what it is; between those that stand apart, at a mark …, the notebook may say what it likes.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iosim.core.hardware import device
from iosim.core.masks import patterns
from iosim.core.problem import Attention, Blocks
from iosim.core.units import capacity
from iosim.course.catalogue import EXERCISES
from iosim.predict import predict
from iosim.predict.bounds import bounds, least_words
from iosim.study.paper import load
from iosim.study.paper.figure2_left import columns
from iosim.study.published import table
from iosim_reference.softmax import merge, state

FOLDER = Path(__file__).parents[2] / "notebooks"
KEPT = Path(__file__).parent / "golden_notebooks"
BOOKS = sorted(path.stem for path in FOLDER.glob("[0-9]*.ipynb"))
each = pytest.mark.parametrize("name", BOOKS)

NUMBER = re.compile(r"\d[\d,.]*\d|\d")
YEAR = re.compile(r"\b(?:19|20)\d\d\b|arXiv \d{4}\.\d{5}|Theorem [\d.]+")
"""What tells a paper, or a part of it, from another."""
EQUAL = re.compile(r"(?<![\w\\/^])([A-Za-z]\w*) = (\d[\d,.]*\d|\d)(?![\w^\\/]| \\cdot)")


@cache
def cells(name: str) -> list[tuple[str, str]]:
    """The kind and the text of each cell of a stored notebook."""
    book: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]


def sources(name: str) -> list[str]:
    """The cells of code, without what only IPython understands."""
    return [re.sub(r"^%.*$", "", text, flags=re.MULTILINE) for kind, text in cells(name) if kind == "code"]


def prose(name: str) -> str:
    return "\n\n".join(text for kind, text in cells(name) if kind == "markdown")


def plain(text: str) -> str:
    """Prose on one line: no targets of links, no commands, no dollars."""
    text = re.sub(r"`(?:iosim |m\.)[^`]*`", "``", re.sub(r"\]\([^)]*\)", "]", text))
    return " ".join(YEAR.sub("", text).replace("$", "").split())


@cache
def kept(name: str, kind: str) -> str:
    """What the notebook ``prints`` or ``draws``; test_notebooks holds it to a run."""
    parts = re.split(r"^# cell \d+ (prints|draws)\n", (KEPT / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "\n".join(text for which, text in zip(parts[1::2], parts[2::2], strict=True) if which == kind)


# Claims: pieces of prose, made here with their numbers put in.


def moved(kernel: str, problem: Attention, blocks: Blocks) -> dict[str, tuple[int, int]]:
    return {name: (array.reads, array.writes) for name, array in predict(kernel, problem, blocks).items()}


def listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}"


def memory() -> list[str]:
    setup = table(18).setup
    rate = device("a100-40gb").fp16_tensor_rate or 0
    return [
        f"GPU … {rate:,} floating-point operations a second",
        f"{setup.batch} x {setup.heads} = {setup.instances} independent problems",
        f"all {setup.instances} problems",
        "rows, 1,000 at a time",  # the walk is m.tiles(X.shape[0], 1000)
    ]


def softmax() -> list[str]:
    return [
        rf"e \approx {math.e:.3f}",
        "1000 and 1000 … 1/2 and 1/2",
        "e^{1000}",
        "filled with 0.0",
        "200 random logits",
        "200 logits … pieces of 16",
        "row of N = 1,000",
    ]


def flash() -> list[str]:
    """Whatever is read once is in the outer loop, whatever is read once a tile in the inner one."""
    n, d, cols = 512, 32, 64
    words = moved("flash", Attention(n=n, d=d), Blocks(64, cols))
    tiles, wide = n // cols, {"l": 1, "m": 1}
    reads = {name: words[name][0] // (n * wide.get(name, d)) for name in ("K", "V", "Q", "O", "l", "m")}
    outer, inner = ([name for name, times in reads.items() if times == often] for often in (1, tiles))
    first, both = state([0.0, 0.0], [[1.0], [3.0]]), state([0.0, 0.0, math.log(3), 0.0], [[1.0], [3.0], [7.0], [11.0]])
    m, l, o, out, log = (np.asarray(number).item() for number in (first.m, first.l, first.output, both.output, both.m))
    assert len(outer) + len(inner) == 6
    assert tiles * reads["K"] == reads["Q"]
    return [
        f"{listed(outer)} … outer loop … read once",
        f"{listed(inner)} … inner loop … for each tile of keys … Tc = {tiles} times",
        f"N = {n}, d = {d} … Br = Bc = {cols} … Tc = {tiles}",
        f"Tile 0 … m = {m:.0f}, l = {l:.0f}, O = (1 + 3)/2 = {o:.0f} … Tile 1 … ln 3 = {log:.4f}",
        f"mean is {out:.0f}",
        "tiles of keys outside … tiles of queries inside",
        "`scale=1.0`",
    ]


def blocks() -> list[str]:
    kib, m, d = capacity("1KiB").amount, 16384, 64
    side = m // (4 * d)
    return [
        f"M = {m:,} and d = {d} … B = {side}",
        f"{(m + side * side + 8 * side) / m:.2f} M",
        f"1 KiB = {kib:,} bytes",
        "B_r = 16",  # Dao-AILab's kernels of 2022: tiles of 16 rows
    ]


def backward() -> list[str]:
    n, d = 1024, 64
    small, large = (capacity(size).words(4) for size in ("100KiB", "320KiB"))
    a100, left = device("a100-40gb"), [column.row for column in columns(load())[:2]]
    balance = (a100.fp16_tensor_rate or 0) / (a100.bandwidth or 1)
    rows = {
        "GFLOPs": [row.gflops for row in left],
        "HBM reads and writes (GB)": [row.gigabytes for row in left],
        "runtime (ms)": [row.milliseconds for row in left],
    }
    tall, ratio = 11 * n // d + 12, n // d
    return [
        f"{small:,} words of 4 bytes … 320 KiB, {large:,} words",
        f"Nd about {n * d // 1000 * 1000:,}",
        rf"11 \cdot {ratio} + 12 = {tall}",
        f"A100 … about {round(balance, -1):.0f} flops",
        *(f"| {what} | {one} | {other} |" for what, (one, other) in rows.items()),
    ]


def sparse() -> list[str]:
    n, size = 1024, 64
    mask, pairs = patterns.causal(n, n, size, size), size * size
    tiles = n // size
    assert 0.99**pairs < 1e-17
    return [
        f"{tiles} x {tiles} = {mask.grid[0] * mask.grid[1]} tiles",
        f"T = {tiles} … more than half",
        "version 2.1",  # its own release notes
        f"0.99^{{{pairs}}} … less than one in 10^{{17}}",
    ]


def lower_bounds() -> list[str]:
    n, d = 4096, 64
    at = 4 * d * d
    problem = Attention(n=n, d=d)
    words = sum(sum(one) for one in moved("flash2", problem, Blocks((at - 2 * d) // (2 * d + 5), 1)).values())
    published = max(bound.words for bound in bounds(problem, at) if bound.name != "two products")
    eight = least_words(problem, at) / published
    assert round(eight) == 8
    return [
        f"FlashAttention-2 … {words / 1e6:.1f} million words",
        "between 0.74 and 0.78\\,d^2",  # the check cell has the three turns
        "1.3 to 1.6 … up to M = d^2",  # and these, from its table
        "M = d^2 is x = 1 … M = 4d^2 is x = 1/2",
        f"eight times … M = {at // d**2}d^2",
    ]


def cuda() -> list[str]:
    n, nk, d, rows, cols = 37, 29, 16, 8, 12
    words = sum(sum(one) for one in moved("flash2", Attention(n=n, d=d, nk=nk), Blocks(rows, cols)).values())
    return [
        f"N_q = {n} queries, N_k = {nk} keys and d = {d} … Br x Bc = {rows} x {cols}",
        f"{words:,} … closed form",
        rf"T_r = \lceil {n}/{rows} \rceil = {-(-n // rows)}",
    ]


CLAIMS: dict[str, Callable[[], list[str]]] = {
    "01_memory": memory,
    "02_softmax": softmax,
    "03_tiling": lambda: ["filled with 0.0"],
    "05_flash": flash,
    "06_blocks": blocks,
    "07_backward": backward,
    "08_sparse": sparse,
    "09_bounds": lower_bounds,
    "10_cuda": cuda,
}


@cache
def claims(name: str) -> tuple[str, ...]:
    return tuple(" ".join(claim.split()) for claim in (CLAIMS[name]() if name in CLAIMS else []))


# What the code says of a name.


def bindings(source: str) -> Iterator[tuple[ast.expr | str, ast.expr]]:
    """What is assigned, passed by name, a default, or asserted to be equal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value
        elif isinstance(node, ast.arguments):
            yield from zip((one.arg for one in node.args[len(node.args) - len(node.defaults) :]), node.defaults, strict=True)
        elif isinstance(node, ast.Compare) and all(isinstance(how, ast.Eq) for how in node.ops):
            yield from ((node.left, other) for other in node.comparators)


def single(target: ast.expr | str, value: ast.expr) -> Iterator[tuple[str, float]]:
    """The names and the numbers of one binding; pairs of tuples are taken apart."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from single(one, other)
    elif isinstance(target, str | ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        yield bare(target if isinstance(target, str) else target.id), float(value.value)


def bare(name: str) -> str:
    return name.lower().replace("_", "")


@cache
def known(name: str) -> frozenset[tuple[str, float]]:
    """Every ``name = number`` of the notebook's code and output."""
    coded = [pair for source in sources(name) for target, value in bindings(source) for pair in single(target, value)]
    told = re.findall(r"(\w+) = +(\d[\d,.]*\d|\d)", kept(name, "prints"))
    return frozenset([*coded, *((bare(one), float(number.replace(",", ""))) for one, number in told)])


def matters(number: str) -> bool:
    return "." in number or sum(map(str.isdigit, number)) >= 3


def form(claim: str) -> re.Pattern[str]:
    """What makes a claim: its parts in this order, with few words between them."""
    return re.compile("(.{0,160}?)".join(re.escape(part.strip()) for part in claim.split("…")))


def between(parts: list[str]) -> Callable[[re.Match[str]], str]:
    """Put other parts of a claim where it is made."""
    return lambda made: "".join(piece for pair in zip_longest(parts, made.groups(), fillvalue="") for piece in pair)


def faults(name: str, text: str) -> list[str]:
    """Claims that ``text`` does not make, and numbers that nobody prints, computes or sets."""
    text, told = plain(text), set(NUMBER.findall(kept(name, "prints")))
    lacking = [f"{name} does not say {claim!r}" for claim in claims(name) if not form(claim).search(text)]
    for claim in sorted(claims(name), key=len, reverse=True):
        text = form(claim).sub(between(["@"] * len(claim.split("…"))), text)
    loose = [found[0] for found in NUMBER.finditer(text) if matters(found[0]) and found[0] not in told]
    unset = [found[0] for found in EQUAL.finditer(text) if (bare(found[1]), float(found[2].replace(",", ""))) not in known(name)]
    return lacking + [f"{name}: nobody computes {number}" for number in loose + unset]


@each
def test_every_number_in_prose_is_computed(name: str) -> None:
    assert faults(name, prose(name)) == []


@each
def test_a_new_number_is_seen(name: str) -> None:
    text = prose(name)
    for new in ("It moves 98,765,432,101 words.", "Here N = 98.", "It takes 14.6789 ms."):
        assert len(faults(name, f"{text}\n\n{new}")) == 1 + len(faults(name, text))


@each
def test_a_number_of_a_claim_cannot_change(name: str) -> None:
    text = plain(prose(name))
    for claim in claims(name):
        for number in NUMBER.finditer(claim):
            last = str((int(number[0][-1]) + 1) % 10)
            other = claim[: number.end() - 1] + last + claim[number.end() :]
            parts = [part.strip() for part in other.split("…")]
            assert faults(name, form(claim).sub(between(parts), text)), other


@each
def test_exercises_and_notebooks_have_their_numbers(name: str) -> None:
    text = " ".join(prose(name).split())
    numbered = re.findall(r"(\d+)(?:, | \()`([a-z0-9-]+)`", text[text.index("## Exercise") :])
    assert numbered
    assert [(int(number), one) for number, one in numbered if EXERCISES[one].number != int(number)] == []
    started = re.findall(r"`iosim exercise start ([a-z0-9-]+)`", text)
    assert set(started) <= {one for _, one in numbered}
    linked = re.findall(r"\[[Nn]otebook (\d+)\]\((\w+)\.ipynb\)", text)
    assert [(number, one) for number, one in linked if one not in BOOKS or int(one[:2]) != int(number)] == []


# Formulas of the softmax that is put right, evaluated as they stand in the prose.

PYTHON = (
    (r"\\tilde P V", "pv"),
    (r"\\tilde ([ml])", r"\1t"),
    (r"([ml])'", r"\1n"),
    (r"\\frac\{(.*)\}\{(.*)\}", r"(\1)/(\2)"),
    (r"\\max", "max"),
    (r"e\^\{([^}]*)\}", r"exp(\1)"),
    (r"\\cdot|\\,", "*"),
    (r"(l_[ab]) exp", r"\1 * exp"),
    (r"b pv", "b * pv"),
)


def formulas(name: str) -> list[dict[str, str]]:
    """The right sides of each line of displayed equations, by what they define."""
    shown = re.findall(r"\$\$(.*?)\$\$", prose(name), re.DOTALL)
    return [dict(one.strip(" ,").split(" = ", 1) for one in re.split(r"\\qquad", line) if " = " in one) for line in shown]


def evaluated(formula: str, given: dict[str, float]) -> float:
    for pattern, python in PYTHON:
        formula = re.sub(pattern, python, formula)
    return float(eval(formula, {"exp": math.exp, "max": max, **given}))


def numbers(*given: Any) -> list[float]:
    return [np.asarray(one).item() for one in given]


ONE, TWO = state([0.3, 1.1], [[2.0], [5.0]]), state([1.9, -0.4], [[1.0], [4.0]])
BOTH = merge(ONE, TWO)


def test_the_formulas_of_flashattention_merge_two_tiles() -> None:
    m, l, o, mt, lt, pv = numbers(ONE.m, ONE.l, ONE.output, TWO.m, TWO.l, TWO.o)
    first, second = formulas("05_flash")[:2]
    found = {"m": m, "l": l, "O": o, "mt": mt, "lt": lt, "pv": pv}
    for name, formula in {**first, **second}.items():
        found[name.replace("'", "n")] = evaluated(formula, found)
    assert np.allclose([found["mn"], found["ln"], found["On"]], numbers(BOTH.m, BOTH.l, BOTH.output), rtol=1e-14, atol=0)


def test_the_formulas_of_the_online_softmax_merge_a_logit_and_two_pieces() -> None:
    _, online, pieces = formulas("02_softmax")
    m, l = numbers(ONE.m, ONE.l)
    with_one = merge(ONE, state([1.9], [[1.0]]))
    found = {"m": m, "l": l, "x": 1.9}
    found["mn"] = evaluated(online["m'"], found)
    assert np.allclose([found["mn"], evaluated(online["l'"], found)], numbers(with_one.m, with_one.l), rtol=1e-14, atol=0)
    apart = dict(zip(("m_a", "l_a", "m_b", "l_b"), numbers(ONE.m, ONE.l, TWO.m, TWO.l), strict=True))
    apart["m"] = evaluated(pieces["m"], apart)
    assert np.allclose([apart["m"], evaluated(pieces["l"], apart)], numbers(BOTH.m, BOTH.l), rtol=1e-14, atol=0)


# Pictures: what is drawn, computed once more. test_notebooks holds the rest of each picture to what was kept.


def series(values: Iterable[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def total(kernel: str, problem: Attention, blocks: Blocks) -> int:
    return sum(map(sum, moved(kernel, problem, blocks).values()))


def memory_drawn() -> list[str]:
    a100, n, d = device("a100-40gb"), 4096, 64
    rate, bandwidth = a100.fp16_tensor_rate or 0, a100.bandwidth or 1
    standard = 4 * n * n * d / (2 * (4 * n * n + 4 * n * d))
    return [
        f"x {series([1 / 6])} y {series([bandwidth / 6])}",
        f"x {series([standard])} y {series([bandwidth * standard])}",
        series([rate]),
    ]


def tiling_drawn() -> list[str]:
    n, sides = 1024, [2**k for k in range(1, 10)]
    return [
        f"x {series(b * b + 2 * b for b in sides)} y {series(2 * n**3 // b + n * n for b in sides)}",
        f"y {series([2 * n**3 + n * n] * 2)}",
    ]


def standard_drawn() -> list[str]:
    d, lengths = 64, [128 * 2**k for k in range(8)]
    return [
        f"line #d55e00 - s default x {series(lengths)} y {series(4 * n * n + 4 * n * d for n in lengths)}",
        f"line #d55e00 : None default x {series(lengths)} y {series(4 * n * n for n in lengths)}",
        f"line #666666 - None default x {series(lengths)} y {series(4 * n * d for n in lengths)}",
    ]


def flash_drawn() -> list[str]:
    last = total("flash", Attention(n=32, d=4), Blocks(8, 8))
    return [f" {last} (304, sum"]


def blocks_drawn() -> list[str]:
    n, d, sizes = 65536, 64, [2**k for k in range(11, 21)]
    sides = [-(-size // (4 * d)) for size in sizes]
    printed = [total("flash", Attention(n=n, d=d), Blocks(min(side, d), side)) for side in sides]
    return [
        f"line #0072b2 : o default x {series(sizes)} y {series(printed)}",
        f"line #666666 -- None default x {series(sizes)} y {series(4 * n * n * d * d / size for size in sizes)}",
    ]


def backward_drawn() -> list[str]:
    left = columns(load())[:2]
    gigabytes, times = ([getattr(column.row, what) for column in left] for what in ("gigabytes", "milliseconds"))
    colours, places = ("#d55e00", "#0072b2"), (("-0.3", "0.3"), ("0.7", "1.3"))
    bars = zip(colours, places, [column.work.data_bytes / 1e9 for column in left if column.work], strict=True)
    return [
        f"None o default x 0.2 1.2 y {series(gigabytes)}",
        f"None o default x 0.2 1.2 y {series(times)}",
        *(f"patch {colour} {start} 0 {stop} {series([height])}" for colour, (start, stop), height in bars),
        "['standard', 'flash']",
    ]


def sparse_drawn() -> list[str]:
    n, d, size = 4096, 64, 64
    always, each_tile = 2 * n * d + n * (d + 2), size * (3 * d + 4)
    masks = [patterns.random(n, n, size, size, share, seed=1) for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)]
    whole = [total(kernel, Attention(n=n, d=d), Blocks(size, size)) for kernel in ("flash", "flash2")]
    return [
        f"x {series(mask.density for mask in masks)} y {series(always + mask.nnz * each_tile for mask in masks)}",
        *(
            f"line {colour} -- None default x 0 1 y {series([words] * 2)}"
            for colour, words in zip(("#0072b2", "#009e73"), whole, strict=True)
        ),
    ]


def bounds_drawn() -> list[str]:
    """Leading terms at the ends of the last picture, M = 1000 d² and M = d²/1000, in words a pair."""
    low, high = 1 / math.sqrt(1000), math.sqrt(1000)
    ends = ((6 * low**2, 6 * high**2), (4 * low**2, 4 * high**2), (4 * low + 1, 4 * high + 1), (4 * low**2, 4 * high - 1))
    return [*(f"y {series([first])} " for first, _ in ends), *(f" {series([last])} (121" for _, last in ends)]


DRAWN: dict[str, Callable[[], list[str]]] = {
    "01_memory": memory_drawn,
    "03_tiling": tiling_drawn,
    "04_standard": standard_drawn,
    "05_flash": flash_drawn,
    "06_blocks": blocks_drawn,
    "07_backward": backward_drawn,
    "08_sparse": sparse_drawn,
    "09_bounds": bounds_drawn,
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_show_what_is_computed(name: str) -> None:
    drawn = kept(name, "draws")
    assert [line for line in DRAWN[name]() if line not in drawn] == []
