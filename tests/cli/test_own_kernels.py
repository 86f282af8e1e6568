"""FILE.py:FUNCTION on the command line: every command that takes a kernel takes one of these, its options too, and refuses in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iosim import Attention, both, compare, simulate, sweep, trace
from iosim.attention.catalogue import kernel

SOURCE = """
import numpy as np
import iosim
from iosim import Array, Option, fills, keeps, reads
from iosim.memory import exp, log, maximum


def decode(m, Q, K, V, O, LSE, *, Br, Bc, scale):
    for i in m.tiles(Q.shape[0], Br):
        q, o, l = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="o"), m.full(0.0, i.size, 1, name="l")
        top = m.full(-np.inf, i.size, 1, name="top")
        for j in m.tiles(K.shape[0], Bc):
            s = m.let(scale * (q @ m.load(K[j]).T), "s")
            new = m.let(maximum(top, s.rowmax()), "new")
            s[...] = exp(s - new)
            a = m.let(exp(top - new), "a")
            l[...] = a * l + s.rowsum()
            o[...] = a * o + s @ m.load(V[j])
            top[...] = new
        m.store(O[i], o / l)
        m.store(LSE[i], top + log(l))


@iosim.kernel(
    reads("Q", "K", "V"), fills("O", "LSE"), keeps(Array("copy", "copies", "d")), backward="flash2-backward", letter="2",
    options=(
        Option("way", "up", "the way through the keys", ("up", "down")), Option("copies", 2, "rows that wait in HBM"),
        Option("lazy", False, "leave the copies out"), Option("eager", True, "keep the copies"),
    ),
)
def declared(m, Q, K, V, O, LSE, copy, *, Br, Bc, scale, way, copies, lazy, eager):
    for _ in range((way == "down") + 2 * lazy + 4 * (not eager)):
        m.store(copy[:], m.full(0.0, *copy.shape, name="copy"))
    decode(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)


@iosim.kernel(reads("Q", "K", "V", "O", "LSE", "dO"), fills("dQ", "dK", "dV", "D"), forward="flash2")
def backward(m, *arrays, Br, Bc, scale, mask):
    from iosim.attention.kernels.backward.flash2_backward import flash2_backward
    flash2_backward(m, *arrays, arrays[6], Br=Br, Bc=Bc, scale=scale, mask=mask)


def wrong(m, Q, K, V, O, *, Br):
    for i in m.tiles(Q.shape[0], Br):
        m.store(O[i], m.full(float("nan"), i.size, V.shape[1], name="o"))


def typo(m, Q, K, V, O, *, Br):
    m.lode(Q)
