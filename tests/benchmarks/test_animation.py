"""How fast the moving picture opens and moves, measured by the browser that shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iosim import Attention, MovingPicture, animate

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
FRAMES = """speed => new Promise(done => {
  document.getElementById("speed").value = speed;
  iosim.seek(0);
  iosim.play();
  const times = [];
  const frame = now => {
    times.push(now);
    times.length <= 240 ? requestAnimationFrame(frame) : done(times.slice(1).map((at, i) => at - times[i]));
  };
  requestAnimationFrame(frame);
})"""
DRAWN = """() => Array.from({length: 240}, (_, at) => {
  const before = performance.now();
  iosim.seek(20000 + at);
  return performance.now() - before;
})"""
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
Figure = Callable[[str, float, str], None]


def page_of(browser: Browser, folder: Path, picture: MovingPicture) -> Page:
    picture.save(folder / "page.html")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((folder / "page.html").as_uri(), wait_until="load")
    page.wait_for_timeout(300)
    return page


def middle(times: list[float], share: float = 0.5) -> float:
    return sorted(times)[int(len(times) * share)]


def test_opening_the_default_page(browser: Browser, tmp_path: Path, turns: Callable[..., list[list[float]]], figure: Figure) -> None:
    """Until the first picture is drawn: the script draws it before the page counts as loaded."""
    picture = animate("flash2")
    opened: list[float] = []

    def open_page() -> None:
        page = page_of(browser, tmp_path, picture)
        opened.append(page.evaluate(OPENED))
        page.close()

    turns(open_page, rounds=5, warmup=1)
    figure("ms to open", middle(opened), "< 1000")
    figure("kB", len(picture.html.encode()) / 1e3, "< 2000")


def test_frames_of_64_by_64_tiles(browser: Browser, tmp_path: Path, turns: Callable[..., list[list[float]]], figure: Figure) -> None:
    """flash2 on N = 256 in 4x4 tiles, at a pace at which tiles are seen to travel and at one that shows several steps a frame."""
    page = page_of(browser, tmp_path, animate("flash2", Attention(n=256, d=4)))
    opened = page.evaluate(OPENED)
    slow: list[float] = []
    turns(lambda: slow.extend(page.evaluate(FRAMES, "16")), rounds=1, warmup=0)
    fast = page.evaluate(FRAMES, "240")
    figure("ms a frame, 16 steps/s, median", middle(slow), "<= 17")
    figure("ms a frame, 16 steps/s, 95 %", middle(slow, 0.95), "")
    figure("ms a frame, 240 steps/s, median", middle(fast), "<= 17")
    figure("ms of script to seek and draw", middle(page.evaluate(DRAWN)), "")
    figure("ms to open", opened, "")
    page.close()
