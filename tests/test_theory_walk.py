"""Closed forms against a walk over every tile of the listings, written out here in plain loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import dtypes, theory
from iosim.masks import BlockMask
from iosim.specs import Attention, Blocks, Options
from iosim.theory import Moved
from iosim.units import Unit

Bools = NDArray[np.bool_]


ARRAYS = {"standard": "QKVSPO", "flash": "QKVOlm", "block-sparse": "QKVOlm", "flash2": ("Q", "K", "V", "O", "LSE")}


class Walk:
    """Counts what one head moves and what stands on chip, tile by tile."""

    def __init__(self, problem: Attention, blocks: Blocks, options: Options, kernel: str, unit: Unit = "words") -> None:
        self.p, self.o, self.unit = problem, options, unit
        self.n, self.nk, self.d, self.dv = problem.n, problem.nk, problem.d, problem.dv
        self.ideal = kernel == "standard" and options.reuse == "ideal"
        self.br, self.bc = blocks.rows, blocks.cols
        names = [*ARRAYS[kernel], *(["mask"] if problem.mask is not None else [])]
        self.words = {name: [0, 0, 0] for name in names}
        self.room = self.peak = 0
        self.keep = who_may_attend(problem)
        accumulator, scores = dtypes.accumulator(problem.dtype), dtypes.intermediate(problem.dtype)
        self.made = dtypes.itemsize(accumulator)
        self.itemsize = dict.fromkeys("QKVO", problem.itemsize) | dict.fromkeys("SP", dtypes.itemsize(scores)) | {"mask": 1}
        if kernel == "standard":
            self.standard()
        elif kernel == "flash2":
            self.flash2()
        else:
            self.flash(skip_empty=options.skip_empty and kernel == "block-sparse")

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

    def flash(self, *, skip_empty: bool) -> None:
        create = self.o.first_pass == "create"
        seen = set()
        for i in self.rows():
            if not create:
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
                            self.visit(i, j, made=create and i not in seen)
                            seen.add(i)
        for i in self.rows():
            if create and i not in seen:
                self.empty(i[1] - i[0], init=False)

    def visit(self, i: tuple[int, int], j: tuple[int, int], *, made: bool) -> None:
        r = i[1] - i[0]
        self.load("Q", r, self.d)
        for array, width in (("O", self.dv), ("l", 1), ("m", 1)):
            if made:
                self.let(r, width)
            else:
                self.load(array, r, width)
            self.store(array, r, width)
        self.scores(i, j)
        self.let(r, 6)

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
)
kernels = pytest.mark.parametrize("kernel", theory.KERNELS)
units = st.sampled_from(["words", "bytes"])


@kernels
@given(problems(), options)
def test_predicted_words_are_what_a_walk_counts(kernel: str, case: tuple[Attention, Blocks], options: Options) -> None:
    walk = Walk(*case, options, kernel)
    assert theory.predict(kernel, *case, options) == {name: Moved(*words) for name, words in walk.words.items()}


@kernels
@given(problems(), options)
def test_no_kernel_moves_less_than_is_compulsory(kernel: str, case: tuple[Attention, Blocks], options: Options) -> None:
    total = sum(array.reads + array.writes for array in theory.predict(kernel, *case, options).values())
    assert total >= (theory.compulsory(case[0]) or 0)


@kernels
@given(problems(), options, units)
def test_residents_are_the_peak_of_a_walk(kernel: str, case: tuple[Attention, Blocks], options: Options, unit: Unit) -> None:
    assert theory.residents(kernel, *case, options, unit) == Walk(*case, options, kernel, unit).peak


@given(problems())
def test_compulsory_words_are_the_rows_that_attend_and_those_attended(case: tuple[Attention, Blocks]) -> None:
    problem, _ = case
    keep = who_may_attend(problem)
    words = keep.any(axis=1).sum() * problem.d + keep.any(axis=0).sum() * (problem.d + problem.dv) + problem.n * problem.dv
    combined = problem.block_mask is not None and (problem.band is not None or problem.mask is not None)
    assert theory.compulsory(problem) == (None if combined else words)