"""


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(SOURCE, encoding="utf-8")
    return str(file)


Document = Callable[[str], Any]
Called = Callable[[str], tuple[int, str, str]]
LINES = (
    "run {}", "curve --kernels {} --n 8..16", "curve --kernels flash2,{} --sram 2000,4000 --n 16", "compare --kernels {},flash2",
    "explain {}", "explain {} --symbolic", "cache {}", "trace {}", "run {} --csv", "run {} --batch 3 --heads 4 --kv-heads 2",
    "run {} --dtype bfloat16 --sram 2KiB", "run {} --blocks paper", "run {} --device h100", "compare --kernels {} --device a100-40gb",
)  # fmt: skip
SMALL = "--n 8 --nk 12 --d 4"


def sized(line: str) -> str:
    """The line, with a small problem where it leaves one open."""
    return line if "--symbolic" in line else f"{line} --nk 12 --d 4" if "--n" in line else f"{line} {SMALL}"


def test_a_step_of_decoding_is_counted_as_in_python(own: str, document: Document) -> None:
    """The command line of the README, and the same question in Python."""
    line, asked = "--n 1 --nk 32768 --d 128", Attention(n=1, nk=32768, d=128)
    found = document(f"run {own}:decode {line}")
    assert found == simulate(kernel(f"{own}:decode").listing, asked).record() | {"notes": found["notes"]}
    assert found["kernel"] == "decode"
    assert {*found} == {*document(f"run flash2 {line}")}
    assert found["total"] == 128 + 32768 * 2 * 128 + 128 + 1 == found["predicted_reads"] + found["predicted_writes"]
    assert found["agreed"] == {"derived": True, "replayed": True}


@pytest.mark.parametrize("name", ["decode", "declared"])
@pytest.mark.parametrize("line", LINES)
def test_every_command_takes_it(line: str, name: str, own: str, called: Called) -> None:
    status, out, err = called(sized(line.format(f"{own}:{name}")) + ("" if "--csv" in line else " --json"))
    assert (status, err) == (0, "")
    assert out if "--csv" in line else json.loads(out)


def test_the_numbers_are_those_of_the_library(own: str, document: Document, answer: Callable[[str], str]) -> None:
    one, problem = f"{own}:decode", Attention(n=8, nk=12, d=4)
    assert document(f"run {one} {SMALL} --sram 300") == simulate(one, problem, sram=300).record()
    assert answer(f"run {one} {SMALL} --sram 300") == f"{simulate(one, problem, sram=300)!r}\n"
    compared = compare(problem, [one, "flash2"], sram=300)
    assert document(f"compare --kernels {one},flash2 {SMALL} --sram 300") == [report.record() for report in compared]
    assert answer(f"compare --kernels {one},flash2 {SMALL} --sram 300") == f"{compared!r}\n"
    swept = document(f"curve --kernels {one} --sram 300,400 {SMALL}")
    assert [record["total"] for record in swept] == [record["total"] for record in sweep(problem, [one], sram=[300, 400])]
    explained = document(f"explain {one} {SMALL} --sram 300")
    assert explained["predicted_total"] == explained["total"] == sum(term["total"] for term in explained["terms"])
    events = document(f"trace {one} {SMALL} --sram 300")
    assert [event["sram"] for event in events] == [event.sram for event in trace(one, problem, sram=300)]


def test_both_passes_are_run(own: str, document: Document) -> None:
    found = document(f"run {own}:declared --pass both {SMALL}")
    assert found == both(f"{own}:declared", Attention(n=8, nk=12, d=4)).record()
    assert [one["kernel"] for one in found["passes"]] == ["declared", "flash2-backward"]
    assert document(f"run {own}:backward {SMALL}")["agreed"] == {"executed": True, "derived": True, "replayed": True}
    assert document(f"run {own}:declared --pass forward {SMALL}")["pass"] == "forward"


@pytest.mark.parametrize("name", ["decode", "backward"])
@pytest.mark.parametrize("asked", ["both", "backward", "forward"])
def test_a_pass_that_it_has_not_is_refused(own: str, name: str, asked: str, called: Called) -> None:
    status, _, err = called(f"run {own}:{name} --pass {asked} {SMALL}")
    assert status == (0 if (name, asked) in {("decode", "forward"), ("backward", "backward")} else 2)
    assert status == 0 or f"--pass {'forward' if name == 'decode' else asked}" in err


# Its options


def writes(own: str, document: Document, options: str = "") -> int:
    found = document(f"run {own}:declared {SMALL} {options}")
    return int(found["arrays"]["copy"]["writes"])


def test_its_options_are_flags_with_their_defaults(own: str, document: Document) -> None:
    times = {"": 0, "--way down": 1, "--way up": 0, "--lazy": 2, "--no-eager": 4, "--lazy --no-eager --way down": 7}
    for options, expected in times.items():
        assert writes(own, document, options) == expected * 2 * 4
        assert writes(own, document, f"{options} --copies 5") == expected * 5 * 4


@pytest.mark.parametrize("options", ["--way left", "--copies 0", "--copies two", "--lazy=1", "--eager", "--no-lazy", "--first-pass load"])
def test_what_an_option_does_not_take_is_refused(own: str, options: str, refused: Callable[[str], str]) -> None:
    assert options.split("=", maxsplit=1)[0].split(maxsplit=1)[0] in refused(f"run {own}:declared {SMALL} {options}")


def test_another_kernel_has_none_of_them(own: str, refused: Callable[[str], str]) -> None:
    for line in (f"run {own}:decode --copies 3", "run flash2 --copies 3", f"curve --kernels {own}:decode,flash2 --copies 3"):
        assert "no such option '--copies'" in refused(line)


@pytest.mark.parametrize("command", ["run", "curve", "compare", "explain", "trace", "cache"])
def test_help_has_a_line_for_each_below_those_of_ours(own: str, command: str, answer: Callable[[str], str]) -> None:
    kernels = f"--kernels flash2,{own}:declared" if command in ("curve", "compare") else f"{own}:declared"
    text = " ".join(answer(f"{command} {kernels} --help").split())
    section = text.partition("Variants of the listings:")[2].partition("Output:")[0]
    lines = (
        "--way [up|down] The way",
        "--copies COUNT Rows that wait",
        "--lazy Leave the copies out",
        "--no-eager Keep the copies",
    )
    assert all(f"{line}" in section for line in lines)
    assert section.count("(declared)") == len(lines)
    assert "--copies" not in answer(f"{command} --help")


CLASHES = {
    "json=False": "--json", "help=False": "--help", "plot=3": "--plot", "out=3": "--out", "order=3": "--order", "batch=2": "--batch",
    "execute=True": "'execute'", "dropout=2": "'dropout'",
}  # fmt: skip


@pytest.mark.parametrize("option", CLASHES)
def test_an_option_that_is_called_like_one_of_the_command_is_refused(option: str, tmp_path: Path, refused: Callable[[str], str]) -> None:
    (tmp_path / "mine.py").write_text(f"def own(m, Q, K, V, O, *, {option}): ...\n", encoding="utf-8")
    found = refused(f"cache {tmp_path / 'mine.py'}:own")
    assert CLASHES[option] in found
    assert "another name" in found


def test_two_kernels_share_an_option_only_where_it_takes_the_same(tmp_path: Path, called: Called) -> None:
    body = "\n    m.store(O[:], m.full(0.0, *O.shape, name='o'))\n"
    listings = [f"def {name}(m, Q, K, V, O, *, {option}):{body}" for name, option in (("a", "x=2"), ("b", "x=7"), ("c", "x=True"))]
    (tmp_path / "mine.py").write_text("".join(listings), encoding="utf-8")
    for names, status in (("ab", 0), ("ac", 2), ("bc", 2)):
        kernels = ",".join(f"{tmp_path / 'mine.py'}:{name}" for name in names)
        found, _, err = called(f"curve --kernels {kernels} --over n --n 4 --d 2 --sram 100")
        assert (found, "another name" in err) == (status, status == 2)


def test_two_kernels_of_one_name_are_refused(own: str, tmp_path: Path, refused: Callable[[str], str]) -> None:
    (tmp_path / "other.py").write_text(SOURCE, encoding="utf-8")
    for command in ("curve", "compare"):
        assert "called decode" in refused(f"{command} --kernels {own}:decode,{tmp_path / 'other.py'}:decode")


# What is said


def test_curves_say_which_numbers_have_closed_forms(own: str, tmp_path: Path, answer: Callable[[str], str]) -> None:
    asks = "def asks(m, Q, K, V, O, LSE, **sizes):\n    range(Q.shape[0])\n    del sizes['mask']\n    decode(m, Q, K, V, O, LSE, **sizes)\n"
    (tmp_path / "mine.py").write_text(SOURCE + asks, encoding="utf-8")
    text = " ".join(answer(f"curve --kernels {tmp_path / 'mine.py'}:asks,flash2 --n 8..16 --d 4").split())
    assert "All 4 numbers were counted by running the listings on the machine, and the 2 that have a closed form equal it." in text
    assert "could be derived: mine.py, line" in text
    text = answer(f"curve --kernels {own}:declared,flash2 --n 8..16 --d 4")
    assert "2 declared" in text
    assert "0 flash2" in text  # the letter that it shares is that of the first


def test_a_formula_is_checked(own: str, called: Called, document: Document) -> None:
    right = "N_q*(d+d_v+1)+ceil(N_q/Br)*N_k*(d+d_v)"
    assert document(f"explain {own}:decode --check {right}")["holds"]
    assert document(f"explain {own}:decode --check N*d --of Q")["holds"]
    status, out, err = called(f"explain {own}:decode --check N*d")
    assert (status, "does not hold" in out, "decode does not move" in err) == (1, True, True)
    status, _, err = called(f"explain {own}:decode --check M*N")
    assert status == 1


@pytest.mark.parametrize("line", [line for line in LINES if "flash2" not in line])
def test_an_error_in_the_listing_is_told_by_every_command(line: str, own: str, refused: Callable[[str], str]) -> None:
    number = SOURCE.splitlines().index("    m.lode(Q)") + 1
    assert f"mine.py, line {number}: AttributeError" in refused(sized(line.format(f"{own}:typo")))


def test_values_that_are_wrong_fail_the_check(own: str, called: Called) -> None:
    status, out, err = called(f"run {own}:wrong {SMALL} --json")
    assert (status, json.loads(out)["max_error"]) == (1, "NaN")
    assert err.startswith("iosim: wrong: O is nan")
    assert err.count("\n") == 1


def test_what_a_file_prints_spoils_no_answer(tmp_path: Path, called: Called) -> None:
    (tmp_path / "mine.py").write_text(f"print('hello')\n{SOURCE}", encoding="utf-8")
    status, out, err = called(f"run {tmp_path / 'mine.py'}:decode {SMALL} --json")
    assert (status, json.loads(out)["kernel"], err) == (0, "decode", "hello\n")


def test_a_reader_of_a_trace_may_leave(own: str) -> None:
    command = [sys.executable, "-m", "iosim", "trace", f"{own}:decode", "--n", "512", "--d", "8", "--blocks", "4x4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_page_moves(own: str, tmp_path: Path, called: Called) -> None:
    page = tmp_path / "page.html"
    for beside in ("flash2", "causal"):
        status, _, err = called(f"trace {own}:decode {SMALL} --html {page} --beside {beside}")
        assert status == (0 if beside == "flash2" else 2)
        assert beside == "flash2" or "no parameter mask" in err
    assert "def decode" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("rules", ["--causal", "--window 3,0", "--dropout 0.5", "--block-mask dense --blocks 4x4"])
def test_a_rule_that_it_cannot_be_told_is_refused(own: str, rules: str, refused: Callable[[str], str]) -> None:
    assert "decode has no parameter mask" in refused(f"run {own}:decode {SMALL} {rules}")


@pytest.mark.parametrize("command", ["run {}", "curve --kernels {}", "compare --kernels flash2,{}", "explain {}", "trace {}", "cache {}"])
@pytest.mark.parametrize("asked", ["nowhere.py:own", "mine.py:", "{own}:nothing", "mine.py", "{own}", "x:y"])
def test_what_is_not_there_is_told_in_one_line(command: str, asked: str, own: str, refused: Callable[[str], str]) -> None:
    assert "bug" not in refused(command.format(asked.format(own=own)))


def test_a_path_may_hold_what_options_and_lists_are_made_of(tmp_path: Path, document: Document, called: Called) -> None:
    for name in ("a=b.py", "a,b.py", "a:b.py", "größe.py"):
        (tmp_path / name).write_text(SOURCE, encoding="utf-8")
        assert document(f"run {tmp_path / name}:declared {SMALL} --copies 3")["kernel"] == "declared"
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    assert called(f"run flash2 {SMALL} --plot {tmp_path}/mine.py:3.png")[0] == 0
    assert (tmp_path / "mine.py:3.png").exists()


def test_a_file_that_is_not_there_is_told_before_options_that_it_may_have(refused: Callable[[str], str]) -> None:
    assert "there is no file 'nowhere.py'" in refused("run nowhere.py:own --copies 3")
    assert "there is no file 'nowhere.py'" in refused("curve --kernels=flash2,nowhere.py:own --copies 3")


def test_help_needs_no_file(answer: Callable[[str], str]) -> None:
    assert "Variants of the listings" in answer("run nowhere.py:own --help")
