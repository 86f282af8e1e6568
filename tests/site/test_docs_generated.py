"""What the site makes when it is built: every generated line of a kernel's page beside the catalogue, the closed forms and a count."""

from __future__ import annotations

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

import iosim
from iosim import KERNELS, Attention, Report, predict
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.core.errors import BadInput
from iosim.core.options import Value
from iosim.show.animation.moving import SIDE, SMALL
from iosim.show.plots import Figure, write
from iosim_gpu.catalogue import KERNELS as CUDA

PROBLEM = Attention(n=1024, d=64)
SRAM, ROOMY = "100KiB", "2MiB"  # fmha keeps K and V whole
pytestmark = pytest.mark.usefixtures("docs")
NAMES = tuple(KERNELS)


def cells(text: str) -> list[list[str]]:
    """The rows of the tables in a piece of Markdown, without the line below a head."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|:-]+", line)]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def number(text: str) -> int:
    """A count with its thousands apart, and whatever stars are around it."""
    found = text.strip("*")
    assert f"{int(found.replace(',', '')):,}" == found
    return int(found.replace(",", ""))


@cache
def counted(name: str, *options: tuple[str, Value]) -> Report:
    """The kernel on the problem of all pages, in the blocks that fit; where none fit in the small SRAM, in the large one."""
    try:
        plan = make_plan(name, PROBLEM, SRAM, "fit", None, dict(options))
    except BadInput:
        plan = make_plan(name, PROBLEM, ROOMY, "fit", None, dict(options))
    return report(plan, execute=False, replay=False)


@cache
def made(what: str, name: str) -> str:
    """A generated part of a kernel's page: ``facts``, ``words`` or ``variants``."""
    from iosim_docs import kernels

    return str(getattr(kernels, what)(name))


# What a kernel is.


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_are_those_of_the_catalogue(name: str) -> None:

    kernel, rows = KERNELS[name], dict(cells(made("facts", name)))
    assert rows["reads"].split(", ") == [f"`{array}`" for array in kernel.inputs]
    assert rows["fills"].split(", ") == [f"`{array}`" for array in kernel.outputs]
    assert rows["outer loop"] == kernel.outside == predict.outside(name)
    assert rows["words grow as"] == predict.theta(name)
    assert rows["in CUDA"].startswith("no") == (name not in CUDA)
    assert ("gpu.md" in rows["in CUDA"]) == (name in CUDA)
    assert [title for title in rows if "option" in title] == ([f"option `{option}`" for option in kernel.has] or ["options"])


def test_kernels_differ_in_what_their_pages_say() -> None:

    found = [dict(cells(made("facts", name))) for name in NAMES]
    assert {rows["outer loop"] for rows in found} == {"keys", "queries"}
    assert len({rows["words grow as"] for rows in found}) == 4
    assert {rows["in CUDA"].split()[0] for rows in found} == {"no", "[counted"}
    assert len({rows["reads"] for rows in found}) > 3


@pytest.mark.parametrize("name", NAMES)
def test_the_other_pass_leads_to_its_page(name: str, docs: Path) -> None:

    kernel = KERNELS[name]
    rows = {title: said for title, said in cells(made("facts", name)) if title.startswith("backward")}
    other, title = (kernel.forward, "backward pass of") if kernel.forward else (kernel.backward, "backward pass")
    assert rows == ({} if other is None else {title: f"[{other}]({other}.md)"})
    assert [target for said in rows.values() for target in re.findall(r"\((.*)\)", said) if not (docs / "kernels" / target).is_file()] == []


# Its closed form.


@pytest.mark.parametrize("name", NAMES)
def test_every_term_is_on_the_page_and_they_sum_to_the_count(name: str) -> None:

    head, *rows, total = cells(made("words", name))
    run = counted(name)
    wanted = predict.terms(name, run.problem, run.blocks, run.plan.options)
    assert head == ["array", "move", "term", "words", "why"]
    assert [(row[0], row[1], number(row[3]), row[4]) for row in rows] == [(t.array, t.direction, t.total, t.why) for t in wanted]
    assert sum(number(row[3]) for row in rows) == number(total[3]) == run.total
    assert (total[0], total[4]) == ("**sum**", "counted: equal")
    for move, moved in (("read", run.reads), ("write", run.writes)):
        assert sum(number(row[3]) for row in rows if row[1] == move) == moved


