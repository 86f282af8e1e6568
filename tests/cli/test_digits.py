"""Numbers are written in ASCII wherever one can be given: digits of other scripts are refused, and numbers of thousands of digits."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import BadInput, capacity
from iosim.core.masks import patterns
from iosim.core.units import real

PLACES = (
    "run flash2 --n {}", "run flash2 --nk {}", "run flash2 --d {}", "run flash2 --batch {}", "run flash2 --seed {}",
    "run flash2 --scale {}", "run flash2 --dropout 0.{}", "run flash2 --window {},0", "run flash2 --blocks {}x4",
    "run flash2 --sram {}0000", "run flash2 --sram {}KiB", "run flash2 --sram 1.{}KiB", "run flash2 --block-mask local:{}",
    "run flash2 --block-mask random:0.{}", "curve --n 1..{}", "curve --n 1..3:{}", "curve --n {},4", "curve --sram 1..{}",
    "cache flash2 --ways {}", "cache flash2 --sizes {}..40000", "bounds --sram {}0000", "tiles --sram {}0000",
    "explain flash2 --check {}*N*d", "gpu compile --arch sm_{}0",
)  # fmt: skip
DIGITS = [chr(code) for code in range(128, 0x20000) if unicodedata.decimal(chr(code), None) == 3]


@pytest.mark.parametrize("place", PLACES)
def test_a_digit_of_another_script_is_refused(place: str, refused: Callable[[str], str]) -> None:
    for digit in (DIGITS[0], "३", "３"):
        assert digit in refused(place.format(digit)) or "architecture" in place


@given(st.sampled_from(DIGITS))
def test_the_library_refuses_it_too(digit: str) -> None:
    assert float(digit) == 3.0  # which Python reads
    for text in (digit, f"1{digit}KiB", f"1.{digit}KiB"):
        with pytest.raises(BadInput, match="cannot read the size"):
            capacity(text)
    with pytest.raises(BadInput, match="cannot read the number"):
        patterns.parse(f"local:{digit}", 8, 8, 2, 2)
    with pytest.raises(ValueError, match="could not convert"):
        real(digit)


@given(st.floats(allow_nan=False))
def test_a_number_in_ascii_is_read_as_python_reads_it(number: float) -> None:
    assert real(repr(number)) == number


@pytest.mark.parametrize("place", [place for place in PLACES[:-2] if "0.{}" not in place])
def test_a_number_of_thousands_of_digits_is_refused_in_one_line(place: str, refused: Callable[[str], str]) -> None:
    assert "bug" not in refused(place.format("3" * 5000))


def test_a_seed_of_a_mask_keeps_all_its_digits() -> None:
    one, other = (patterns.parse(f"random:0.5,{seed}", 512, 512, 8, 8) for seed in (2**63, 2**63 + 1))
    assert (one.dense() != other.dense()).any()
