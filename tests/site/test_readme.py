"""README's examples are run, and print what it says they print."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDING = r"error \S+|\S+e-\d\d"
CONSOLE = re.compile(r"```console\n\$ (?P<command>iosim [^\n]*)\n(?P<output>.*?)```", re.DOTALL)


def readme(source_tree: Path) -> str:
    return (source_tree / "README.md").read_text()


def test_python_examples(source_tree: Path) -> None:
    parser = doctest.DocTestParser()
    blocks = re.findall(r"```python\n(.*?)```", readme(source_tree), re.DOTALL)
    test = parser.get_doctest("\n".join(blocks), {}, "README", "README.md", 0)
    assert len(test.examples) > 10
    assert doctest.DocTestRunner().run(test).failed == 0


def test_commands_print_what_readme_shows(source_tree: Path) -> None:
    shown = list(CONSOLE.finditer(readme(source_tree)))
    assert len(shown) > 2
    for block in shown:
        command = [sys.executable, "-m", *shlex.split(block["command"])]
        plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=plain, cwd=source_tree)
        found, wanted = (re.sub(ROUNDING, "error", text) for text in (result.stdout, block["output"]))
        assert found == wanted


def test_the_kernel_of_ones_own_is_the_one_in_the_file(source_tree: Path) -> None:
    shown = [line[4:].partition("  #")[0] for line in readme(source_tree).splitlines() if line.startswith("...") or ">>> def " in line]
    kept = (source_tree / "docs" / "examples" / "mine.py").read_text(encoding="utf-8").splitlines()
    start = kept.index(shown[0])
    assert shown == kept[start : start + len(shown)]
    assert len(shown) > 5


def test_links_lead_somewhere(source_tree: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", readme(source_tree))
    assert targets
    assert [target for target in targets if not target.startswith("http") and not (source_tree / target).exists()] == []


def test_what_the_first_table_speaks_of_is_said_before_it(source_tree: Path) -> None:
    said = readme(source_tree).split("```console\n")[0]
    for name in (
        "N *queries*",
        "*values*",
        "*key*",
        "d numbers",
        "HBM, high-bandwidth memory",
        "SRAM (static random-access memory)",
        "M *words*",
        "a word is one",
    ):
        assert name in said
    assert "](notebooks/01_memory.ipynb)" in said
    assert "](docs/why.md)" in said
    assert all(re.search(rf"\b{name}\b", said) for name in "QKV")


@pytest.mark.parametrize("words", ["12,000", "12,341"])
def test_the_arithmetic_of_the_walkthrough(words: str, source_tree: Path) -> None:
    assert words in readme(source_tree)
    block = {"12,000": 40, "12,341": 41}[words]
    assert 2 * (block + block) * 64 + block * block + 4 * block == int(words.replace(",", ""))
