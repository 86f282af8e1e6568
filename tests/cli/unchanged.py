"""Numbers that must stay as they are: what several hundred command lines print, stored and compared path by path.

``commands.txt`` has the command lines, one a line, and ``numbers.json`` what each of them printed. A key that is new is no change; a
stored one that is missing, or has another value, is. Stored are numbers, booleans, null, and strings without a space, which are names of
kernels, arrays, units, types, and formulas. Of a sentence only that there is one is stored, so that it can be worded anew. Whole numbers
and names must be equal; of floats, all but the last digits. Of a long list the columns are stored: the sum of the whole numbers beside
a hash of all values but floats, ``"4096 #1a2b3c4d"``, and two sums of the floats.

    python unchanged.py                     compare all command lines, and say what differs
    python unchanged.py --write             store all numbers anew
    python unchanged.py --write "run fmha"  store those of the command lines that contain these words

Errors that were measured depend on the library that multiplies matrices: only whether there is one is stored, beside the bound that it
must keep. Left out, because they change on purpose:

* F20: a kernel of one's own that cuts a region with a tile that was not cut from the axis of that region. No command line here runs one;
  exercises are checked with their solutions, which cut every axis with its own tiles.
* F21: ``--pass both`` of a forward kernel that has no backward kernel. Every forward kernel in ``commands.txt`` has one (block-sparse
  shares that of flash).
* F22: digits that are not ASCII, in numbers on the command line or in files.
* F23: an error that is no number and is printed as null, as of a scale so large that values overflow.

Left out, because they depend on the machine: ``iosim gpu``, which needs Numba or tells what is installed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np

from iosim.cli import main as command_line

Value = int | float | str | bool | None
Numbers = dict[str, Value]
Tree = dict[str, Any]  # of trees and values

HERE = Path(__file__).parent
COMMANDS, NUMBERS = HERE / "commands.txt", HERE / "numbers.json"

SHORT = 2  # elements of a list that are stored one by one
CLOSE = 1e-12  # how far floats may be apart, relative
TEXT, MEASURED, ABSENT = "a text", "an error", "no key"  # with a space, so that they are no names
NOTHING: Numbers = {"all that is stored": "nothing"}  # of a command line that is new
ERRORS = re.compile(r"(max_error|max_lse_error|errors)(_.*)?")
UNSTEADY: dict[str, set[str]] = {
    "trace": {"check"},  # a checksum of the line as it is written, which a new key changes
    "exercise": {"seconds", "protections", "progress", "printed", "seed"},  # of the clock, the system, the user's folder, a file's bytes
}

# The files that command lines name

CHIP = """name = "Small chip"
compute_capability = "7.0"
sms = {value = 10, unit = "SMs", source = "made up", confidence = "recalled"}
shared_memory_per_sm = {value = 24, unit = "KiB", source = "made up", confidence = "recalled"}
shared_memory_per_block = {value = 16, unit = "KiB", source = "made up", confidence = "recalled"}
l2 = {value = 1, unit = "MiB", source = "made up", confidence = "recalled"}
memory = {value = 2, unit = "GB", source = "made up", confidence = "recalled"}
bandwidth = {value = 100, unit = "GB/s", source = "made up", confidence = "recalled"}
fp16_tensor_rate = {value = 20, unit = "TFLOP/s", source = "made up", confidence = "recalled"}
fp32_rate = {value = 2.5, unit = "TFLOP/s", source = "made up", confidence = "recalled"}
"""
SOFTMAX = """name = "Accesses of softmax"
source = "made up"
read = "made up"

[[row]]
method = "naive"
loads = 2
stores = 1

[[row]]
method = "online"
loads = 3
stores = 1
"""
WRONG = """import numpy as np


def softmax(x):
    e = np.exp(x)
    l = e.sum(axis=1, keepdims=True)
    return e / l, np.log(l)[:, 0]
