"""The words of the closed forms: printed numbers, terms that explain them, and whole arrays of sizes at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.predict import Moved

CREATE, IDEAL = Options(first_pass="create"), Options(reuse="ideal")
H11 = Attention(n=1024, d=64)
SQUARE = Blocks(64, 64)

ALGORITHMS = [name for name, found in KERNELS.items() if found.paper]  # software has tests of its own
kernels = pytest.mark.parametrize("kernel", ALGORITHMS)
all_options = st.builds(
    Options,
    first_pass=st.sampled_from(["load", "create"]),
    reuse=st.sampled_from(["tiled", "ideal"]),
    softmax=st.sampled_from(["rows", "streamed"]),
    skip=st.booleans(),
    skip_empty=st.booleans(),
    accumulator=st.sampled_from(["storage", "float32"]),
    dq_pass=st.sampled_from(["shared", "own"]),
    depth=st.sampled_from(["square", "one"]),
).filter(lambda drawn: drawn.accumulator == "storage" or drawn.first_pass == "create")
sizes = st.integers(1, 200)


# H11: who is read how often


def test_flash_rereads_q_and_o_once_a_key_tile() -> None:
    assert predict.predict("flash", H11, SQUARE) == {
        "Q": Moved(reads=1048576),
        "K": Moved(reads=65536),
        "V": Moved(reads=65536),
        "O": Moved(reads=1048576, writes=1048576 + 65536, init_writes=65536),
        "l": Moved(reads=16384, writes=16384 + 1024, init_writes=1024),
        "m": Moved(reads=16384, writes=16384 + 1024, init_writes=1024),
    }


def test_creating_o_on_chip_saves_a_pass_of_reads_and_the_filling() -> None:
    moved = predict.predict("flash", H11, SQUARE, CREATE)
    assert moved["O"] == Moved(reads=983040, writes=1048576)
    assert moved["l"] == moved["m"] == Moved(reads=15360, writes=16384)


def test_flash2_rereads_k_and_v_once_a_query_tile() -> None:
    assert predict.predict("flash2", H11, SQUARE) == {
        "Q": Moved(reads=65536),
        "K": Moved(reads=1048576),
        "V": Moved(reads=1048576),
        "O": Moved(writes=65536),
        "LSE": Moved(writes=1024),
    }


def test_standard_moves_what_the_papers_count_when_it_is_ideal() -> None:
    assert total(predict.predict("standard", H11, SQUARE, IDEAL)) == 4 * 1024**2 + 4 * 1024 * 64 == 4456448
    assert 2 * total(predict.predict("standard", Attention(4096, 128), SQUARE, IDEAL)) == 138412032
    tiled = predict.predict("standard", H11, SQUARE)
    assert tiled["K"] == tiled["V"] == Moved(reads=1048576)


def test_a_streamed_softmax_reads_the_scores_twice() -> None:
    assert predict.predict("standard", H11, SQUARE, Options(softmax="streamed"))["S"] == Moved(reads=2 * 1024**2, writes=1024**2)


@pytest.mark.parametrize(("bc", "gigabytes"), [(64, "6.5767"), (128, "3.3554"), (256, "1.7448"), (512, "0.9395")])
def test_figure_2_of_the_flashattention_paper(bc: int, gigabytes: str) -> None:
    moved = predict.predict("flash", H11, Blocks(64, bc), CREATE)
    words = sum(moved[name].reads + moved[name].writes for name in "QKVO")
    assert f"{1024 * 2 * words / 1e9:.4f}" == gigabytes


# masks


def test_the_elements_of_a_mask_are_read_in_partial_tiles_alone() -> None:
    problem = Attention(n=8, d=2, mask=np.tri(8, dtype=bool))
    assert predict.predict("flash2", problem, Blocks(2, 4))["mask"] == Moved(reads=4 * 2 * 4)
    assert predict.predict("flash2", problem, Blocks(1, 1))["mask"] == Moved()
    assert predict.predict("flash2", problem, Blocks(2, 4), Options(skip=False))["mask"] == Moved(reads=64)


def test_a_rule_computed_from_indices_is_worth_as_much_as_its_elements_and_costs_no_mask() -> None:
    by_index, by_element = Attention(n=70, d=3, causal=True), Attention(n=70, d=3, mask=np.tri(70, dtype=bool))
    for kernel in ALGORITHMS:
        elements = predict.predict(kernel, by_element, Blocks(16, 9))
        assert (elements.pop("mask").reads > 0) == (kernel != "standard-backward")
        assert elements == predict.predict(kernel, by_index, Blocks(16, 9))


def test_skip_empty_leaves_out_the_keys_that_nobody_sees() -> None:
    problem = Attention(n=4, d=2, nk=14, window=(0, 0))
    assert predict.predict("block-sparse", problem, Blocks(2, 4))["K"] == Moved(reads=28)
    assert predict.predict("block-sparse", problem, Blocks(2, 4), Options(skip_empty=True))["K"] == Moved(reads=2 * (4 + 2))


def test_block_sparse_moves_its_state_once_a_kept_tile() -> None:
    n, d, rows, cols = 64, 8, 4, 8
    keep = np.random.default_rng(0).random((n // rows, n // cols)) < 0.3
    problem = Attention(n, d, block_mask=BlockMask.from_dense(keep, n, n, rows, cols))
    words = total(predict.predict("block-sparse", problem, Blocks(rows, cols)))
    assert words == 2 * n * d + keep.sum() * rows * (3 * d + 4) + n * (d + 2)


def test_a_million_tokens_in_few_tiles_need_no_grid() -> None:
    tiles = 2**14
    mask = BlockMask.from_csr(np.arange(tiles + 1), np.arange(tiles), 2**20, 2**20, 64, 64)
    problem = Attention(2**20, 64, causal=True, block_mask=mask)
    tracemalloc.start()
    moved = predict.predict("block-sparse", problem, SQUARE)
    needed = predict.residents("block-sparse", problem, SQUARE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert moved["Q"] == Moved(reads=2**20 * 64)
    assert needed == 4 * 64 * 64 + 64 * 64 + 8 * 64
    assert peak < 16 * 2**20


def test_causal_halves_the_visits_of_a_million_tokens() -> None:
    moved = predict.predict("flash2", Attention(2**20, 64, causal=True), SQUARE)
    assert moved["K"] == Moved(reads=64 * 64 * 2**14 * (2**14 + 1) // 2)


# terms


@kernels
@given(options=all_options, causal=st.booleans())
def test_terms_explain_every_word(kernel: str, options: Options, causal: bool) -> None:
    problem = Attention(n=50, d=3, nk=41, dv=5, causal=causal)
    terms = predict.terms(kernel, problem, Blocks(8, 7), options)
    moved = predict.predict(kernel, problem, Blocks(8, 7), options)
    assert sum(term.total for term in terms) == total(moved)
    assert all(term.symbol and term.why and isinstance(term.total, int) for term in terms)
    assert sum(term.total for term in terms if term.init) == sum(array.init_writes for array in moved.values())


def test_terms_read_like_the_paper() -> None:
    symbols = [(term.array, term.direction, term.symbol) for term in predict.terms("flash", H11, SQUARE) if term.array in "QO"]
    assert symbols == [("O", "write", "Nq dv"), ("Q", "read", "Tc Nq d"), ("O", "read", "Tc Nq dv"), ("O", "write", "Tc Nq dv")]
    masked = predict.terms("flash", Attention(n=1024, d=64, causal=True), SQUARE)
    assert ("Q", "(query rows visited) d") in [(term.array, term.symbol) for term in masked]


CLOSED_FORMS: dict[str, Callable[..., int]] = {
    "standard": lambda n, nk, d, dv, tr, tc: 4 * n * nk + n * (d + dv) + tr * nk * (d + dv),
    "flash": lambda n, nk, d, dv, tr, tc: nk * (d + dv) + tc * n * (d + 2 * dv + 4) + n * (dv + 2),
    "flash2": lambda n, nk, d, dv, tr, tc: n * (d + dv + 1) + tr * nk * (d + dv),
    "block-sparse": lambda n, nk, d, dv, tr, tc: nk * (d + dv) + tc * n * (d + 2 * dv + 4) + n * (dv + 2),
    "standard-backward": lambda n, nk, d, dv, tr, tc: 7 * n * nk + (n + tr * nk + nk + tc * n) * (d + dv),
    "flash-backward": lambda n, nk, d, dv, tr, tc: 3 * nk * (d + dv) + tc * n * (3 * d + 2 * dv + 2) + n * d,
    "flash2-backward": lambda n, nk, d, dv, tr, tc: n * (2 * dv + d + 1) + 2 * nk * (d + dv) + tc * n * (3 * d + dv + 2),
}


@pytest.mark.parametrize("kernel", CLOSED_FORMS)  # that of square-tiles, which cut columns too, is in a file of its own
@given(n=sizes, nk=sizes, d=sizes, dv=sizes, br=sizes, bc=sizes)
def test_sums_are_the_closed_forms_of_the_listings(kernel: str, n: int, nk: int, d: int, dv: int, br: int, bc: int) -> None:
    words = predict.dense_words(kernel, n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc)
    assert words == CLOSED_FORMS[kernel](n, nk, d, dv, -(-n // br), -(-nk // bc))


# many sizes at once


@kernels
@given(options=all_options, seed=st.integers(0, 2**32))
def test_arrays_of_sizes_give_the_words_of_each(kernel: str, options: Options, seed: int) -> None:
    n, nk, d, dv, br, bc = np.random.default_rng(seed).integers(1, 50, (6, 3))
    words = np.asarray(predict.dense_words(kernel, n=n[:, None], nk=nk, d=d, dv=dv, Br=br, Bc=bc, options=options))
    for i, j in np.ndindex(3, 3):
        problem = Attention(n[i], d[j], nk=nk[j], dv=dv[j])
        assert words[i, j] == total(predict.predict(kernel, problem, Blocks(br[j], bc[j]), options))


def test_more_points_than_are_summed_at_once() -> None:
    rows = np.arange(1, 100_001)
    words = predict.dense_words("flash2", n=4096, d=64, Br=rows, Bc=1)
    assert np.array_equal(words, 4096 * 129 + -(-4096 // rows) * 4096 * 128)


def test_words_have_the_shape_of_all_sizes_together() -> None:
    assert isinstance(predict.dense_words("flash", n=8, d=2, Br=2, Bc=2), int)
    assert np.shape(predict.dense_words("flash", n=8, d=2, Br=[1, 2, 3], Bc=2)) == (3,)  # Br does not enter
    assert [np.shape(term.total) for term in predict.dense_terms("flash2", n=8, d=2, Br=[1, 2, 3], Bc=2)] == [(), (3,), (3,), (), ()]


@given(n=sizes, nk=sizes, d=sizes, dv=sizes, br=sizes, bc=sizes)
def test_words_of_the_other_passes_backward(n: int, nk: int, d: int, dv: int, br: int, bc: int) -> None:
    tr, tc = -(-n // br), -(-nk // bc)
    made = predict.dense_words("flash-backward", n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc, options=CREATE)
    assert made == 2 * nk * (d + dv) + tc * n * (3 * d + dv + 3) + n * (dv - d)
    own = predict.dense_words("flash2-backward", n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc, options=Options(dq_pass="own"))
    assert own == n * (2 * d + 3 * dv + 3) + 2 * nk * (d + dv) + tc * n * (d + dv + 2) + tr * nk * (d + dv)
    ideal = predict.dense_words("standard-backward", n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc, options=IDEAL)
    assert ideal == 7 * n * nk + 2 * (n + nk) * (d + dv)


@kernels
@given(n=sizes, nk=sizes, d=sizes, br=sizes, bc=sizes)
def test_words_never_rise_as_the_outer_block_grows_nor_sink_below_what_is_compulsory(
    kernel: str, n: int, nk: int, d: int, br: int, bc: int
) -> None:
    larger = (br + 1, bc) if predict.outside(kernel) == "queries" else (br, bc + 1)
    words, fewer = (predict.dense_words(kernel, n=n, nk=nk, d=d, Br=rows, Bc=cols) for rows, cols in ((br, bc), larger))
    least = predict.compulsory(Attention(n, d, nk=nk))
    assert least is not None
    assert least <= fewer <= words


# refusals


def test_an_unknown_kernel_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"no closed form for 'flash3'; known: .*flash2.*standard"):
        predict.predict("flash3", H11, SQUARE)


@pytest.mark.parametrize("options", [Options(), Options(skip=False), IDEAL])
def test_a_block_mask_brings_its_blocks(options: Options) -> None:
    problem = Attention(8, 2, block_mask=BlockMask.from_dense(np.eye(2, dtype=bool), 8, 8, 4, 4))
    with pytest.raises(BadInput, match="blocks 2x4 do not suit a block mask made for blocks 4x4"):
        predict.predict("flash", problem, Blocks(2, 4), options)
    assert predict.predict("standard", problem, Blocks(2, 4), IDEAL)["K"] == Moved(reads=16)  # the grid there is Br x N_k


@pytest.mark.parametrize("size", [0, [4, 0], [1.5], "8", True, [True]])
def test_a_size_that_is_no_whole_number_is_refused(size: object) -> None:
    with pytest.raises(BadInput, match="Br must"):
        predict.dense_words("flash", n=8, d=2, Br=size, Bc=2)  # type: ignore[arg-type]


def total(moved: dict[str, Moved]) -> int:
    return sum(array.reads + array.writes for array in moved.values())
