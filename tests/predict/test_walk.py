"""Closed forms against a walk over every tile of the listings, written out here in plain loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import KERNELS, predict
from iosim.core import dtypes
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Unit
from iosim.predict import Moved

Bools = NDArray[np.bool_]


GRADIENTS = ("dO", "dQ", "dK", "dV")
ARRAYS = {
    "standard": ("Q", "K", "V", "S", "P", "O"),
    "flash": ("Q", "K", "V", "O", "l", "m"),
    "block-sparse": ("Q", "K", "V", "O", "l", "m"),
    "flash2": ("Q", "K", "V", "O", "LSE"),
    "standard-backward": ("Q", "K", "V", "P", *GRADIENTS, "dP", "dS"),
    "flash-backward": ("Q", "K", "V", "O", "l", "m", *GRADIENTS),
    "flash2-backward": ("Q", "K", "V", "O", "LSE", *GRADIENTS, "D"),
    "square-tiles": ("Q", "K", "V", "S", "O", "l", "m"),
    "square-tiles-backward": ("Q", "K", "V", "O", "l", "m", *GRADIENTS, "D", "P", "dS"),
}
WAITING = {"flash": "O", "block-sparse": "O", "flash-backward": "dQ", "flash2-backward": "dQ"}


class Walk:
    """Counts what one head moves and what stands on chip, tile by tile."""

    def __init__(self, problem: Attention, blocks: Blocks, options: Options, kernel: str, unit: Unit = "words") -> None:
        self.p, self.o, self.unit = problem, options, unit
        self.n, self.nk, self.d, self.dv = problem.n, problem.nk, problem.d, problem.dv
        self.ideal = kernel.startswith("standard") and options.reuse == "ideal"
        self.create = options.first_pass == "create"
        self.waiting = WAITING.get(kernel, "") + ("_acc" if options.accumulator == "float32" else "")
        self.br, self.bc = blocks.rows, blocks.cols
        names = {*ARRAYS[kernel], *(["mask"] if problem.mask is not None else [])}
        names |= {self.waiting} if kernel in WAITING else set()
        names |= {"D"} if kernel == "flash-backward" and self.create else set()
        self.words = {name: [0, 0, 0] for name in names}
        self.room = self.peak = 0
        self.keep = who_may_attend(problem)
        accumulator, scores = dtypes.accumulator(problem.dtype), dtypes.intermediate(problem.dtype)
        self.made = dtypes.itemsize(accumulator)
        given, between = ("Q", "K", "V", "O", *GRADIENTS), ("S", "P", "dP", "dS")
        self.itemsize = dict.fromkeys(given, problem.itemsize) | dict.fromkeys(between, dtypes.itemsize(scores)) | {"mask": 1}
        listings = {
            "standard": self.standard,
            "flash": self.flash,
            "block-sparse": lambda: self.flash(skip_empty=options.skip_empty),
            "flash2": self.flash2,
            "standard-backward": self.standard_backward,
            "flash-backward": self.flash_backward,
            "flash2-backward": self.flash2_backward,
            "square-tiles": self.square_tiles,
            "square-tiles-backward": self.square_tiles_backward,
        }
        listings[kernel]()

    # the machine

    @contextmanager
    def tile(self) -> Iterator[None]:
        before = self.room
        yield
        self.room = before

    def let(self, rows: int, cols: int, itemsize: int | None = None) -> None:
        self.room += rows * cols * ((itemsize or self.made) if self.unit == "bytes" else 1)
        self.peak = max(self.peak, self.room)

    def load(self, array: str, rows: int, cols: int) -> None:
        self.words[array][0] += rows * cols
        self.let(rows, cols, self.itemsize.get(array, self.made))

    def store(self, array: str, rows: int, cols: int, *, init: bool = False) -> None:
        self.words[array][1] += rows * cols
        self.words[array][2] += rows * cols * init

    # the grid

    def rows(self) -> list[tuple[int, int]]:
        return tiles(self.n, self.br)

    def cols(self) -> list[tuple[int, int]]:
        return tiles(self.nk, self.nk if self.ideal else self.bc)

    def visited(self, i: tuple[int, int], j: tuple[int, int]) -> bool:
        everywhere = self.p.masked and (self.ideal or not self.o.skip)
        return everywhere or bool(self.keep[slice(*i), slice(*j)].any())

    def full(self, i: tuple[int, int], j: tuple[int, int]) -> bool:
        everywhere = self.p.masked and (self.ideal or not self.o.skip)
        return not everywhere and bool(self.keep[slice(*i), slice(*j)].all())

    def scores(self, i: tuple[int, int], j: tuple[int, int]) -> None:
        r, c = i[1] - i[0], j[1] - j[0]
        self.let(r, c)
        if self.p.mask is not None and not self.full(i, j):
            self.load("mask", r, c)

    # the listings

    def flash2(self) -> None:
        for i in self.rows():
            r = i[1] - i[0]
            with self.tile():
                self.load("Q", r, self.d)
                self.let(r, self.dv + 2)
                for j in self.cols():
                    if self.visited(i, j):
                        with self.tile():
                            self.load("K", j[1] - j[0], self.d)
                            self.load("V", j[1] - j[0], self.dv)
                            self.scores(i, j)
                            self.let(r, 2)
                self.store("O", r, self.dv)
                self.store("LSE", r, 1)

    def flash(self, *, skip_empty: bool = False) -> None:
        seen = set()
        for i in self.rows():
            if not self.create:
                self.empty(i[1] - i[0], init=True)
        for j in self.cols():
            if skip_empty and not any(self.visited(i, j) for i in self.rows()):
                continue
            with self.tile():
                self.load("K", j[1] - j[0], self.d)
                self.load("V", j[1] - j[0], self.dv)
                for i in self.rows():
                    if self.visited(i, j):
                        with self.tile():
                            self.visit(i, j, made=self.create and i not in seen)
                            seen.add(i)
        for i in self.rows():
            if self.create and i not in seen:
                self.empty(i[1] - i[0], init=False)

    def visit(self, i: tuple[int, int], j: tuple[int, int], *, made: bool) -> None:
        r = i[1] - i[0]
        self.load("Q", r, self.d)
        for array, width in ((self.waiting, self.dv), ("l", 1), ("m", 1)):
            if made:
                self.let(r, width)
            else:
                self.load(array, r, width)
        self.scores(i, j)
        self.let(r, 6)
        self.store("O" if self.last(i, j) else self.waiting, r, self.dv)
        self.store("l", r, 1)
        self.store("m", r, 1)

    def last(self, i: tuple[int, int], j: tuple[int, int]) -> bool:
        """Whether no key tile after ``j`` visits ``i``."""
        return not any(self.visited(i, later) for later in self.cols() if later > j)

    def empty(self, r: int, *, init: bool) -> None:
        with self.tile():
            for array, width in (("O", self.dv), ("l", 1), ("m", 1)):
                self.let(r, width)
                self.store(array, r, width, init=init)

    def standard(self) -> None:
        outer, inner = (self.cols(), self.rows()) if self.ideal else (self.rows(), self.cols())
        for a in outer:
            with self.tile():
                self.load("K" if self.ideal else "Q", a[1] - a[0], self.d)
                for b in inner:
                    i, j = (b, a) if self.ideal else (a, b)
                    with self.tile():
                        if self.visited(i, j):
                            self.load("Q" if self.ideal else "K", b[1] - b[0], self.d)
                            self.scores(i, j)
                        else:
                            self.let(i[1] - i[0], j[1] - j[0])
                        self.store("S", i[1] - i[0], j[1] - j[0])
        self.softmax()
        for a in outer:
            with self.tile():
                if self.ideal:
                    self.load("V", self.nk, self.dv)
                else:
                    self.let(a[1] - a[0], self.dv)
                for b in inner:
                    i, j = (b, a) if self.ideal else (a, b)
                    if self.visited(i, j):
                        with self.tile():
                            self.load("P", i[1] - i[0], j[1] - j[0])
                            if not self.ideal:
                                self.load("V", j[1] - j[0], self.dv)
        self.store("O", self.n, self.dv)

    def flash_backward(self) -> None:
        seen = set()
        if not self.create:
            self.fill("dQ", self.d, self.rows(), init=True)
            self.fill("dK", self.d, self.cols(), init=True)
            self.fill("dV", self.dv, self.cols(), init=True)
        for j in self.cols():
            with self.column(j):
                for i in self.rows():
                    if self.visited(i, j):
                        with self.tile():
                            self.backward_visit(i, j, first=i not in seen)
                            seen.add(i)
        if self.create:
            self.fill("dQ", self.d, [i for i in self.rows() if i not in seen])

    def backward_visit(self, i: tuple[int, int], j: tuple[int, int], *, first: bool) -> None:
        r, c = i[1] - i[0], j[1] - j[0]
        for array, width in (("Q", self.d), ("dO", self.dv), ("l", 1), ("m", 1)):
            self.load(array, r, width)
        self.scores(i, j)
        self.let(r, c)  # dP beside P
        if first or not self.create:
            self.load("O", r, self.dv)
            self.let(r, 1)
            if self.create:
                self.store("D", r, 1)
        else:
            self.load("D", r, 1)
        if first and self.create:
            self.let(r, self.d)
        else:
            self.load(self.waiting, r, self.d)
        self.store("dQ" if self.last(i, j) else self.waiting, r, self.d)

    def flash2_backward(self) -> None:
        for start, stop in self.rows():
            with self.tile():
                self.load("dO", stop - start, self.dv)
                self.load("O", stop - start, self.dv)
                self.store("D", stop - start, 1)
        if self.o.dq_pass == "shared":
            self.fill(self.waiting, self.d, self.rows(), init=True)
        for j in self.cols():
            with self.column(j):
                for i in self.rows():
                    if self.visited(i, j):
                        with self.tile():
                            self.row_of_gradients(i)
                            self.scores(i, j)
                            if self.o.dq_pass == "shared":
                                self.load(self.waiting, i[1] - i[0], self.d)
                                self.store(self.waiting, i[1] - i[0], self.d)
        for i in self.rows():
            if self.o.dq_pass == "own":
                self.dq_alone(i)
            elif self.waiting != "dQ":
                with self.tile():
                    self.load("dQ_acc", i[1] - i[0], self.d)
                    self.store("dQ", i[1] - i[0], self.d)

    def dq_alone(self, i: tuple[int, int]) -> None:
        with self.tile():
            self.row_of_gradients(i)
            self.let(i[1] - i[0], self.d)
            for j in self.cols():
                if self.visited(i, j):
                    with self.tile():
                        self.load("K", j[1] - j[0], self.d)
                        self.load("V", j[1] - j[0], self.dv)
                        self.scores(i, j)
            self.store("dQ", i[1] - i[0], self.d)

    def row_of_gradients(self, i: tuple[int, int]) -> None:
        for array, width in (("Q", self.d), ("dO", self.dv), ("LSE", 1), ("D", 1)):
            self.load(array, i[1] - i[0], width)

    @contextmanager
    def column(self, j: tuple[int, int]) -> Iterator[None]:
        """A key tile in whose time dK and dV are made."""
        with self.tile():
            for array, width in (("K", self.d), ("V", self.dv)):
                self.load(array, j[1] - j[0], width)
                self.let(j[1] - j[0], width)
            yield
            self.store("dK", j[1] - j[0], self.d)
            self.store("dV", j[1] - j[0], self.dv)

    def fill(self, array: str, width: int, some: list[tuple[int, int]], *, init: bool = False) -> None:
        for start, stop in some:
            with self.tile():
                self.let(stop - start, width)
                self.store(array, stop - start, width, init=init)

    def standard_backward(self) -> None:
        self.by_columns("P", "dO", self.dv, "dV")
        self.products_of_rows()
        self.softmax_backward()
        self.by_rows()
        self.by_columns("dS", "Q", self.d, "dK")

    def by_columns(self, weights: str, operand: str, width: int, result: str) -> None:
        for j in self.cols():
            with self.tile():
                self.let(j[1] - j[0], width)
                for i in self.rows():
                    if self.visited(i, j):
                        with self.tile():
                            self.load(weights, i[1] - i[0], j[1] - j[0])
                            self.load(operand, i[1] - i[0], width)
                self.store(result, j[1] - j[0], width)

    def products_of_rows(self) -> None:
        """dP = dO V^T."""
        outer, inner = (self.cols(), self.rows()) if self.ideal else (self.rows(), self.cols())
        for a in outer:
            with self.tile():
                self.load("V" if self.ideal else "dO", a[1] - a[0], self.dv)
                for b in inner:
                    i, j = (b, a) if self.ideal else (a, b)
                    with self.tile():
                        if self.visited(i, j):
                            self.load("dO" if self.ideal else "V", b[1] - b[0], self.dv)
                        else:
                            self.let(i[1] - i[0], j[1] - j[0])
                        self.store("dP", i[1] - i[0], j[1] - j[0])

    def by_rows(self) -> None:
        """dQ = dS K."""
        if self.ideal:
            with self.tile():
                self.load("K", self.nk, self.d)
                for start, stop in self.rows():
                    with self.tile():
                        self.load("dS", stop - start, self.nk)
                        self.store("dQ", stop - start, self.d)
            return
        for i in self.rows():
            with self.tile():
                self.let(i[1] - i[0], self.d)
                for j in self.cols():
                    if self.visited(i, j):
                        with self.tile():
                            self.load("dS", i[1] - i[0], j[1] - j[0])
                            self.load("K", j[1] - j[0], self.d)
                self.store("dQ", i[1] - i[0], self.d)

    def softmax_backward(self) -> None:
        if self.o.softmax == "rows":
            for _ in range(self.n):
                with self.tile():
                    self.load("P", 1, self.nk)
                    self.load("dP", 1, self.nk)
                    self.store("dS", 1, self.nk)
            return
        for start, stop in self.rows():
            r = stop - start
            with self.tile():
                self.let(r, 1)
                for sweep in (1, 2):
                    for a, b in tiles(self.nk, self.bc):
                        with self.tile():
                            self.load("P", r, b - a)
                            self.load("dP", r, b - a)
                            if sweep == 2:
                                self.store("dS", r, b - a)

    def square_tiles(self) -> None:
        for i in self.rows():
            r = i[1] - i[0]
            with self.tile():
                self.let(r, 2)
                for j in self.cols():
                    if self.visited(i, j):
                        with self.tile():
                            self.blocked("Q", "K", self.d, i, j, masked=True)
                            self.store("S", r, j[1] - j[0])
                            self.let(r, 1)
                self.store("l", r, 1)
                self.store("m", r, 1)
        for i in self.rows():
            with self.tile():
                self.load("l", i[1] - i[0], 1)
                self.load("m", i[1] - i[0], 1)
                self.streamed("S", "V", self.dv, "O", i, [j for j in self.cols() if self.visited(i, j)])

    def square_tiles_backward(self) -> None:
        one = self.o.depth == "one"
        for start, stop in self.rows():
            with self.tile():
                self.let(stop - start, 1)
                for columns in tiles(self.dv, self.deep()):
                    with self.tile():
                        self.load("dO", stop - start, columns[1] - columns[0])
                        self.load("O", stop - start, columns[1] - columns[0])
                self.store("D", stop - start, 1)
        for i in self.rows():
            with self.tile():
                self.load("l", i[1] - i[0], 1)
                self.load("m", i[1] - i[0], 1)
                self.tiles_of_row(i, "Q", "K", self.d, "P")
        for i in self.rows():
            with self.tile():
                if not one:
                    self.load("D", i[1] - i[0], 1)
                self.tiles_of_row(i, "dO", "V", self.dv, "dS")
        for i in self.rows() if one else []:
            with self.tile():
                self.load("D", i[1] - i[0], 1)
                for j in self.cols():
                    for _ in range(*j) if self.visited(i, j) else []:
                        with self.tile():
                            self.load("P", i[1] - i[0], 1)
                            self.load("dS", i[1] - i[0], 1)
                            self.store("dS", i[1] - i[0], 1)
        for j in self.cols():
            self.streamed("P", "dO", self.dv, "dV", j, [i for i in self.rows() if self.visited(i, j)])
            self.streamed("dS", "Q", self.d, "dK", j, [i for i in self.rows() if self.visited(i, j)])
        for i in self.rows():
            self.streamed("dS", "K", self.d, "dQ", i, [j for j in self.cols() if self.visited(i, j)])

    def deep(self) -> int:
        """How many columns of both factors a blocked product meets at once."""
        return 1 if self.o.depth == "one" else min(self.bc, self.nk)

    def tiles_of_row(self, i: tuple[int, int], left: str, right: str, width: int, result: str) -> None:
        """P, or dS, in the tiles that a query tile visits."""
        r = i[1] - i[0]
        for j in self.cols():
            if self.visited(i, j):
                with self.tile():
                    self.blocked(left, right, width, i, j, masked=result == "P")
                    if result == "dS" and self.o.depth == "square":
                        self.load("P", r, j[1] - j[0])
                    self.store(result, r, j[1] - j[0])

    def blocked(self, left: str, right: str, width: int, i: tuple[int, int], j: tuple[int, int], *, masked: bool) -> None:
        """A tile of a product with a transpose, from some columns of both factors at a time."""
        r, c = i[1] - i[0], j[1] - j[0]
        self.let(r, c)
        for columns in tiles(width, self.deep()):
            with self.tile():
                self.load(left, r, columns[1] - columns[0])
                self.load(right, c, columns[1] - columns[0])
        if masked and self.p.mask is not None and not self.full(i, j):
            self.load("mask", r, c)

    def streamed(self, weights: str, operand: str, width: int, result: str, i: tuple[int, int], seen: list[tuple[int, int]]) -> None:
        """Tiles of a product over the rows of the tiles ``seen``, or over single ones."""
        r = i[1] - i[0]
        for columns in tiles(width, min(self.bc, self.nk)):
            wide = columns[1] - columns[0]
            with self.tile():
                self.let(r, wide)
                for start, stop in seen:
                    for inner in [stop - start] if self.o.depth == "square" else [1] * (stop - start):
                        with self.tile():
                            self.load(weights, r, inner)
                            self.load(operand, inner, wide)
                self.store(result, r, wide)

    def softmax(self) -> None:
        if self.o.softmax == "rows":
            for _ in range(self.n):
                with self.tile():
                    self.load("S", 1, self.nk)
                    self.store("P", 1, self.nk)
            return
        for start, stop in self.rows():
            r = stop - start
            with self.tile():
                self.let(r, 2)
                for sweep in (1, 2):
                    for a, b in tiles(self.nk, self.bc):
                        with self.tile():
                            self.load("S", r, b - a)
                            if sweep == 1:
                                self.let(r, 1)
                            else:
                                self.store("P", r, b - a)


def tiles(n: int, block: int) -> list[tuple[int, int]]:
    return [(start, min(n, start + block)) for start in range(0, n, block)]


def who_may_attend(problem: Attention) -> Bools:
    """Pair by pair, as the specification words it."""
    keep = np.ones((problem.n, problem.nk), np.bool_)
    left, right = problem.window or (-1, -1)
    for i, j in np.ndindex(keep.shape):
        ahead = j - (i + problem.nk - problem.n)
        keep[i, j] = not ((problem.causal and ahead > 0) or 0 <= right < ahead or 0 <= left < -ahead)
    if problem.mask is not None:
        keep &= problem.mask
    if problem.block_mask is not None:
        block_mask, kept = problem.block_mask, problem.block_mask.dense()
        for i, j in np.ndindex(keep.shape):
            keep[i, j] &= kept[i // block_mask.rows, j // block_mask.cols]
    return keep


reaches = st.integers(-1, 9)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Attention, Blocks]:
    """A small problem under any rules, and blocks that suit it."""
    n, nk, br, bc = (draw(st.integers(1, high)) for high in (12, 12, 14, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rules = draw(st.sets(st.sampled_from(["causal", "window", "mask", "block mask"])))
    mask = block_mask = None
    if "mask" in rules:
        coarse = rng.integers(0, 3, (-(-n // br), -(-nk // bc))).repeat(br, 0).repeat(bc, 1)[:n, :nk]
        mask = (coarse == 2) | (coarse == 1) & (rng.random((n, nk)) < 0.3)
    if "block mask" in rules:
        block_mask = BlockMask.from_dense(rng.random((-(-n // br), -(-nk // bc))) < draw(st.sampled_from([0.1, 0.5, 1])), n, nk, br, bc)
    problem = Attention(
        n,
        draw(st.integers(1, 5)),
        nk=nk,
        dv=draw(st.integers(1, 9)),
        dtype=draw(st.sampled_from(dtypes.NAMES)),
        causal="causal" in rules,
        window=(draw(reaches), draw(reaches)) if "window" in rules else None,
        mask=mask,
        block_mask=block_mask,
    )
    return problem, Blocks(br, bc)


options = st.builds(
    Options,
    first_pass=st.sampled_from(["load", "create"]),
    reuse=st.sampled_from(["tiled", "ideal"]),
    softmax=st.sampled_from(["rows", "streamed"]),
    skip=st.sampled_from([True, True, False]),
    skip_empty=st.booleans(),
    accumulator=st.sampled_from(["storage", "float32"]),
    dq_pass=st.sampled_from(["shared", "own"]),
    depth=st.sampled_from(["square", "one"]),
).filter(lambda drawn: drawn.accumulator == "storage" or drawn.first_pass == "create")
ALGORITHMS = [name for name, found in KERNELS.items() if found.paper]  # software has tests of its own
kernels = pytest.mark.parametrize("kernel", ALGORITHMS)
units = st.sampled_from(["words", "bytes"])


@kernels
@given(problems(), options)
def test_predicted_words_are_what_a_walk_counts(kernel: str, case: tuple[Attention, Blocks], options: Options) -> None:
    walk = Walk(*case, options, kernel)
    assert predict.predict(kernel, *case, options) == {name: Moved(*words) for name, words in walk.words.items()}


@pytest.mark.parametrize("kernel", [kernel for kernel in ALGORITHMS if not kernel.endswith("backward")])
@given(problems(), options)
def test_no_forward_kernel_moves_less_than_is_compulsory(kernel: str, case: tuple[Attention, Blocks], options: Options) -> None:
    total = sum(array.reads + array.writes for array in predict.predict(kernel, *case, options).values())
    assert total >= predict.compulsory(case[0])


@kernels
@given(problems(), options, units)
def test_residents_are_the_peak_of_a_walk(kernel: str, case: tuple[Attention, Blocks], options: Options, unit: Unit) -> None:
    assert predict.residents(kernel, *case, options, unit) == Walk(*case, options, kernel, unit).peak


@given(problems())
def test_compulsory_words_are_the_rows_that_attend_and_those_attended(case: tuple[Attention, Blocks]) -> None:
    problem, _ = case
    keep = who_may_attend(problem)
    words = keep.any(axis=1).sum() * problem.d + keep.any(axis=0).sum() * (problem.d + problem.dv) + problem.n * problem.dv
    assert predict.compulsory(problem) == words
