"""The documentation: a page for whatever there is, examples that print what they say, and a site that builds and needs no network."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

import pytest

from iosim import KERNELS
from iosim.cli.group import iosim as group

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
REGISTRIES = {"kernels": tuple(KERNELS), "commands": tuple(group.known)}
PRINTING = sorted(path for path in [*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.console")] if path.parent.name != "figures")
DRAWING = sorted(EXAMPLES.glob("figures/*.py"))
PAGES = sorted(DOCS.glob("*.md"))
NOTEBOOKS = sorted((DOCS.parent / "notebooks").glob("[0-9]*.ipynb"))
BUILDERS = ("sphinx", "furo", "myst_nb", "sphinxcontrib.bibtex", "sphinx-mathjax-offline")
pytestmark = pytest.mark.usefixtures("docs")
PHONE = 390


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("folder", REGISTRIES)
def test_every_kernel_and_command_has_its_page(folder: str, docs: Path) -> None:
    from iosim_docs.pages import wrong

    assert wrong(docs, folder, REGISTRIES[folder]) == []


@pytest.mark.parametrize("folder", REGISTRIES)
def test_a_missing_page_is_seen(folder: str, docs: Path, tmp_path: Path) -> None:
    from iosim_docs.pages import wrong

    first, *others = REGISTRIES[folder]
    assert wrong(docs, folder, [first, *others, "new"]) == [f"{folder}/new.md is missing"]
    assert wrong(docs, folder, others) == [f"{folder}/{first}.md is the page of nothing"]
    shutil.copytree(docs / folder, tmp_path / folder)
    page = tmp_path / folder / f"{first}.md"
    page.write_text(page.read_text().replace(f"}} {first}\n", "} other\n"))
    assert len(wrong(tmp_path, folder, REGISTRIES[folder])) == {"kernels": 5, "commands": 1}[folder]


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_made_of_a_kernel(name: str) -> None:
    from iosim_docs import kernels

    made = kernels.counted(name)
    assert f"| **sum** | | | **{made.total:,}** | counted: equal |" in kernels.words(name)
    path, spans = next(iter(kernels.sources(name).items()))
    first = min(path.read_text().splitlines()[start - 1] for start, _ in spans if path.read_text().splitlines()[start - 1])
    assert first.startswith(("def ", "@"))
    assert all(f"`{array}`" in kernels.facts(name) for array in (*KERNELS[name].inputs, *KERNELS[name].outputs))


@pytest.mark.parametrize("name", KERNELS)
def test_every_option_is_explained_by_its_help(name: str) -> None:
    from iosim_docs import kernels

    facts = kernels.facts(name)
    assert re.findall(r"option `(\w+)`", facts) == list(KERNELS[name].has)
    for option in KERNELS[name].options:
        assert f"{option.flag}`" in facts
        assert option.help in facts


def test_every_kernel_stands_in_one_list() -> None:
    from iosim_docs import kernels

    families = dict.fromkeys(map(kernels.family_of, KERNELS.values()))
    listed = [line for family in families for line in kernels.listed(family).splitlines() if line in KERNELS]
    assert sorted(listed) == sorted(KERNELS)
    index = (DOCS / "kernels" / "index.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"```\{kernels\} (\w+)\n", index)) == sorted(families)


@pytest.mark.parametrize("name", KERNELS)
def test_every_choice_of_a_kernel_is_counted_or_said_to_change_nothing(name: str) -> None:
    from iosim_docs import kernels

    text = kernels.variants(name)
    for option, choice in kernels.choices(name):
        spelled = f"`{option}={choice}`" if isinstance(choice, bool) else f'`{option}="{choice}"`'
        changes = kernels.chosen(name, option, choice)[0].total != kernels.counted(name).total
        assert spelled in text
        assert not changes or f"| {spelled}" in text
    assert ("no variants" in text) == (not KERNELS[name].has)


def test_a_listing_brings_what_it_calls() -> None:
    from iosim_docs import kernels

    names = {one.__name__ for one in kernels.called(KERNELS["square-tiles-backward"].listing)}  # type: ignore[arg-type]  # it is a function
    assert {"square_tiles_backward", "gradient_lines", "gradient_tiles", "by_rows", "product", "blocked_scores"} <= names
    assert {"scores", "dropped", "exp"}.isdisjoint(names)


@pytest.mark.parametrize("name", group.known)
def test_the_usage_of_a_command_is_its_help(name: str) -> None:
    from iosim_docs.commands import usage

    asked = [sys.executable, "-m", "iosim", name, "--help"]
    plain = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    said = subprocess.run(asked, capture_output=True, text=True, check=True, env=plain | {"COLUMNS": "82"}).stdout
    shown = usage(name)
    assert said.split() == shown.split("```text\n")[1].removesuffix("```\n\n").removesuffix("```").split()
    if "Commands:" in said:
        assert all(f"Usage: iosim {name} {one}" in shown for one in re.findall(r"^  ([a-z]+)  ", said.partition("Commands:")[2], re.M))


def test_the_examples_in_the_package_of_the_site() -> None:
    from iosim_docs import kernels, notebooks

    for module, examples in ((kernels, 2), (notebooks, 2)):
        found = doctest.testmod(module)
        assert (found.attempted, found.failed) == (examples, 0)


@pytest.mark.parametrize("example", PRINTING, ids=name_of)
def test_an_example_prints_what_the_page_shows(example: Path) -> None:
    from iosim_docs import golden

    assert golden.printing() == PRINTING
    now, then = golden.printed(example), golden.kept(example)
    assert golden.same(now, then), f"{name_of(example)} prints something else now; python -m iosim_docs.golden writes it down"


def test_a_changed_output_is_seen() -> None:
    from iosim_docs import golden

    assert golden.same("total 12, error 1.9e-07", "total 12, error 2.0e-07")
    assert not golden.same("total 12, error 1.9e-07", "total 13, error 1.9e-07")


@pytest.mark.parametrize("example", DRAWING, ids=name_of)
def test_an_example_draws(example: Path) -> None:
    from iosim_docs import golden

    assert golden.figures() == DRAWING
    assert golden.drawn(example).axes


def test_every_example_is_shown(docs: Path) -> None:
    text = "\n".join(path.read_text() for path in docs.rglob("*.md"))
    for example in PRINTING:
        name = example.relative_to(EXAMPLES).with_suffix("").as_posix()
        assert f"```{{example}} {name}\n" in text or f"examples/{example.relative_to(EXAMPLES).as_posix()}\n" in text, name
    assert all(f"```{{drawn}} {example.stem}\n" in text for example in DRAWING)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_on_a_page_runs(page: Path) -> None:
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        if ">>> " in code:
            test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
            assert doctest.DocTestRunner().run(test).failed == 0
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, str(page), "exec"), {"__name__": page.stem})


def test_every_notebook_is_listed(source_tree: Path) -> None:
    from iosim_docs import notebooks

    found = notebooks.sources(source_tree / "notebooks")
    assert len(found) >= 10
    text = notebooks.listed(source_tree / "notebooks")
    assert all(f"notebooks/{path.stem}.ipynb" in text for path in found)
    assert text.count("words to read") == len(found) + 1
    assert all(title[0].isdigit() and question.endswith("?") for title, question in map(notebooks.head, found) if "?" in question)


FIRST = {"cell_type": "markdown", "metadata": {}, "source": ["# 1 Why?\n", "[bounds](../docs/bounds.md#masks), [next](02_b.ipynb)"]}
SECOND = {"cell_type": "code", "metadata": {"tags": ["check"]}, "outputs": [], "source": ["assert True"]}
NOTEBOOK = {"cells": [FIRST, SECOND]}


def test_the_copy_of_a_notebook_leads_to_the_pages_and_has_no_widgets(tmp_path: Path) -> None:
    from iosim_docs import notebooks

    folder, target = tmp_path / "notebooks", tmp_path / "docs"
    folder.mkdir()
    (folder / "01_a.py").touch()
    (folder / "01_a.ipynb").write_text(json.dumps(NOTEBOOK))
    notebooks.copy(folder, target)
    plain, prose, code = json.loads((target / "01_a.ipynb").read_text())["cells"]
    assert plain["metadata"]["tags"] == ["remove-cell"]
    with patch.dict(sys.modules):
        exec(plain["source"], {})
        with pytest.raises(ImportError):
            importlib.import_module("ipywidgets")
    assert "[bounds](../bounds.md#masks), [next](02_b.ipynb)" in prose["source"]
    assert code["metadata"] == {"tags": ["check"], "mystnb": {"image": {"alt": "The picture that this code draws: 1 Why?"}}}


def test_words_are_those_of_the_text_alone(tmp_path: Path) -> None:
    from iosim_docs import notebooks

    source = tmp_path / "01_a.py"
    source.write_text("# %% [markdown]\n# # 1 One, two\n#\n# three $4$\n\n# %%\nnot = these\n\n# %% [markdown] tags=[]\n# four\n")
    assert sum(map(notebooks.words, notebooks.prose(source))) == 4


@pytest.mark.parametrize("asks", ["**Predict**: how many?", "Now **write down** how many.", "**Before you run it**, how many?"])
def test_what_answers_a_prediction_is_folded_until_the_next_text(asks: str) -> None:
    from iosim_docs import notebooks

    code = {"cell_type": "code", "metadata": {"tags": ["check"]}, "source": ""}
    text = {"cell_type": "markdown", "metadata": {}, "source": ["The prediction.\n", "It was **good**."]}
    made = list(notebooks.folded([code, {**text, "source": ["Here.\n", asks]}, code, code, text, code]))
    assert [cell["metadata"].get("tags") for cell in made] == [
        ["check"],
        None,
        ["check", "hide-output"],
        ["check", "hide-output"],
        None,
        ["check"],
    ]


def test_a_copy_is_made_anew_when_its_notebook_changes_and_only_then(tmp_path: Path) -> None:
    from iosim_docs import notebooks

    (tmp_path / "01_a.py").touch()
    (tmp_path / "01_a.ipynb").write_text(json.dumps(NOTEBOOK))
    target = tmp_path / "docs"
    notebooks.copy(tmp_path, target)
    (target / "02_gone.ipynb").touch()
    os.utime(target / "01_a.ipynb", (1, 1))
    notebooks.copy(tmp_path, target)
    assert [path.name for path in target.iterdir()] == ["01_a.ipynb"]
    assert (target / "01_a.ipynb").stat().st_mtime == 1  # so that Sphinx does not run it again
    (tmp_path / "01_a.ipynb").write_text(json.dumps(NOTEBOOK).replace("Why", "How"))
    notebooks.copy(tmp_path, target)
    assert "1 How?" in (target / "01_a.ipynb").read_text()


SYMBOLS = ("Q", "K", "V", "O", "S", "P", "D", "N", "N_q", "N_k", "d", "d_v", "l", "m", "LSE", "M", "Br", "Bc", "T_r", "T_c", "Θ")
TERMS = (
    "alpha", "density", "global memory", "init", "listing", "PTX", "register", "residents", "schedule", "sector", "shared memory",
    "thread block", "warp", "word", "byte", "flop", "bandwidth", "arithmetic intensity", "machine balance", "roofline",
    "HBM", "SRAM", "SM", "tile", "kernel", "lower bound", "closed form",
)  # fmt: skip


def test_the_glossary_has_every_symbol(docs: Path) -> None:
    entries = (docs / "glossary.md").read_text(encoding="utf-8").split("```{glossary}\n")[1].removesuffix("```\n").split("\n\n")
    terms = [line for entry in entries for line in entry.splitlines() if not line.startswith("  ")]
    assert {*SYMBOLS, *TERMS} <= set(terms)
    assert len(terms) == len(set(terms))
    assert all(entry.splitlines()[-1].startswith("  ") for entry in entries)


def names_a_file(text: str) -> bool:
    """Whether a reader of the site would be shown the name of one of its sources."""
    return re.fullmatch(r"\S+\.(md|ipynb)(#\S*)?", text.strip()) is not None


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_link_says_where_it_leads(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [text for text in re.findall(r"\[([^\[\]]*)\]\(", prose) if names_a_file(text.strip("`*"))] == []
    assert [target for target in re.findall(r"\]\(([^)#\s]+)", prose) if ":" not in target and not (page.parent / target).exists()] == []


# The built site.


class Link(NamedTuple):
    """What an element asks for, and whether a reader follows it or the page needs it."""

    target: str
    needed: bool


class Reader(HTMLParser):
    """The links with their texts, the anchors and the pictures' descriptions of one page."""

    inside = False

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()
        self.pictures: list[str | None] = []
        self.texts: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "a"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.pictures += [given.get("alt")] * (tag == "img")
        if tag == "a":
            self.inside = True
            self.texts.append("")
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        for name in ("href", "src", "data", "poster"):
            if value := given.get(name):
                self.links.append(Link(value, tag != "a"))
        self.links += [Link(part.split()[0], True) for part in (given.get("srcset") or "").split(",") if part.strip()]