@pytest.mark.parametrize("name", NAMES)
def test_the_terms_of_an_array_sum_to_what_it_moves(name: str) -> None:

    run = counted(name)
    found = dict.fromkeys(run.arrays, (0, 0))
    for array, move, _, count, _ in cells(made("words", name))[1:-1]:
        read, written = found[array]
        found[array] = (read + number(count) * (move == "read"), written + number(count) * (move == "write"))
    assert found == {array: (moved.reads, moved.writes) for array, moved in run.arrays.items()}
    predicted = predict.predict(name, run.problem, run.blocks, run.plan.options)
    assert found == {array: (moved.reads, moved.writes) for array, moved in predicted.items()}


def value(latex: str, run: Report) -> int:
    """What a term of the page comes to, in the symbols of the page; only terms without words in them."""
    text = latex.strip("$").replace(r"\lceil ", "-(-").replace(r" \rceil", ")").replace(r"\,", "*").replace(") (", ")*(")
    text = re.sub(r"(?<=[\d)]) (?=[A-Za-z(])", "*", text).replace("/", "//")
    sizes = {"N_q": 1024, "N_k": 1024, "d": 64, "d_v": 64, "B_r": run.blocks.rows, "B_c": run.blocks.cols}
    tiles = {"T_r": -(-1024 // run.blocks.rows), "T_c": -(-1024 // run.blocks.cols)}
    return int(eval(text, {"__builtins__": {}}, {**sizes, **tiles}))  # arithmetic of our own


@pytest.mark.parametrize("name", [name for name in NAMES if name != "block-sparse"])  # whose terms say in words what is visited
def test_a_term_comes_to_the_number_beside_it(name: str) -> None:

    rows = cells(made("words", name))[1:-1]
    assert [(row[2], value(row[2], counted(name))) for row in rows] == [(row[2], number(row[3])) for row in rows]


def test_terms_of_visited_tiles_are_said_in_words() -> None:
    said = {row[2] for row in cells(made("words", "block-sparse"))[1:-1]}
    fixed = {"$N_q$", r"$N_q\,d_v$", r"$N_k\,d$", r"$N_k\,d_v$"}
    assert said == fixed | {rf"$(\text{{query rows visited}}){width}$" for width in ("", r"\,d", r"\,d_v")}


@pytest.mark.parametrize("name", NAMES)
def test_the_lead_and_the_peak_are_those_of_the_run(name: str) -> None:

    run, text = counted(name), made("words", name)
    rows, cols = run.blocks.rows, run.blocks.cols
    lead, end = text.split("\n", 1)[0], text.rsplit("\n", 1)[1]
    assert lead.startswith(f"With N = 1,024, d = 64, float32, an SRAM of {run.sram} and the blocks that fit, {rows}x{cols} (Br x Bc), ")
    assert re.findall(r"T_([rc]) = (\d+)\$", lead) == [("r", str(-(-1024 // rows))), ("c", str(-(-1024 // cols)))]
    assert end.startswith(f"Peak SRAM: {run.peak_sram:,} of {run.sram.amount:,} bytes. `iosim explain {name}` ")
    assert run.peak_sram <= run.sram.amount == (2 * 2**20 if "fmha" in name else 100 * 2**10)


def test_a_page_whose_closed_form_differs_from_the_count_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim_docs import kernels

    terms = predict.terms

    def more(*asked: object) -> tuple[object, ...]:
        first, *others = terms(*asked)  # type: ignore[arg-type]  # as they came
        return replace(first, words=first.words + 1), *others

    monkeypatch.setattr(predict, "terms", more)
    with pytest.raises(AssertionError, match=r"flash2: \d+ predicted, \d+ counted"):
        kernels.words("flash2")


# Its variants.


def others(name: str) -> list[tuple[str, Value]]:
    """Every choice of every option that is not the default."""
    return [(option.name, choice) for option in KERNELS[name].options for choice in option.choices if choice != option.default]


def asked(name: str, option: str, choice: Value) -> Report:
    """It with that choice."""
    return counted(name, (option, choice))


def spelled(option: str, choice: Value) -> str:
    return f"`{option}={choice}`" if isinstance(choice, bool) else f'`{option}="{choice}"`'


def line(run: Report) -> list[str]:
    """SRAM, blocks, words and peak, as a row of the table has them."""
    over = " (overflow recorded)" if run.overflow else ""
    return [str(run.sram), f"{run.blocks.rows}x{run.blocks.cols}", f"{run.total:,}", f"{run.peak_sram:,}{over}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_has_its_own_count_or_is_said_to_change_nothing(name: str) -> None:

    text, printed = made("variants", name), counted(name)
    table = {row[0]: row[1:] for row in cells(text)}
    if table:
        assert table.pop("variant") == ["SRAM", "Br x Bc", "words", "peak SRAM, bytes"]
        assert table.pop("as printed") == line(printed)
    for option, choice in others(name):
        run = asked(name, option, choice)
        changed = (run.total, run.peak_sram) != (printed.total, printed.peak_sram)
        rows = [title for title in table if title.startswith(spelled(option, choice))]
        assert len(rows) == changed
        assert [table.pop(title) for title in rows] == [line(run)] * changed
        assert (spelled(option, choice) in text.split("\n\n")[-1]) >= (not changed)
    assert table == {}


@pytest.mark.parametrize("name", NAMES)
def test_what_changes_nothing_is_said_below_the_table(name: str) -> None:

    printed = counted(name)
    same = [spelled(*other) for other in others(name) if asked(name, *other).total == printed.total]
    same = [one for one in same if f"| {one}" not in made("variants", name)]
    said = re.findall(r"^(`.*`) changes? nothing on this problem\.$", made("variants", name), re.MULTILINE)
    assert said == [" and ".join(same)] * bool(same)
    assert (made("variants", name) == "It has no variants.") == (not others(name))


def test_variants_differ() -> None:

    assert len({row[3] for row in cells(made("variants", "flash2-backward"))}) > 2
    assert "(overflow recorded)" in made("variants", "standard")
    assert 'with `first_pass="create"`' in made("variants", "flash")


# Its listing.


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_is_whole(name: str) -> None:
    from iosim_docs import kernels

    for path, spans in kernels.sources(name).items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for first, last in spans:
            head, *body = lines[first - 1 : last]
            assert head.startswith(("def ", "@"))
            compile("\n".join([head, *body]), str(path), "exec")
            assert all(part.startswith((" ", ")", "@", "def ")) or not part for part in body)
            assert sum(part.startswith("def ") for part in (head, *body)) == 1
            assert body[-1].strip()
            following = next((part for part in lines[last:] if part), "end")
            assert not following.startswith(" ")
        assert spans == sorted(spans)


def test_a_listing_has_the_function_of_its_kernel_and_all_that_it_calls(docs: Path) -> None:
    from iosim_docs import kernels

    files = [path for path in (docs.parent / "iosim" / "attention" / "kernels").rglob("*.py") if path.name != "masking.py"]
    ours = {name for path in files for name in re.findall(r"^def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)}
    for name, kernel in KERNELS.items():
        shown = "\n".join(
            "\n".join(path.read_text(encoding="utf-8").splitlines()[first - 1 : last])
            for path, spans in kernels.sources(name).items()
            for first, last in spans
        )
        defined = re.findall(r"^def (\w+)\(", shown, re.MULTILINE)
        assert kernel.listing.__name__ in defined
        assert set(re.findall(r"(?<![\w.])(\w+)\(", shown)) & ours <= set(defined), name
        assert len(set(defined)) == len(defined)
        assert all(path.is_relative_to(docs.parent / "iosim" / "attention" / "kernels") for path in kernels.sources(name))


# The directives.


SPHINX = ("docutils", "docutils.parsers.rst", "sphinx", "sphinx.util", "sphinx.util.docutils", "sphinx.util.typing")


@pytest.fixture
def directives(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the directives, whose Markdown is made without a build; a stand-in does for Sphinx where that is not installed."""
    import iosim_docs

    absent = "sphinx" not in sys.modules and find_spec("sphinx") is None
    if absent:
        for name in SPHINX:
            monkeypatch.setitem(sys.modules, name, MagicMock(SphinxDirective=type("SphinxDirective", (), {})))
    yield import_module("iosim_docs.directives")
    if absent:
        del sys.modules["iosim_docs.directives"], iosim_docs.directives


class Page:
    """As much of a build as :meth:`included` asks for: the page that is read."""

    docname = "kernels/flash"

    def __init__(self, docs: Path, out: Path | None = None) -> None:
        self.docs, self.doctreedir, self.app = docs, str(out), SimpleNamespace(outdir=str(out))

    def doc2path(self, name: str) -> str:
        return str(self.docs / f"{name}.md")


def standing(kind: type, docs: Path) -> Callable[[str], str]:
    """The Markdown of a directive on a kernel's page."""

    class Alone(kind):  # type: ignore[misc]  # a directive without a build
        env = Page(docs)

        def __init__(self) -> None:
            pass

    made: Callable[[str], str] = Alone().markdown
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_includes_those_lines_with_two_empty_ones_between(name: str, docs: Path, directives: ModuleType) -> None:
    from iosim_docs import kernels

    text = standing(directives.Listing, docs)(name)
    blocks = re.findall(r"```\{literalinclude\} (\S+)\n:language: (\w+)\n:lines: (\S+)\n:caption: (\S+)\n```", text)
    assert text.count("```") == 2 * len(blocks)
    for (place, language, lines, caption), (path, spans) in zip(blocks, kernels.sources(name).items(), strict=True):
        assert (docs / "kernels" / place).resolve() == path.resolve()
        assert (language, docs.parent / caption) == ("python", path)
        shown = [tuple(map(int, part.split("-"))) for part in lines.split(",")]
        assert shown == [(first - (2 if place else 0), last) for place, (first, last) in enumerate(spans)]


@pytest.mark.parametrize("name", ["kernels/flash", "commands/explain"])
def test_an_example_is_shown_in_its_language(name: str, docs: Path, directives: ModuleType) -> None:
    text = standing(directives.Example, docs)(name)
    found = re.findall(r"```\{literalinclude\} (\S+)\n:language: (\w+)\n```", text)
    there = {suffix: docs / "examples" / f"{name}{suffix}" for suffix in (".py", ".out", ".console")}
    languages = {".py": "python", ".out": "text", ".console": "console"}
    assert [((docs / "kernels" / place).resolve(), language) for place, language in found] == [
        (path.resolve(), languages[suffix]) for suffix, path in there.items() if path.exists()
    ]


def test_every_language_is_shown_by_some_example(docs: Path) -> None:
    suffixes = {path.suffix for folder in ("kernels", "commands") for path in (docs / "examples" / folder).iterdir() if path.is_file()}
    assert {".py", ".out", ".console"} <= suffixes


def test_each_directive_asks_the_module_that_knows(directives: ModuleType, docs: Path) -> None:
    from iosim_docs import commands, kernels

    for name, made in (("kernel", kernels.facts), ("words", kernels.words), ("variants", kernels.variants)):
        assert standing(directives.DIRECTIVES[name], docs)("flash2") == made("flash2")
    assert standing(directives.DIRECTIVES["usage"], docs)("run") == commands.usage("run")
    assert standing(directives.DIRECTIVES["listing"], docs)("flash2") == standing(directives.Listing, docs)("flash2")


@pytest.mark.parametrize("alone", [False, True])
def test_a_figure_is_the_one_of_its_script_and_has_words(alone: bool, docs: Path, directives: ModuleType, tmp_path: Path) -> None:
    class Alone(directives.Drawn):  # type: ignore[misc, name-defined]  # a directive without a build
        env, content, options = Page(docs, tmp_path), ["What it", "shows."], {"alone": None} if alone else {}

        def __init__(self) -> None:
            pass

    text = Alone().markdown("bars")
    (place,) = re.findall(r"```\{image\} (\S+)\n:alt: What it shows\.\n```", text)
    assert "\n*What it shows.*" in text
    picture = (docs / "kernels" / place).resolve()
    assert picture == tmp_path / "figures" / "bars.svg"
    file = io.BytesIO()
    write(golden_figure(docs / "examples" / "figures" / "bars.py"), file, "svg")
    assert picture.read_bytes() == file.getvalue()
    scripts = re.findall(r"```\{literalinclude\} (\S+)\n:language: python\n```", text)
    assert [(docs / "kernels" / script).resolve() for script in scripts] == [docs.resolve() / "examples" / "figures" / "bars.py"] * (
        not alone
    )


def golden_figure(script: Path) -> Figure:
    """The figure of a script, run here."""
    figure = runpy.run_path(str(script))["figure"]
    assert isinstance(figure, Figure)
    return figure


def test_a_moving_picture_is_that_of_its_kernel(
    docs: Path, directives: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alone(directives.Picture):  # type: ignore[misc, name-defined]  # a directive without a build
        env, arguments = Page(docs, tmp_path), ["flash2"]

        def __init__(self) -> None:
            pass

        def parse_text_to_nodes(self, text: str) -> list[str]:
            return [text]

    monkeypatch.setattr(directives.nodes, "raw", lambda _, text, **kind: text)
    lead, frame = Alone().run()
    assert re.findall(r"\d+", lead) == [str(count) for count in (SMALL.n, SMALL.d, *SIDE)]
    iosim.animate("flash2").save(tmp_path / "flash2.html")
    assert (tmp_path / "_static" / "moving" / "flash2.html").read_bytes() == (tmp_path / "flash2.html").read_bytes()
    assert re.findall(r'(?:src|href)="([^"]*)"', frame) == ["../_static/moving/flash2.html"] * 2
    assert 'title="flash2, event by event"' in frame


# What a page must have.

SECTIONS = {"kernels": ("Idea", "Listing", "Closed form", "When it misses", "Try it", "See it move"), "commands": ("Usage",)}
ASKED = {"kernels": ("kernel", "listing", "words", "variants", "picture"), "commands": ("usage",)}


@pytest.mark.parametrize(
    ("folder", "name", "line"),
    [
        *(("kernels", "flash2", f"## {title}") for title in SECTIONS["kernels"]),
        *(("commands", "run", f"## {title}") for title in SECTIONS["commands"]),
        *(("kernels", "flash2", f"```{{{directive}}} flash2") for directive in ASKED["kernels"]),
        ("commands", "run", "```{usage} run"),
        ("kernels", "flash2", "```{example} kernels/flash2"),
        ("commands", "run", "```{example} commands/run"),
    ],
)
def test_a_page_that_lacks_a_line_is_told_which(folder: str, name: str, line: str, docs: Path, tmp_path: Path) -> None:
    from iosim_docs.pages import faults

    page = tmp_path / f"{name}.md"
    shutil.copy(docs / folder / page.name, page)
    assert faults(page, folder) == []
    lines = page.read_text(encoding="utf-8").splitlines()
    assert line in lines
    page.write_text("\n".join(one for one in lines if one != line), encoding="utf-8")
    assert faults(page, folder) == [f"{folder}/{name}.md lacks {line!r}"]
    page.write_text("\n".join(f"{one}s" if one == line else one for one in lines), encoding="utf-8")
    assert faults(page, folder) == [f"{folder}/{name}.md lacks {line!r}"]


def test_an_empty_page_lacks_everything(tmp_path: Path) -> None:
    from iosim_docs.pages import faults

    (tmp_path / "flash2.md").touch()
    wanted = [f"```{{{directive}}} flash2" for directive in ASKED["kernels"]] + [f"## {title}" for title in SECTIONS["kernels"]]
    wanted += ["```{example} kernels/flash2"]
    assert sorted(faults(tmp_path / "flash2.md", "kernels")) == sorted(f"kernels/flash2.md lacks {line!r}" for line in wanted)


# Examples that print.


def test_a_command_that_fails_is_no_example(tmp_path: Path) -> None:
    from iosim_docs import golden

    example = tmp_path / "wrong.console"
    example.write_text("$ iosim run no-such-kernel --n 64\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"wrong\.console: exit status 2"):
        golden.printed(example)


def test_a_command_that_ends_well_is_printed(tmp_path: Path) -> None:
    from iosim_docs import golden

    example = tmp_path / "right.console"
    example.write_text("$ iosim --version\nold\n", encoding="utf-8")
    assert golden.printed(example) == f"iosim {iosim.__version__}\n"
    assert golden.kept(example) == "old\n"
    assert golden.command(example) == "iosim --version"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("a b\n", "a b\n", True),
        ("a b\n", "a  b\n", False),
        ("a b\n", "ab\n", False),
        ("a b\n", "a b", False),
        ("a\n", "a\n\n", False),
        ("a\tb\n", "a b\n", False),
        (" a\n", "a\n", False),
        ("error 1.25e-07 of 3\n", "error 3.1e-08 of 3\n", True),
        ("error 1.25e-07 of 3\n", "error 1.25e-07 of 4\n", False),
        ("total 12\n", "total 13\n", False),
        ("2.5 times\n", "2.6 times\n", False),
    ],
)
def test_outputs_are_the_same_but_for_rounding(one: str, other: str, equal: bool) -> None:
    from iosim_docs import golden

    assert golden.same(one, other) is equal
    assert golden.same(other, one) is equal


def test_an_output_is_written_anew_where_it_changed_and_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim_docs import golden

    for name, kept in (("same", "1\n"), ("other", "2\n")):
        (tmp_path / f"{name}.py").write_text("print(1)\n", encoding="utf-8")
        (tmp_path / f"{name}.out").write_text(kept, encoding="utf-8")
    (tmp_path / "run.console").write_text("$ iosim --version\nold\n", encoding="utf-8")
    found = golden.printing(tmp_path)
    monkeypatch.setattr(golden, "printing", lambda: found)
    assert [path.name for path in golden.renewed()] == ["other.out", "run.console"]
    assert (tmp_path / "other.out").read_text(encoding="utf-8") == "1\n"
    assert (tmp_path / "run.console").read_text(encoding="utf-8") == f"$ iosim --version\niosim {iosim.__version__}\n"
    assert list(golden.renewed()) == []


# Types that load late.

_ATTENTION = ("report", "run", "sweep", "random_problems")
LOADED = ("iosim", *(f"iosim.attention.{name}" for name in _ATTENTION), "iosim.predict")
ASK = """
import ast, inspect, json, sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
from iosim_docs import late

def absent(name):
    module = import_module(name)
    tests = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)]
    hidden = [node for node in tests if ast.unparse(node.test) == "TYPE_CHECKING"]
    names = [alias.asname or alias.name for node in hidden for each in node.body for alias in each.names]
    return [name for name in names if name not in vars(module)], len(names)

before = {name: absent(name) for name in sys.argv[2:]}
late.load()
print(json.dumps([before, {name: absent(name) for name in sys.argv[2:]}]))
"""


def test_types_that_modules_name_late_are_there_once_they_are_loaded(docs: Path) -> None:
    asked = [sys.executable, "-c", ASK, str(docs / "_ext"), *LOADED]  # a process of its own: loading cannot be undone
    before, after = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    assert all(count > 0 for _, count in before.values())
    assert len([name for name, (absent, _) in before.items() if absent]) > 3
    assert {name: absent for name, (absent, _) in after.items() if absent} == {}