"""


def files(folder: Path) -> None:
    """Write what command lines name: masks, a device, published numbers, and submissions for exercises."""
    draw = np.random.default_rng(1).random
    np.save(folder / "mask.npy", draw((48, 40)) < 0.4)
    np.save(folder / "empty.npy", np.zeros((48, 40), bool))
    np.save(folder / "grid.npy", draw((8, 6)) < 0.5)
    np.save(folder / "elements.npy", np.repeat(np.repeat(draw((8, 6)) < 0.5, 12, axis=0), 16, axis=1))
    (folder / "chip.toml").write_text(CHIP, encoding="utf-8")
    (folder / "softmax.toml").write_text(SOFTMAX, encoding="utf-8")
    submissions(folder)


def submissions(folder: Path) -> None:
    """Write the solutions of the exercises that command lines check, the file with which one begins, and one with a mistake."""
    for name in ("submissions", "begun", "wrong"):
        (folder / name).mkdir()
    printed("exercise start flash2 begun")
    (folder / "wrong" / "softmax.py").write_text(WRONG, encoding="utf-8")
    for name in dict.fromkeys(re.findall(r"submissions/([a-z0-9-]+)\.py", COMMANDS.read_text(encoding="utf-8"))):
        (folder / "submissions" / f"{name}.py").write_text(printed(f"exercise solution {name} --reveal")[1], encoding="utf-8")


@contextmanager
def workplace() -> Iterator[None]:
    """A folder with these files, which is left and removed at the end. No progress in exercises is known there, nor kept."""
    before = os.environ.pop("XDG_STATE_HOME", None)
    with tempfile.TemporaryDirectory() as name, chdir(name):
        files(Path(name))
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "chip.toml")  # no folder, so that there is no file in it
        try:
            yield
        finally:
            os.environ.pop("XDG_STATE_HOME")
            os.environ.update({} if before is None else {"XDG_STATE_HOME": before})


# What a command line prints


def lines() -> list[str]:
    """The command lines, in the order of the file."""
    every = COMMANDS.read_text(encoding="utf-8").splitlines()
    return [line for line in every if line and not line.startswith("#")]


def printed(line: str) -> tuple[int, str]:
    """The exit status of a command line and what it prints on standard output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        status = command_line(shlex.split(line))
    out.flush()
    out.seek(0)
    return status, out.read()


def measured(line: str) -> Numbers:
    """The numbers of a command line, its exit status among them."""
    status, text = printed(line)
    command, _, _ = line.partition(" ")
    return {"status": status, **numbers(text, UNSTEADY.get(command, ()))}


def numbers(output: str, without: Iterable[str] = ()) -> Numbers:
    """What is stored of an output, by its path: JSON, JSON lines or CSV; keys of these names are left out.

    >>> numbers('{"kernel": "flash", "arrays": {"Q": {"reads": 64}}, "notes": ["counted, not executed"]}')
    {'kernel': 'flash', 'arrays.Q.reads': 64, 'notes[]': 1, 'notes[0]': 'a text'}
    """
    return flat(document(output), "", frozenset(without))


def document(output: str) -> object:
    """The output read as what it is."""
    for texts in ([output], output.splitlines()):
        with suppress(json.JSONDecodeError):
            found: list[object] = [json.loads(text) for text in texts]
            return found[0] if texts == [output] else found
    return [{name: cell(text) for name, text in row.items()} for row in csv.DictReader(io.StringIO(output))]