@pytest.fixture(scope="module")
def site(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    absent = [name for name in BUILDERS if not installed(name)]
    if absent:
        pytest.skip(f"the site is built with the extra docs; {', '.join(absent)} is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-q", "-d", str(out / "doctrees"), str(docs), str(out / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package of the namespace is there, or not even that
        return False


def test_the_site_has_every_page(site: Path) -> None:
    sources = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    sources |= {Path("notebooks", path.stem) for path in NOTEBOOKS}
    assert {path for path in sources if not (site / path).with_suffix(".html").exists()} == set()
    assert {f"{name}.html" for name in KERNELS} <= {path.name for path in (site / "_static" / "moving").iterdir()}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_a_notebook_is_shown_as_it_ran(site: Path, notebook: Path) -> None:
    page = site / "notebooks" / f"{notebook.stem}.html"
    text, cells = page.read_text(encoding="utf-8"), json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(re.findall(r'class="cell_input[^"]*docutils', text)) == len(code)
    printing = sum(re.search(r"^print\(", each, re.MULTILINE) is not None for each in code)
    assert len(re.findall(r'class="cell_output[^"]*docutils', text)) >= printing > 0
    assert text.count("jupyter-widget") == text.count("widget-view") == text.count("Traceback") == 0
    asked = [cell for cell in cells if re.search(r"\*\*(predict|write down|before you run)", "".join(cell["source"]), re.IGNORECASE)]
    hidden = sum("hide-input" in cell["metadata"].get("tags", []) for cell in cells)
    assert text.count("Show the source") == hidden
    assert text.count("Show the") == text.count('<details class="admonition hide') >= len(asked) + hidden > 0
    drawn = [alt for alt in Reader(page).pictures if alt and alt.startswith("The picture that this code draws")]
    assert drawn
    assert "sys.modules" not in text


def test_links_and_pictures_have_words(site: Path) -> None:
    pages = {path.relative_to(site): Reader(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert [f"{page}: {text}" for page, reader in pages.items() for text in reader.texts if names_a_file(text)] == []
    assert [str(page) for page, reader in pages.items() if not all(reader.pictures)] == []


def test_every_internal_link_resolves(site: Path) -> None:
    pages = {path: Reader(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert sum(len(reader.links) for reader in pages.values()) > 1000
    broken = [f"{page.name}: {link.target}" for page, reader in pages.items() for link in reader.links if is_broken(page, link, pages)]
    assert broken == []


def is_broken(page: Path, link: Link, pages: dict[Path, Reader]) -> bool:
    parts = urlsplit(link.target)
    if parts.scheme or parts.netloc:
        return False
    place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not place.exists():
        return True
    return bool(parts.fragment) and place in pages and unquote(parts.fragment) not in pages[place].anchors


def test_nothing_that_a_page_needs_is_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert [f"{page.name}: {link.target}" for page in pages for link in Reader(page).links if link.needed and is_away(link.target)] == []
    styles = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert styles
    asked = [
        (name, target) for name, text in styles.items() for target in re.findall(r"(?:@import\s+(?:url\()?|url\()[\"']?([^\"')\s]+)", text)
    ]
    assert [(name, target) for name, target in asked if is_away(target)] == []


def is_away(target: str) -> bool:
    return urlsplit(target).scheme not in ("", "data") or target.startswith("//")


@pytest.mark.browser
def test_no_page_asks_the_network_and_all_can_be_read(site: Path, browser: Browser) -> None:
    """Chromium over every page, at phone width: no request but for files, no complaint, formulas set, images there, nothing cut off."""
    pages = sorted(site.rglob("*.html"))
    tab = browser.new_page(viewport={"width": PHONE, "height": 800})
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(f"{tab.url}: {message.text}") if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: said.append(f"{tab.url}: {error}"))
    faults = [f"{page.relative_to(site)}: {fault}" for page in pages for fault in looked_at(tab, page)]
    assert len(asked) > len(pages)
    away = [url for url in asked if urlsplit(url).scheme not in ("file", "data", "blob", "about")]
    assert (away, said, faults) == ([], [], [])


LOOK = """async () => {
    if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
    const loaded = frame => new Promise(done => { frame.onload = done; frame.loading = 'eager'; frame.src = frame.src; });
    await Promise.all([...document.querySelectorAll('iframe')].map(loaded));
    const formulas = document.querySelectorAll('.math').length, set = document.querySelectorAll('mjx-container').length;
    const images = [...document.images];
    images.forEach(image => image.loading = 'eager');
    await Promise.all(images.map(image => image.decode().catch(() => null)));
    return {
        formulas, set, title: document.title, wide: document.documentElement.scrollWidth,
        absent: images.filter(image => image.naturalWidth === 0).map(image => image.src),
        wrong: document.querySelectorAll('mjx-merror, [data-mjx-error]').length,
    };
}"""


def looked_at(tab: object, page: Path) -> list[str]:
    """What is wrong with a page."""
    tab.goto(page.as_uri())  # type: ignore[attr-defined]  # Playwright is untyped here
    found = tab.evaluate(LOOK)  # type: ignore[attr-defined]
    faults = [f"image {source} is absent" for source in found["absent"]]
    faults += [f"{found['set']} of {found['formulas']} formulas are set"] * (found["set"] != found["formulas"])
    faults += [f"{found['wrong']} formulas are wrong"] * bool(found["wrong"])
    faults += [f"it is {found['wide']} pixels wide on a phone of {PHONE}"] * (found["wide"] > PHONE)
    return faults + ["it has no title"] * (not found["title"])


def test_the_configuration_names_what_is_missing(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"sphinx-mathjax-offline; pip install -e '\.\[docs\]'"):
        exec(compile((docs / "conf.py").read_text(), str(docs / "conf.py"), "exec"), {"__file__": str(docs / "conf.py")})
