"""Bad input gets one line that says what was asked, what was found and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iosim import Attention, BadInput, BlockMask, Blocks, Machine, SramOverflow, capacity, compare, problem_of, simulate, sweep
from iosim.core.errors import MissingExtra

GOOD = np.zeros((4, 3))


def raw(value: Any) -> Any:
    """A value that mypy would refuse."""
    return value


def two(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "q and k differ in d": (lambda: problem_of(two(4, 3), two(4, 2), two(4, 3)), "differ in d: 3 and 2"),
    "k and v differ in rows": (lambda: problem_of(two(4, 3), two(4, 3), two(5, 3)), "differ in rows: 4 and 5"),
    "heads differ": (lambda: problem_of(two(1, 2, 4, 3), two(1, 3, 4, 3), two(1, 2, 4, 3)), "differ in batch or heads"),
    "empty q": (lambda: problem_of(two(0, 3), GOOD, GOOD), r"\(0, 3\) and holds no element"),
    "empty k": (lambda: problem_of(GOOD, two(0, 3), two(0, 3)), r"\(0, 3\) and holds no element"),
    "three dimensions": (lambda: problem_of(two(2, 4, 3), two(2, 4, 3), two(2, 4, 3)), "3 dimensions"),
    "no numbers": (lambda: problem_of(np.array([["a"]]), np.array([["a"]]), np.array([["a"]])), "numbers"),
    "complex numbers": (lambda: problem_of(GOOD * 1j, GOOD, GOOD), "real"),
    "unknown rule": (lambda: problem_of(GOOD, GOOD, GOOD, casual=True), "casual"),
    "inputs of another size": (
        lambda: simulate("flash2", Attention(n=5, d=3), inputs=(GOOD, GOOD, GOOD)),
        "n = 4 but the problem has n = 5",
    ),
    "two inputs": (lambda: simulate("flash2", Attention(n=4, d=3), inputs=(GOOD, GOOD)), "not 2 arrays"),
    "n of zero": (lambda: Attention(n=0, d=3), "n must be a whole number >= 1, not 0"),
    "n of a half": (lambda: Attention(n=raw(0.5), d=3), "not 0.5"),
    "n of True": (lambda: Attention(n=True, d=3), "not True"),
    "n of two numbers": (lambda: Attention(n=raw(np.array([1, 2])), d=3), "n must be a whole number"),
    "n that is a class": (lambda: Attention(n=raw(int), d=3), "n must be a whole number"),
    "ragged q": (lambda: problem_of([[1.0, 2.0], [3.0]], GOOD, GOOD), "q cannot be read"),
    "ragged mask": (lambda: Attention(n=2, d=3, mask=raw([[True], [True, False]])), "mask cannot be read"),
    "inputs that are none": (lambda: simulate("flash2", Attention(n=4, d=3), inputs=raw(True)), r"\(q, k, v\), not True"),
    "negative seed": (lambda: simulate("flash2", Attention(n=4, d=3), seed=-1), "seed must be a whole number >= 0"),
    "a problem that is none": (lambda: simulate("flash2", raw(None)), "must be an Attention"),
    "a kernel that is no name": (lambda: simulate(raw([]), Attention(n=4, d=3)), "a kernel must be a name"),
    "M that is none": (lambda: sweep(Attention(n=4, d=3), ["flash2"], sram=raw(None)), "sram must be a whole number"),
    "n that is none": (lambda: sweep(Attention(n=4, d=3), ["flash2"], n=raw(True)), "n must be a whole number"),
    "too many tiles": (lambda: simulate("flash2", Attention(n=10**12, d=3), sram=10**6, blocks=(64, 64), execute=False), "larger blocks"),
    "negative nk": (lambda: Attention(n=4, d=3, nk=-1), "nk must be a whole number"),
    "nk of zero": (lambda: Attention(n=4, d=3, nk=0), "nk must be a whole number"),
    "unknown dtype": (lambda: Attention(n=4, d=3, dtype="int8"), "known: float16"),
    "nan scale": (lambda: Attention(n=4, d=3, scale=float("nan")), "finite number or None"),
    "causal as a word": (lambda: Attention(n=4, d=3, causal=raw("yes")), "True or False"),
    "window of one": (lambda: Attention(n=4, d=3, window=raw((1,))), r"\(left, right\)"),
    "window below -1": (lambda: Attention(n=4, d=3, window=(-2, 0)), "window left"),
    "integer mask": (lambda: Attention(n=4, d=3, mask=raw(np.ones((4, 4), int))), "boolean"),
    "mask of another shape": (lambda: Attention(n=4, d=3, mask=np.ones((4, 3), bool)), r"\(4, 3\).*\(4, 4\)"),
    "block mask of other sizes": (
        lambda: Attention(n=4, d=3, block_mask=BlockMask.from_dense(np.ones((1, 1), bool), 5, 5, 5, 5)),
        "5 x 5 pairs but the problem has 4 x 4",
    ),
    "block mask that is none": (lambda: Attention(n=4, d=3, block_mask=raw(np.ones((2, 2), bool))), "BlockMask"),
    "Br of zero": (lambda: Blocks(0, 4), "Br must be a whole number >= 1, not 0"),
    "Bc of -1": (lambda: simulate("flash2", Attention(n=4, d=3), blocks=(4, -1)), "Bc must be a whole number"),
    "Br of 1.5": (lambda: simulate("flash2", Attention(n=4, d=3), blocks=raw((1.5, 2))), "Br must be a whole number"),
    "three blocks": (lambda: simulate("flash2", Attention(n=4, d=3), blocks=raw((1, 2, 3))), r"\(Br, Bc\)"),
    "unknown block rule": (lambda: simulate("flash2", Attention(n=4, d=3), blocks=raw("biggest")), "'fit', 'paper', 'best'"),
    "M of zero": (lambda: simulate("flash2", Attention(n=4, d=3), sram=0), "whole number >= 1, not 0"),
    "negative M": (lambda: simulate("flash2", Attention(n=4, d=3), sram=-5), "whole number >= 1, not -5"),
    "fractional M": (lambda: simulate("flash2", Attention(n=4, d=3), sram=raw(1.5)), "not 1.5"),
    "unknown suffix": (lambda: capacity("10XB"), "suffix of B KB MB GB KiB MiB GiB"),
    "a suffix alone": (lambda: capacity("KiB"), "cannot read the size"),
    "a fraction of a byte": (lambda: capacity("1.0001KB"), "not a whole number"),
    "unknown kernel": (lambda: simulate("flash3", Attention(n=4, d=3)), "known: standard, flash, flash2, block-sparse"),
    "unknown kernel in compare": (lambda: compare(Attention(n=4, d=3), ["flash9"]), "known: standard"),
    "unknown kernel in sweep": (lambda: sweep(Attention(n=4, d=3), ["flash9"]), "known: standard"),
    "no kernel": (lambda: compare(Attention(n=4, d=3), []), "at least one"),
    "unknown option": (lambda: simulate("flash2", Attention(n=4, d=3), tile="big"), "no option 'tile'"),
    "another kernel's option": (
        lambda: simulate("flash2", Attention(n=4, d=3), reuse="ideal"),
        "no option 'reuse'; it has: skip",
    ),
    "unknown value": (lambda: simulate("flash", Attention(n=4, d=3), first_pass="never"), "'load' or 'create'"),
    "skip as a word": (lambda: simulate("flash", Attention(n=4, d=3), skip="no"), "True or False"),
    "unknown overflow": (lambda: simulate("flash", Attention(n=4, d=3), overflow=raw("ignore")), "'error' or 'record'"),
    "M too small for any tile": (lambda: simulate("flash2", Attention(n=40, d=30), sram=100), "smallest SRAM for any blocks is 125 words"),
    "unknown machine mode": (lambda: Machine(mode=raw("guess")), "execute, trace or count"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str) -> None:
    ask, told = REFUSED[name]
    with pytest.raises(BadInput, match=told) as error:
        ask()
    assert "\n" not in str(error.value)


def test_a_kernel_that_does_not_fit_names_the_value_the_residents_and_the_remedy() -> None:
    with pytest.raises(SramOverflow) as error:
        simulate("flash2", Attention(n=1024, d=64), sram=12288, blocks=(64, 64))
    assert str(error.value) == (
        "K(64, 64) needs 4096 words but 3968 of 12288 are free; "
        "resident: Q(64, 64), O_i(64, 64), l_i(64, 1), m_i(64, 1); Bc <= 20 would fit"
    )
    assert simulate("flash2", Attention(n=1024, d=64), sram=12288, blocks=(64, 20), execute=False).sound
    with pytest.raises(SramOverflow):
        simulate("flash2", Attention(n=1024, d=64), sram=12288, blocks=(64, 21))


def test_bfloat16_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(MissingExtra, match=r"pip install \"iosim\[dtypes\]\""):
        simulate("flash2", Attention(n=4, d=3, dtype="bfloat16"))
