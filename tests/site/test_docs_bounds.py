"""The numbers in docs/bounds.md are those that the library computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from iosim import Attention, Blocks, Capacity, Options, predict
from iosim.predict.bounds import BACKWARD_GROWTH, Bound, backward_bounds, bounds

N, D = 4096, 64
PROBLEM = Attention(N, D)
CREATE, ONE = Options(first_pass="create"), Options(depth="one")
FORWARD = {"flash2": ("flash2", Options()), "flash": ("flash", CREATE), "square-tiles, one": ("square-tiles", ONE)}
BACKWARD = {
    "flash2-backward": ("flash2-backward", Options()),
    "flash-backward, create": ("flash-backward", CREATE),
    "square-tiles-backward, one": ("square-tiles-backward", ONE),
}
Known = Callable[[Attention, int], tuple[Bound, ...]]


@pytest.fixture(scope="module")
def page(source_tree: Path) -> str:
    return (source_tree / "docs" / "bounds.md").read_text()


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the table that begins with ``head``."""
    lines = page[page.index(head) :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: [*map(bool, lines), False].index(False)]]


def moved(kernel: str, options: Options, blocks: Blocks) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, PROBLEM, blocks, options).values())


def best(kernels: dict[str, tuple[str, Options]], m: int) -> tuple[int, str, Blocks]:
    """The fewest words of the best blocks of each kernel that fits, its name and the blocks."""
    fitting = {name: one for name, one in kernels.items() if predict.smallest_sram(one[0], PROBLEM, one[1]) <= m}
    cut = {name: predict.choose_blocks(kernel, PROBLEM, Capacity(m), "best", options) for name, (kernel, options) in fitting.items()}
    return min((moved(*kernels[name], blocks), name, blocks) for name, blocks in cut.items())


def row(known: Known, kernels: dict[str, tuple[str, Options]], m: int) -> list[str]:
    """A row of a table as it should be."""
    words = [bound.words for bound in known(PROBLEM, m)]
    fewest, name, blocks = best(kernels, m)
    of_n2 = [f"{number / N**2:.3f}" if number > 0 else "–" for number in words]
    return [f"{m:,}", f"{m / D**2:g}", *of_n2, f"{max(words):,}", name, str(blocks), f"{fewest:,}", f"{fewest / max(words):.2f}"]


@pytest.mark.parametrize(("head", "known", "kernels", "rows"), [
    ("| M | M / d² | compulsory | Saha-Ye |", bounds, FORWARD, 9),
    ("| M | M / d² | compulsory | three products |", backward_bounds, BACKWARD, 6),
])  # fmt: skip
def test_the_tables_over_m(page: str, head: str, known: Known, kernels: dict[str, tuple[str, Options]], rows: int) -> None:
    found = table(page, head)
    assert len(found) == rows
    for cells in found:
        assert cells == row(known, kernels, int(cells[0].replace(",", "")))


def first(d: int, sizes: Sequence[int]) -> int:
    """The smallest N for which Saha and Ye's bound is above the compulsory one at some of ``sizes``."""
    return next(n for n in count(1) if any(found[1].words > found[0].words for m in sizes for found in [bounds(Attention(n, d), m)]))


def test_where_saha_and_yes_bound_first_exceeds_what_is_compulsory(page: str) -> None:
    [any_m, three] = table(page, "| d | 1 | 2 | 4 | 8 |")
    # E d^2 / (M + 4 d^2) - M falls with M, and 4 N d does not change: the smallest M decides.
    assert list(map(int, any_m[1:])) == [first(d, [1]) for d in (1, 2, 4, 8)] == [first(d, range(1, 40)) for d in (1, 2, 4, 8)]
    assert list(map(int, three[1:])) == [first(d, [3]) for d in (1, 2, 4, 8)]


