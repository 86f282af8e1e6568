"""What every test stands on: suites, Hypothesis profiles, one thread, no screen, and whether the source tree is at hand."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

    from iosim import MovingPicture
    from iosim.core.events import Event

# Read when NumPy and matplotlib load, which is after this file; subprocesses inherit them. Many threads slow small products down.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ.pop("COLUMNS", None)  # pages then have the width that they have in a file; workers are given their terminal's

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip

SUITES = {
    "course": ("course/*", "cli/test_exercise.py"),
    "gpu": ("gpu/*", "cli/test_gpu.py"),
    "animation": ("show/test_animation*",),
    "docs": ("site/*",),
    "unchanged": ("cli/test_unchanged.py",),
}
"""The files of each suite. A plain ``pytest`` leaves them out; ``pytest -m course`` runs one, and so does ``pytest tests/course``."""
PLAIN = f"not ({' or '.join(('slow', *SUITES))})"

# In CI the same commit gives the same verdict; elsewhere every run looks at new examples.
_IN_CI = bool(os.environ.get("CI"))
for name, examples in {"default": 25, "long": 2000}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=_IN_CI,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def suite_of(file: Path) -> str | None:
    """The suite of a test file; None where a plain ``pytest`` runs it."""
    place = file.relative_to(Path(__file__).parent).as_posix()
    return next((suite for suite, files in SUITES.items() if any(fnmatch(place, pattern) for pattern in files)), None)


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what is slow; and the suites, unless tests were named by path or by mark."""
    if not config.option.markexpr:
        config.option.markexpr = "not slow" if config.args_source is pytest.Config.ArgsSource.ARGS else PLAIN


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is left out."""
    return f"suites left out: {', '.join(SUITES)} (pytest -m SUITE runs one)" if config.option.markexpr == PLAIN else ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the reading of files that ``-m`` leaves out anyway."""
    asked = config.option.markexpr
    if collection_path.is_dir() or asked not in (PLAIN, *SUITES):
        return None
    return suite_of(collection_path) != (None if asked == PLAIN else asked) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its suite, before ``-m`` selects."""
    for item in items:
        if suite := suite_of(item.path):
            item.add_marker(suite)


@pytest.fixture(scope="session")
def source_tree() -> Path:
    """The root of the source tree; skips the test where only an installed wheel is at hand."""
    root = Path(__file__).parents[1]
    if not (root / "iosim").is_dir():
        pytest.skip("needs the source tree; here only the installed wheel is tested")
    return root


@pytest.fixture(scope="module")
def docs(source_tree: Path) -> Iterator[Path]:
    """The sources of the site, with its own package importable."""
    package = str(source_tree / "docs" / "_ext")
    sys.path.insert(0, package)
    yield source_tree / "docs"
    sys.path.remove(package)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where IOSIM_NO_SKIPS is set everything that tests need has been installed: there a skip is a failure."""
    report = yield
    if report.skipped and os.environ.get("IOSIM_NO_SKIPS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, though IOSIM_NO_SKIPS is set: {report.longrepr}"
    return report


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[int, str, str]]:
    """Run the command line on what follows ``iosim``, in 100 columns: its status, its output and its complaints."""
    from iosim.cli import main  # with NumPy, for which the environment had to be set

    monkeypatch.setenv("COLUMNS", "100")
    return lambda line: (main(line.split()), *capsys.readouterr())


@pytest.fixture
def answer(called: Callable[[str], tuple[int, str, str]]) -> Callable[[str], str]:
    """What a command prints that succeeds without a complaint."""

    def printed(line: str) -> str:
        status, out, err = called(line)
        assert (status, err) == (0, "")
        return out

    return printed


@pytest.fixture
def document(answer: Callable[[str], str]) -> Callable[[str], Any]:
    """What it prints as JSON."""
    return lambda line: json.loads(answer(f"{line} --json"))


@pytest.fixture
def refused(called: Callable[[str], tuple[int, str, str]]) -> Callable[[str], str]:
    """The one line with which a command refuses."""

    def complaint(line: str) -> str:
        status, out, err = called(line)
        assert (status, out) == (2, "")
        assert err.startswith("iosim: ")
        assert err.count("\n") == 1
        return err

    return complaint


@pytest.fixture
def sealed() -> Callable[[Sequence[Event]], str]:
    """The events of a trace as a file holds them."""
    from iosim.attention.trace import Seal

    def text(events: Sequence[Event]) -> str:
        seal = Seal()
        lines = [*(seal.line(event) for event in events[:-1]), seal.line(events[-1], last=True)]
        return "".join(f"{line}\n" for line in lines)

    return text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium that is installed already; the tests are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason='needs Playwright: pip install "iosim[browser]"')
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open a picture's page; when the test ends, nothing may have been asked for but that file, nor any error told.

    ``script`` runs before those of the page.
    """
    contexts: list[BrowserContext] = []
    asked: list[str] = []
    errors: list[str] = []

    def opened(picture: MovingPicture, width: int = 1280, height: int = 900, script: str = "", **settings: Any) -> Page:
        path = tmp_path / f"page{len(contexts)}.html"
        picture.save(path)
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)

        def only_the_page(route: Route) -> None:
            if route.request.url == path.as_uri():
                route.continue_()
            else:
                route.abort()

        context.route("**/*", only_the_page)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    pages = [(tmp_path / f"page{place}.html").as_uri() for place in range(len(contexts))]
    assert [url for url in asked if not url.startswith("data:")] == pages
    assert errors == []