def cell(text: str) -> Value:
    """A cell of CSV: the number or boolean that it spells, or the text."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return text
    return found if isinstance(found, int | float) else text


# From a document to paths


def flat(value: object, path: str, without: frozenset[str]) -> Numbers:
    """Every value by its path: ``arrays.Q.reads``, ``rows[2].total``, and of a long list its columns, ``rows[].total``."""
    if isinstance(value, Mapping):
        kept = {name: part for name, part in value.items() if name not in without}
        return joined(flat(steady(name, part), f"{path}.{name}" if path else name, without) for name, part in kept.items())
    if isinstance(value, list):
        elements = [flat(part, "", without) for part in value]
        return {f"{path}[]": len(value), **(one_by_one(elements, path) if len(value) <= SHORT else columns(elements, path))}
    assert value is None or isinstance(value, int | float | str)
    return {path: TEXT if isinstance(value, str) and value != MEASURED and re.search(r"\s", value) else value}


def joined(parts: Iterable[Numbers]) -> Numbers:
    """All of them as one."""
    return {path: value for part in parts for path, value in part.items()}


def steady(name: str, value: object) -> object:
    """The value of a key; of errors that were measured, only that they were."""
    if ERRORS.fullmatch(name) is None:
        return value
    if isinstance(value, Mapping):
        return {array: steady(name, error) for array, error in value.items()}
    return MEASURED if isinstance(value, int | float) else value


def beside(path: str, place: str, rest: str) -> str:
    """The path of something in an element of a list."""
    return f"{path}[{place}]{'' if not rest or rest.startswith('[') else '.'}{rest}"


def one_by_one(elements: Sequence[Numbers], path: str) -> Numbers:
    """The elements of a short list."""
    return joined({beside(path, str(place), rest): value for rest, value in one.items()} for place, one in enumerate(elements))


def columns(elements: Sequence[Numbers], path: str) -> Numbers:
    """The elements of a long list, column by column, so that a column that is new changes no other."""
    names = dict.fromkeys(rest for one in elements for rest in one)
    return joined(column([one.get(rest, ABSENT) for one in elements], beside(path, "", rest)) for rest in names)


def column(values: Sequence[Value], path: str) -> Numbers:
    """A column: its value if all are the same, else the sum of its whole numbers and a hash, and two sums of its floats."""
    if all(same(value, values[0]) for value in values):
        return {path: values[0]}
    exact = ["a float" if isinstance(value, float) else value for value in values]
    whole = sum(value for value in exact if type(value) is int)
    found: Numbers = {path: f"{whole} #{hashlib.sha256(json.dumps(exact).encode()).hexdigest()[:8]}"}
    floats = [(place, value) for place, value in enumerate(values, 1) if isinstance(value, float)]
    if floats:
        found |= {f"{path} sum": math.fsum(one for _, one in floats), f"{path} sum in order": math.fsum(at * one for at, one in floats)}
    return found


# Comparing and storing


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal, of one type, and floats nearly so."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=0.0)
    return type(one) is type(other) and one == other


def differences(before: Numbers, now: Numbers) -> list[str]:
    """What was stored and is not so any more, a line each; what is new is none."""
    return [
        f"{path}: was {value!r}, is {now[path]!r}" if path in now else f"{path}: was {value!r}, is gone"
        for path, value in before.items()
        if path not in now or not same(value, now[path])
    ]


def stored() -> dict[str, Numbers]:
    """The stored numbers of every command line."""
    return {line: leaves(branch) for line, branch in json.loads(NUMBERS.read_text(encoding="utf-8")).items()}


def store(found: Mapping[str, Numbers]) -> None:
    """Store the numbers of the command lines that there are, a line each."""
    rows = [f"{json.dumps(line)}: {json.dumps(tree(found[line]), separators=(',', ':'))}" for line in lines() if line in found]
    NUMBERS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def tree(found: Numbers) -> Tree:
    """Numbers by their paths as a tree, which names what paths share once.

    >>> tree({"arrays.Q.reads": 64, "arrays.Q.writes": 0})
    {'arrays.': {'Q.': {'reads': 64, 'writes': 0}}}
    """
    root: Tree = {}
    for path, value in found.items():
        *above, last = re.split(r"(?<=\.)", path)
        branch = root
        for name in above:
            branch = branch.setdefault(name, {})
        branch[last] = value
    return root


def leaves(branch: Tree, path: str = "") -> Numbers:
    """A tree as numbers by their paths.

    >>> leaves({"arrays.": {"Q.": {"reads": 64, "writes": 0}}})
    {'arrays.Q.reads': 64, 'arrays.Q.writes': 0}
    """
    return joined(leaves(part, path + name) if isinstance(part, dict) else {path + name: part} for name, part in branch.items())


def renewed(words: str) -> str:
    """Store the numbers of the command lines that contain these words anew, and say how many they are."""
    asked = [line for line in lines() if words in line]
    with workplace():
        found = {line: measured(line) for line in asked}
    store(({} if words == "" else stored()) | found)
    return f"stored the numbers of {len(asked)} command lines\n"


def compared() -> list[str]:
    """What differs, each with its command line."""
    before = stored()
    with workplace():
        return [f"{line}\n    {what}" for line in lines() for what in differences(before.get(line, NOTHING), measured(line))]


def main(args: Sequence[str] | None = None) -> int:
    """Compare or store, as the arguments say; 1 where something differs."""
    parser = argparse.ArgumentParser(description="Compare what command lines print with the stored numbers.")
    parser.add_argument("--write", metavar="WORDS", nargs="?", const="", help="store them anew; with WORDS, of lines that contain them")
    words = parser.parse_args(args).write
    if words is not None:
        sys.stdout.write(renewed(words))
        return 0
    found = compared()
    sys.stdout.write("\n".join([*found, f"{len(found)} differences in {len(lines())} command lines\n"]))
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
