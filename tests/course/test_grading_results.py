"""A function's results as bytes: what was packed is read back bit for bit, and no bytes at all do more than be refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from iosim.course.grading import function_child, results, submission

DTYPES = tuple(results.CODES.values())
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
END = results.MESSAGE.pack(results.DONE, 0)


def message(kind: int, body: bytes) -> bytes:
    return results.MESSAGE.pack(kind, len(body)) + body


def stream(*returned: object) -> bytes:
    return b"".join(message(results.RESULT, function_child.packed(one)) for one in returned) + END


@given(st.lists(st.lists(ARRAYS, min_size=2, max_size=2), max_size=3))
def test_what_was_packed_is_read_back_bit_for_bit(calls: list[list[NDArray[np.generic]]]) -> None:
    got = results.parse(stream(*map(tuple, calls)), len(calls), 2, DTYPES)
    assert (got.error, got.broken) == (None, "")
    for packed, parsed in zip(calls, got.calls, strict=True):
        for one, other in zip(packed, parsed, strict=True):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (True, "bool"),
        (7, "int64"),
        (0.5, "float64"),
        (np.float32(0.5), "float32"),
        (np.int64(7), "int64"),
        (np.int32(7), "int64"),
        (np.uint8(7), "int64"),
    ],
)
def test_a_number_comes_as_an_array_without_axes(number: object, dtype: str) -> None:
    ((array,),) = results.parse(stream(number), 1, 1, DTYPES).calls
    assert (array.dtype.name, array.shape, array.item()) == (dtype, (), number)


@given(st.binary(max_size=80), st.integers(0, 3))
def test_no_bytes_do_more_than_be_refused(raw: bytes, calls: int) -> None:
    got = results.parse(raw, calls, 1, DTYPES)
    assert len(got.calls) <= calls
    assert got.broken or got.error or raw.endswith(END)


@given(st.data(), ARRAYS)
def test_one_byte_more_or_less_is_refused(data: st.DataObject, array: NDArray[np.generic]) -> None:
    whole = stream(array)
    assert results.parse(whole[: data.draw(st.integers(0, len(whole) - 1))], 1, 1, DTYPES).broken
    assert results.parse(whole + b"\0", 1, 1, DTYPES).broken


@given(st.data(), ARRAYS, st.integers(0, 255))
def test_a_changed_byte_is_refused_or_stays_within_the_stream(data: st.DataObject, array: NDArray[np.generic], byte: int) -> None:
    whole = bytearray(stream(array))
    whole[data.draw(st.integers(0, len(whole) - 1))] = byte
    got = results.parse(bytes(whole), 1, 1, DTYPES)
    assert sum(one.nbytes for call in got.calls for one in call) <= len(whole)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (struct.pack("<B", 2), "call 1 returned 2 arrays, not one array"),
        (struct.pack("<BBB", 1, 9, 0), "a result has dtype code 9, not float64"),
        (struct.pack("<BBBf", 1, 3, 0, 1.0), "a result has dtype float32, not float64"),
        (struct.pack("<BBB", 1, 4, 5), "a result has 5 axes, at most 4 are read"),
        (struct.pack("<BBBQ", 1, 4, 1, 2**63), f"a result of shape ({2**63},)"),
        (struct.pack("<BBB4Q", 1, 4, 4, 0, 2**24, 2**24, 2**24), f"a result of shape {(0, 2**24, 2**24, 2**24)}"),
        (struct.pack("<BBB2Q", 1, 4, 2, 0, 2**24 + 1), f"a result of shape {(0, 2**24 + 1)}"),
        (struct.pack("<BBBQ4d", 1, 4, 1, 5, 0, 0, 0, 0), "what came back is cut short"),
        (struct.pack("<BBBQ4d", 1, 4, 1, 3, 0, 0, 0, 0), "a result is longer than its arrays"),
        (b"", "what came back is cut short"),
    ],
)
def test_a_forged_result_is_refused_for_what_it_is(body: bytes, why: str) -> None:
    assert results.parse(message(results.RESULT, body) + END, 1, 1, ("float64",)).broken == why


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "it ended after 0 of 1 calls without a word (exit, kill or crash)"),
        (END, "a message of kind 3 after 0 of 1 results"),
        (stream(1.0)[:-5], "it ended after 1 of 1 calls without a word (exit, kill or crash)"),
        (stream(1.0, 1.0), "a message of kind 1 after 1 of 1 results"),
        (stream(1.0) + END, "something follows the end"),
        (message(results.FAILURE, results.WORDS.pack(61, 0, 0)), "a failure told at too great length"),
        (message(results.FAILURE, results.WORDS.pack(0, 0, 0) + b"?"), "a failure is longer than its words"),
        (message(99, b""), "a message of kind 99 after 0 of 1 results"),
    ],
)
def test_a_forged_stream_is_refused_for_what_it_is(raw: bytes, why: str) -> None:
    assert results.parse(raw, 1, 1, DTYPES).broken == why


def test_a_truth_value_has_two_values() -> None:
    forged = message(results.RESULT, struct.pack("<BBBQ3B", 1, 1, 1, 3, 0, 1, 2)) + END
    ((array,),) = results.parse(forged, 1, 1, DTYPES).calls
    assert array.view(np.uint8).tolist() == [0, 1, 1]


@given(st.text(), st.text())
def test_words_of_an_exception_cannot_move_a_cursor(kind: str, text: str) -> None:
    error = type("E", (Exception,), {})(text)
    type(error).__name__ = kind.replace("\0", "")
    got = results.parse(message(results.FAILURE, function_child.failure(error)), 1, 1, DTYPES).error
    assert got is not None
    assert (got.type + got.message).isprintable()


def test_an_exception_tells_the_lines_of_the_submission() -> None:
    function = submission.load(b"def g(x): return 1 / x\ndef f(x):\n    return g(x)\n", "f")
    with pytest.raises(ZeroDivisionError) as raised:
        function(0)
    assert submission.told(raised.value) == ("ZeroDivisionError", "division by zero", [3, 1])


def test_a_deep_recursion_tells_its_last_lines() -> None:
    function = submission.load(b"def f(x):\n    return f(x)\n", "f")
    with pytest.raises(RecursionError) as raised:
        function(0)
    got = results.parse(message(results.FAILURE, function_child.failure(raised.value)), 1, 1, DTYPES).error
    assert got is not None
    assert got.lines == (2,) * results.MOST_LINES


@given(
    st.sampled_from(list(results.CODES)),
    st.lists(st.sampled_from([0, 1, 2, 2**12, 2**24, 2**40, 2**63, 2**64 - 1]), max_size=4),
    st.binary(max_size=64),
)
def test_no_forged_shape_does_more_than_be_refused(code: int, shape: list[int], raw: bytes) -> None:
    body = struct.pack(f"<BBB{len(shape)}Q", 1, code, len(shape), *shape) + raw
    found = results.parse(message(results.RESULT, body) + END, 1, 1, tuple(results.CODES.values()))
    assert found.broken or found.calls[0][0].shape == tuple(shape)
