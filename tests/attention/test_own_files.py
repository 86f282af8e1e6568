"""Files of users: what is no kernel is refused in one line, and what is one is read as it stands there now."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from iosim import Attention, BadInput, simulate, sweep
from iosim.attention.catalogue import kernel

HEAD = """import functools
import numpy as np
import iosim
from iosim import Array, Option, fills, keeps, reads
from iosim.attention.kernels.masking import dropped, scores
from iosim.memory import exp, finite, log, maximum, nonzero

"""
ONLINE = '''
def online(m, Q, K, V, O, LSE, *, Br, Bc, scale):
    """Queries outside, keys inside, as flash2."""
    for i in m.tiles(Q.shape[0], Br):
        q = m.load(Q[i])
        o, l = m.full(0.0, i.size, V.shape[1], name="o"), m.full(0.0, i.size, 1, name="l")
        top = m.full(-np.inf, i.size, 1, name="top")
        for j in m.tiles(K.shape[0], Bc):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "s")
            new = m.let(maximum(top, s.rowmax()), "new")
            s[...] = exp(s - new)
            a = m.let(exp(top - new), "a")
            l *= a
            l += s.rowsum()
            o *= a
            o += s @ v
            top[...] = new
        m.store(O[i], o / l)
        m.store(LSE[i], top + log(l))
'''


Writes = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Writes:
    """Write a file, and tell where it is."""

    def write(source: str | bytes, name: str = "mine.py") -> str:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(source.encode() if isinstance(source, str) else source)
        return str(file)

    return write


REFUSED: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "no function": ("def other(m): ...\ndef _hidden(m): ...\nimport numpy\n", ("no function 'own'", "it has: other")),
    "empty": ("", ("no function 'own'", "it has: none")),
    "bad syntax": ("x = 1\ndef own(m:\n", ("line 2", "SyntaxError")),
    "bad indentation": ("def own(m):\nreturn\n", ("line 2", "IndentationError")),
    "null bytes": (b"def own(m): ...\0", ("SyntaxError",)),
    "no text": (b"\xff\xfe\xfa", ("SyntaxError",)),
    "an error at import": ("x = 1\n\n1 / 0\ndef own(m): ...\n", ("line 3", "ZeroDivisionError: division by zero")),
    "an error of many lines": ("raise ValueError('a\\nb')\n", ("line 1: ValueError: a b",)),
    "what is no exception at import": ("raise type('Odd', (BaseException,), {})('so')\n", ("line 1", "Odd: so")),
    "exits at import": ("import sys\nsys.exit('enough')\n", ("line 2", "SystemExit: enough")),
    "exits well at import": ("import sys\nsys.exit(0)\n", ("line 2", "SystemExit: 0")),
    "an import that is not there": ("import nowhere_to_be_found\n", ("line 1", "ModuleNotFoundError")),
    "an error in a sibling": ("x = 0\nimport sibling\n", ("line 2", "ZeroDivisionError")),
    "a declaration that contradicts itself": (
        "import iosim\n@iosim.kernel(iosim.reads('Q'))\ndef own(m): ...\n", ("line 2: own computes attention",)
    ),
    "a class": ("class own:\n    def __call__(self, m, Q, K, V, O): ...\n", ("own, which is of type type", "def name(")),
    "an object that can be called": ("class Own:\n    def __call__(self, m, Q, K, V, O): ...\nown = Own()\n", ("of type Own",)),
    "a method": ("class Own:\n    def own(self, m, Q, K, V, O): ...\nown = Own().own\n", ("of type method",)),
    "a partial function": ("import functools\ndef f(m, Q, K, V, O, x): ...\nown = functools.partial(f, x=3)\n", ("of type partial",)),
    "a module": ("import numpy as own\n", ("of type module",)),
    "a number": ("own = 3\n", ("of type int",)),
    "a generator": ("def own(m, Q, K, V, O):\n    yield\n", ("own is a generator", "yield")),
    "a coroutine": ("async def own(m, Q, K, V, O): ...\n", ("own is a coroutine", "async")),
    "an asynchronous generator": ("async def own(m, Q, K, V, O):\n    yield\n", ("own is a coroutine", "yield")),
    "unknown arrays": ("def own(m, Q, K, V, O, Z, W): ...\n", ("knows no array Z, W", "understood: Q, K, V, O", "@iosim.kernel(")),
    "no arrays": ("def own(m): ...\n", ("needs Q, K and V", "understood: none", "@iosim.kernel(")),
    "nothing at all": ("def own(): ...\n", ("needs Q, K and V",)),
    "all in one": ("def own(*everything, **named): ...\n", ("needs Q, K and V",)),
    "an array twice": ("def own(m, Q, K, V, O, l, L): ...\n", ("'l' twice",)),
    "arrays by keyword": ("def own(m, *, Q, K, V, O): ...\n", ("(m, *, Q, K, V, O)",)),
    "sizes by position alone": ("def own(m, Q, K, V, O, Br, /): ...\n", ("Br by position alone",)),
    "a backward pass": ("def own(m, Q, K, V, dO, dQ, dK, dV): ...\n", ("reads dO", "forward=")),
    "an option that is a text": ("def own(m, Q, K, V, O, *, mode='a'): ...\n", ("mode", "Option('mode', 'a', help, choices)")),
    "an option that is a fraction": ("def own(m, Q, K, V, O, *, eps=1e-6): ...\n", ("eps", "1e-06")),
    "an option that is nothing": ("def own(m, Q, K, V, O, *, eps=None): ...\n", ("eps", "None")),
    "an option from zero": ("def own(m, Q, K, V, O, *, extra=0): ...\n", ("extra", ">= 1")),
    "an option that means something else": ("def own(m, Q, K, V, O, *, seed=3): ...\n", ("'seed'", "another name")),
    "an option of ours with another default": ("def own(m, Q, K, V, O, *, first_pass='create'): ...\n", ("'load'", "'create'")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_holds_no_kernel_is_told_in_one_line(name: str, written: Writes) -> None:
    source, told = REFUSED[name]
    written("1 / 0\n", "sibling.py")
    with pytest.raises(BadInput) as caught:
        simulate(f"{written(source)}:own", Attention(4, 2))
    assert all(part in str(caught.value) for part in told), str(caught.value)
    assert "\n" not in str(caught.value)


NOWHERE = ("nowhere.py:own", ":own", "own:", "a.txt:own", ".:own", "..py:own", "x.py::own", "\0.py:own", "mine.ipynb:f", ":")


@pytest.mark.parametrize("asked", NOWHERE)
def test_a_file_that_is_not_there_is_told(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    for one in (asked, "folder.py:own"):
        with pytest.raises(BadInput, match=r"FILE\.py:FUNCTION"):
            kernel(one)


def test_a_name_of_ours_is_refused(written: Writes) -> None:
    declared = '\n@iosim.kernel(reads("Q"), fills("O"), name="flash")\ndef own(m, Q, O): ...\n'
    file = written(HEAD + ONLINE.replace("def online", "def flash2") + declared)
    for name in ("flash2", "own"):
        with pytest.raises(BadInput, match="one of iosim's own kernels"):
            kernel(f"{file}:{name}")


def test_whatever_is_a_function_is_taken_by_the_name_that_it_has_in_the_file(written: Writes) -> None:
    named = """