@pytest.mark.parametrize(("name", "m"), [("Saha-Ye", 46376), ("small cache", 15351), ("two products", 191902)])
def test_up_to_which_m_a_bound_is_above_what_is_compulsory(page: str, name: str, m: int) -> None:
    assert f"{m:,}" in page
    inside, outside = ({bound.name: bound.words for bound in bounds(PROBLEM, size)}[name] for size in (m, m + 1))
    assert outside <= 4 * N * D < inside


LEADING: dict[str, Callable[[float], float]] = {
    "$8 x + 1$": lambda x: 8 * x + 1,
    "$4 x + 1$": lambda x: 4 * x + 1,
    "$6 x^2$": lambda x: 6 * x**2,
    "$4 x^2$": lambda x: 4 * x**2,
    "$4 x - 1$": lambda x: 4 * x - 1,
    "$2 x - 1$": lambda x: 2 * x - 1,
    "$x^2 / (1 + 4 x^2)$": lambda x: x**2 / (1 + 4 * x**2),
}


def test_words_a_pair_are_the_leading_terms(page: str) -> None:
    found = {cells[0]: cells[1:] for cells in table(page, "| | words a pair |")}
    assert {spelled for spelled, _ in found.values()} == set(LEADING)
    assert all(LEADING[spelled](0.5) == float(at_four) for spelled, at_four in found.values())
    n, d = 2**20, 256
    lines = {r"two products, $M \ge 4 d^2$": 16, r"two products, $M \le 4 d^2$": 1, "small cache": 0.25, "Saha-Ye": 9}
    for line, times in lines.items():
        m = int(times * d * d)
        words = {bound.name: bound.words for bound in bounds(Attention(n, d), m)}[line.partition(",")[0]]
        assert words / n**2 == pytest.approx(LEADING[found[line][0]](d / m**0.5), rel=1e-2)


def test_words_a_pair_of_the_kernels_are_their_leading_terms(page: str) -> None:
    """In blocks that fill an SRAM of M with what is named; the closed forms at N = 2^20 and d = 1024."""
    found = {cells[0]: LEADING[cells[1]] for cells in table(page, "| | words a pair |")}
    n, d = 2**20, 1024
    for line, (kernel, options), m, blocks in (
        (r"square tiles as printed, $B = \sqrt{M / 4}$", ("square-tiles", Options()), 4 * 256**2, Blocks(256, 256)),
        ('square tiles with `depth="one"`', ("square-tiles", ONE), 512**2, Blocks(512, 512)),
        ("FlashAttention, K and V filling the SRAM", ("flash", CREATE), 4 * d**2, Blocks(1, 2 * d)),
        ("FlashAttention-2, Q and O filling the SRAM", ("flash2", Options()), 4 * d**2, Blocks(2 * d, 1)),
    ):
        words = predict.predict(kernel, Attention(n, d), blocks, options)
        moved = sum(array.reads + array.writes for array in words.values())
        assert moved / n**2 == pytest.approx(found[line](d / m**0.5), rel=1e-2), line


def test_how_near_flash_attention_2_comes(page: str) -> None:
    problem, m = Attention(2**20, 256), 4 * 256**2
    blocks = predict.choose_blocks("flash2", problem, Capacity(m), "best", Options())
    words = sum(array.reads + array.writes for array in predict.predict("flash2", problem, blocks, Options()).values())
    share = 100 * (words / max(bound.words for bound in bounds(problem, m)) - 1)
    assert f"its best blocks move {share:.1f} % more than the bound at $M = 4 d^2$" in page


def test_the_page_names_every_bound_and_its_formula(page: str) -> None:
    plain = page.replace("**", "")
    for bound in (*bounds(PROBLEM, 64), *backward_bounds(PROBLEM, 64)):
        assert bound.name.lower() in plain.lower()
    for written, meant in ((r"\sqrt{M}", "√M"), (r"\Theta", "Θ"), (r"\min", "min"), ("^2", "²"), ("^3", "³")):
        plain = plain.replace(written, meant)
    assert BACKWARD_GROWTH.formula in plain
    assert max(map(len, page.splitlines())) < 220
