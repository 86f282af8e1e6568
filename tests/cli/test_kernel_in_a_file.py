"""A kernel in a file gets what ours get: split keys with partial results, an option, and a pass that combines them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iosim import Attention, simulate
from iosim.attention.catalogue import kernel
from iosim.study.regimes.rivals import known

SOURCE = """
import numpy as np

import iosim
from iosim import Array, Option, fills, keeps, reads
from iosim.memory import Hbm, Machine, exp, log, maximum

PARTIAL = keeps(
    Array("O_part", "n * ceil(nk / part)", "dv", "accumulator"), Array("LSE_part", "n * ceil(nk / part)", "1", "accumulator", infinite=True)
)


@iosim.kernel(reads("Q", "K", "V"), fills("O", "LSE"), PARTIAL, options=(Option("part", 64, "keys of one part"),), letter="k")
def split_keys(m, Q, K, V, O, LSE, O_part, LSE_part, *, Bc, scale, part):
    N_q, N_k = Q.shape[0], K.shape[0]
    for p in m.tiles(N_k, part):
        q, o = m.load(Q[:]), m.full(0.0, *O.shape, name="O")
        l, m_i = m.full(0.0, N_q, 1, name="l"), m.full(-np.inf, N_q, 1, name="m")
        for j in p.tiles(Bc):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "S")
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            s[...] = exp(s - m_new)
            a = m.let(exp(m_i - m_new), "a")
            l *= a
            l += s.rowsum()
            o *= a
            o += s @ v
            m_i[...] = m_new
        m.store(O_part[p.slot(N_q)], o / l)
        m.store(LSE_part[p.slot(N_q)], m_i + log(l))
    o, lse = m.full(0.0, *O.shape, name="O"), m.full(-np.inf, N_q, 1, name="LSE")
    for p in m.tiles(N_k, part):
        lse_p = m.load(LSE_part[p.slot(N_q)])
        top = m.let(maximum(lse, lse_p), "m_new")
        a, b = m.let(exp(lse - top), "a"), m.let(exp(lse_p - top), "b")
        both = m.let(a + b, "both")
        o *= a
        o += b * m.load(O_part[p.slot(N_q)])
        o /= both
        lse[...] = top + log(both)
    m.store(O[:], o)
    m.store(LSE[:], lse)
"""


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(SOURCE, encoding="utf-8")
    return file


@pytest.fixture
def own(path: Path) -> str:
    return f"{path}:split_keys"


def words(n: int, nk: int, d: int, dv: int, part: int) -> int:
    parts = -(-nk // part)
    return parts * n * d + nk * (d + dv) + n * (dv + 1) + 2 * parts * n * (dv + 1)


def test_run_counts_it_on_every_road(own: str, document: Callable[[str], Any]) -> None:
    found = document(f"run {own} --n 3 --nk 1000 --d 16 --sram 4096 --part 100")
    assert found["kernel"] == "split-keys"
    assert found["agreed"] == {"executed": True, "derived": True, "replayed": True}
    assert found["total"] == found["predicted_reads"] + found["predicted_writes"] == words(3, 1000, 16, 16, 100)
    assert found["max_error"] <= found["error_bound"]
    assert found["lower_bound"] <= found["total"]
    assert {*document("run flash2 --n 3 --nk 1000 --d 16 --sram 4096")} == {*found}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_all_roads_agree_over_random_shapes(own: str, data: st.DataObject) -> None:
    n, nk, d, dv, part = (data.draw(st.integers(1, most)) for most in (5, 60, 9, 9, 70))
    blocks = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 20))
    made = simulate(own, Attention(n, d, nk=nk, dv=dv), sram=10**6, blocks=blocks, part=part)
    assert made.agreed == {"executed": True, "derived": True, "replayed": True}
    assert made.total == words(n, nk, d, dv, part)
    assert made.sound


def test_curve_and_compare_show_it_beside_others(own: str, document: Callable[[str], Any], answer: Callable[[str], str]) -> None:
    swept = document(f"curve --kernels flash2,{own} --nk 4096 --n 8,16 --part 512")
    assert [record["kernel"] for record in swept] == ["flash2", "split-keys"] * 2
    assert [record["total"] for record in swept[1::2]] == [words(n, 4096, 64, 64, 512) for n in (8, 16)]
    compared = document(f"compare --kernels flash2,{own} --n 8 --nk 512 --part 128")
    assert [record["kernel"] for record in compared] == ["flash2", "split-keys"]
    assert "k split-keys" in answer(f"curve --kernels flash2,{own} --nk 4096 --n 8,16")


def test_explain_takes_it_apart(own: str, document: Callable[[str], Any]) -> None:
    found = document(f"explain {own} --n 3 --nk 1000 --d 16 --sram 4096 --part 100")
    assert found["predicted_total"] == found["total"] == words(3, 1000, 16, 16, 100)
    assert {term["array"] for term in found["terms"]} == {"Q", "K", "V", "O", "LSE", "O_part", "LSE_part"}


def test_trace_and_cache_follow_it(own: str, answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    events = [json.loads(line) for line in answer(f"trace {own} --n 2 --nk 12 --d 4 --sram 4096 --part 5").splitlines()]
    moved = sum(event["words"] for event in events if event["kind"] in ("load", "store"))
    assert moved == words(2, 12, 4, 4, 5)
    assert document(f"cache {own} --n 2 --nk 60 --d 4 --sram 4096 --part 20")["kernel"] == "split-keys"


def test_its_page_moves(own: str, tmp_path: Path, called: Callable[[str], tuple[int, str, str]]) -> None:
    status, _, _ = called(f"trace {own} --n 2 --nk 12 --d 4 --part 5 --html {tmp_path / 'page.html'} --beside flash2")
    assert status == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "for p in m.tiles(N_k, part):" in text
    assert "@iosim.kernel" not in text


def test_help_lists_its_option(own: str, answer: Callable[[str], str]) -> None:
    text = answer(f"run {own} --help")
    assert text.index("Variants of the listings") < text.index("--part COUNT") < text.index("Output")


def test_bounds_know_it_only_where_it_asks_to(own: str) -> None:
    assert not kernel(own).rival
    assert own not in known(False)