class Own:
    @staticmethod
    def inside(m, Q, K, V, O, LSE, *, Br, Bc, scale): online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
def wraps(f):
    @functools.wraps(f)
    def wrapped(*given, **named): f(*given, **named)
    return wrapped
static, decorated = Own.inside, wraps(online)
short = lambda m, Q, K, V, O, LSE, Br, Bc, scale: online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
def positional(m, Q, K, V, O, LSE, Br, Bc, scale): online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
def before(m, Q, K, V, O, LSE, /, *, Br, Bc, scale): online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
def defaults(m, Q, K, V, O=None, LSE=None, *, Br=1, Bc=1, scale=0.0): online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
def returns(m, Q, K, V, O, LSE, *, Br, Bc, scale): return online(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale) or 5
größe = online
@iosim.kernel(reads("Q", "K", "V"), fills("O", "LSE"), name="first")
@iosim.kernel(reads("Q", "K", "V"), fills("O", "LSE"), name="second")
def both(m, *arrays, mask, **sizes): online(m, *arrays, **sizes)
"""
    file, problem = written(HEAD + ONLINE + named), Attention(9, 4, nk=14)
    total = simulate("flash2", problem, sram=400).total
    for name in ("static", "decorated", "short", "positional", "before", "defaults", "returns", "größe", "both", "first", "second"):
        made = simulate(f"{file}:{name}", problem, sram=400)
        assert (made.kernel, made.total, made.sound) == ("first" if name == "both" else name, total, True)
        assert pickle.loads(pickle.dumps(kernel(f"{file}:{name}"))) is kernel(f"{file}:{name}")


def test_an_error_below_a_decorator_has_the_line_of_the_listing(written: Writes) -> None:
    source = HEAD + "from outside import wraps\n\n@wraps\ndef own(m, Q, K, V, O):\n    m.lode(Q[:])\n"
    written("import functools\n\ndef wraps(f):\n    return functools.wraps(f)(lambda *given, **named: f(*given, **named))\n", "outside.py")
    with pytest.raises(BadInput, match=f"^mine.py, line {source.count(chr(10))}: AttributeError"):
        simulate(f"{written(source)}:own", Attention(4, 2))


def test_a_guard_keeps_out_what_a_program_does(written: Writes, capsys: pytest.CaptureFixture[str]) -> None:
    source = HEAD + "print('hello')\n" + ONLINE + "if __name__ == '__main__':\n    1 / 0\n"
    simulate(f"{written(source)}:online", Attention(4, 2))
    assert capsys.readouterr() == ("", "hello\n")


def test_importing_leaves_nothing_behind(written: Writes, tmp_path: Path) -> None:
    written("from sibling_of_mine import deeper\n", "sibling_of_mine/__init__.py") and written("size = 1\n", "sibling_of_mine/deeper.py")
    before, path = {*sys.modules}, [*sys.path]
    simulate(f"{written(HEAD + 'import sibling_of_mine' + ONLINE)}:online", Attention(4, 2))
    assert sys.path == path
    assert not [name for name in {*sys.modules} - before if name.startswith("sibling")]
    assert [*tmp_path.rglob("mine*.pyc")] == []


def listing_of(times: str) -> str:
    """A listing that computes nothing, and loads Q so many ``times``."""
    loads = f"def own(m, Q, K, V, O):\n    for _ in range({times}):\n        m.load(Q[:])\n"
    return loads + "    m.store(O[:], m.full(0.0, *O.shape, name='o'))\n"


def reads_of_q(file: str) -> int:
    return simulate(f"{file}:own", Attention(4, 2), execute=False).arrays["Q"].reads // 8


def test_a_file_that_changes_is_read_again(written: Writes) -> None:
    for times in (1, 2, 1):
        file = written(HEAD + listing_of(str(times)))
        os.utime(file, (1, 1))  # as old as before, and as long
        assert reads_of_q(file) == times


def test_a_module_beside_it_that_changes_is_read_again(written: Writes) -> None:
    file = written("from beside_mine import times\n" + listing_of("times"))
    for times in (1, 2, 1):
        os.utime(written(f"times = {times}\n", "beside_mine.py"), (1, 1))
        assert reads_of_q(file) == times


def test_two_files_of_one_name_have_modules_of_their_own(written: Writes) -> None:
    files = [written("from beside_mine import times\n" + listing_of("times"), f"{folder}/mine.py") for folder in "ab"]
    for times, folder in ((1, "a"), (2, "b")):
        written(f"times = {times}\n", f"{folder}/beside_mine.py")
    assert [reads_of_q(file) for file in (*files, *files)] == [1, 2, 1, 2]


def test_a_function_from_the_module_beside_it_is_taken(written: Writes) -> None:
    written(HEAD + ONLINE, "beside_mine.py")
    file = written("from beside_mine import online\nown = online\n")
    assert simulate(f"{file}:online", Attention(4, 2)).kernel == "online"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        (record,) = sweep(Attention(4, 2), [f"{file}:own"], executor=pool)
    assert record["total"] == simulate("flash2", Attention(4, 2)).total


def test_only_its_own_future_statements_count(written: Writes) -> None:
    assert simulate(
        f"{written('x: int = 1' + chr(10) + 'assert __annotations__ == dict(x=int)' + chr(10) + HEAD + ONLINE)}:online", Attention(4, 2)
    ).sound


def test_endings_and_marks_of_other_systems_are_read(written: Writes) -> None:
    source = "# größer\n" + HEAD + ONLINE
    for text in (source.replace("\n", "\r\n").encode(), source.encode("utf-8-sig"), ("# coding: latin-1\n" + source).encode("latin-1")):
        assert simulate(f"{written(text)}:online", Attention(4, 2)).sound
