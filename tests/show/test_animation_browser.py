"""The moving picture in a browser: it plays, steps and scrubs, shows the run's exact numbers, and asks for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iosim import Attention, animate, simulate
from iosim.attention.plan import make_plan
from iosim.attention.report import Report
from iosim.attention.trace import trace
from iosim.core.events import Event
from iosim.show.animation import from_trace
from iosim.show.animation.moving import picture as picture_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SMALL, BLOCKS, SRAM = Attention(n=16, d=4), (4, 4), 128
Open = Callable[..., "Page"]


TOLD = """run => {
  const root = document.querySelectorAll(".run")[run], text = one => one.innerText.replaceAll(",", "");
  const rows = [...root.querySelectorAll(".counters tr")].slice(1).map(row => [...row.children].map(text));
  const sram = [...root.querySelectorAll(".sram tr")].map(row => [...row.children].map(text));
  const words = rows.map(([name, reads, writes]) => [name, [+reads, +writes]]);
  return {words, sram: sram.map(([name, words]) => [name, parseInt(words)])};
}"""


@dataclass
class Told:
    """What the page tells about a run: words read and written of every array, and SRAM."""

    words: dict[str, tuple[int, int]]
    sram: dict[str, int]


def told(page: Page, run: int = 0) -> Told:
    found = page.evaluate(TOLD, run)
    return Told({name: (reads, writes) for name, (reads, writes) in found["words"]}, dict(found["sram"]))


def until(page: Page, condition: str) -> None:
    """Wait for a condition; Playwright's own way evaluates text, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"{condition} did not come true")


def expected(report: Report) -> dict[str, tuple[int, int]]:
    return {**{name: (array.reads, array.writes) for name, array in report.arrays.items()}, "all": (report.reads, report.writes)}


def seek(page: Page, position: int) -> None:
    """Scrub as a hand does."""
    page.locator("#scrub").fill(str(position))


def length(page: Page) -> int:
    return int(str(page.locator("#scrub").get_attribute("max")))


@pytest.mark.parametrize("kernel", ["flash2", "flash", "standard", "flash2-backward", "square-tiles"])
def test_it_plays_to_the_exact_counts(open_page: Open, kernel: str) -> None:
    picture, report = animate(kernel, SMALL, sram=256), simulate(kernel, SMALL, sram=256, blocks=BLOCKS)
    page = open_page(picture)
    page.locator("#speed").select_option("1000")
    page.locator("#play").click()
    until(page, "document.getElementById('scrub').value === document.getElementById('scrub').max && !iosim.playing")
    assert page.locator("#play").inner_text() == "▶ play"
    found = told(page)
    assert found.words == expected(report)
    assert found.sram == {"used": 0, "peak so far": report.peak_sram, "capacity M": 256, "overflow": 0}


def test_it_plays_and_pauses_at_a_pace(open_page: Open) -> None:
    page = open_page(animate("flash2"))
    page.locator("#speed").select_option("16")
    page.keyboard.press("Space")
    until(page, "iosim.position >= 8")
    page.keyboard.press("Space")
    stopped = page.evaluate("iosim.position")
    page.wait_for_timeout(300)
    assert page.evaluate("iosim.position") == stopped < 100


@pytest.mark.parametrize("speed", ["16", "60"])
def test_it_plays_its_last_steps_one_by_one(open_page: Open, speed: str) -> None:
    page = open_page(animate("flash2"))
    seek(page, length(page) - 4)
    page.locator("#speed").select_option(speed)
    page.locator("#play").click()
    until(page, "!iosim.playing")
    assert page.locator("#position").inner_text() == "240 / 240"


def test_speed_is_steps_a_second(open_page: Open) -> None:
    page = open_page(animate("flash2"))
    for speed, after in (("60", 15), ("240", 60), ("1000", 240)):
        page.locator("#speed").select_option(speed)
        page.evaluate("iosim.seek(0), iosim.play(), iosim.last = 0, iosim.owe(250), iosim.pause()")
        assert page.locator("#position").inner_text() == f"{after} / 240"


def test_it_steps_by_buttons_and_keys(open_page: Open) -> None:
    page = open_page(animate("flash2"))
    steps = animate("flash2").runs[0].steps
    for name, after in [("forward", 1), ("forward", 2), ("back", 1), ("end", 240), ("forward", 240), ("start", 0), ("back", 0)]:
        page.locator(f"#{name}").click()
        assert page.locator("#position").inner_text() == f"{after} / {len(steps.rows)}"
    page.locator("body").click(position={"x": 1, "y": 1})
    for key, after in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 240), ("PageUp", 225), ("Home", 0), ("PageDown", 1)]:
        page.keyboard.press(key)
        assert page.locator("#position").inner_text() == f"{after} / {len(steps.rows)}"
    page.keyboard.press("+")
    assert page.locator("#speed").input_value() == "8"
    page.keyboard.press("ArrowDown")
    assert page.locator(".chosen").input_value() == "1"
    assert page.evaluate("iosim.stages[0].step[0]") == 0


def test_an_overflow_is_told_and_no_step_has_more_than_the_peak(open_page: Open) -> None:
    plan = make_plan("standard", SMALL, 128, BLOCKS, None, {"reuse": "ideal"})
    page, counts = open_page(picture_of([plan])), plan.count()
    seek(page, length(page))
    assert page.locator(".overflow").inner_text() == f"{counts.overflow} too many"
    assert told(page).sram["peak so far"] == counts.peak_sram == 128 + counts.overflow


@pytest.mark.parametrize("beside", ["flash", Attention(n=16, d=4, causal=True)])
def test_two_runs_move_words_at_one_pace_to_their_exact_counts(open_page: Open, beside: str | Attention) -> None:
    page = open_page(animate("flash2", SMALL, beside=beside, sram=SRAM), width=1600)
    other = simulate(*(("flash2", beside) if isinstance(beside, Attention) else (beside, SMALL)), sram=SRAM, blocks=BLOCKS)
    both = [simulate("flash2", SMALL, sram=SRAM, blocks=BLOCKS), other]
    ended = 0
    for position in range(1, length(page), 29):
        seek(page, position)
        both_told = [told(page, run) for run in (0, 1)]
        words = [sum(found.words["all"]) for found in both_told]
        assert all(found.sram["used"] <= SRAM for found in both_told)
        if all(moved < report.total for moved, report in zip(words, both, strict=True)):
            assert abs(words[0] - words[1]) <= 16
        ended += words[0] == both[0].total or words[1] == both[1].total
    assert ended
    seek(page, length(page))
    assert [told(page, run).words for run in (0, 1)] == [expected(report) for report in both]


def test_two_runs_play(open_page: Open) -> None:
    page = open_page(animate("flash2", beside="flash"))
    page.locator("#speed").select_option("1000")
    page.locator("#play").click()
    until(page, "iosim.position === iosim.length && !iosim.playing")
    for run, kernel in enumerate(("flash2", "flash")):
        assert told(page, run).words == expected(simulate(kernel, SMALL, sram=SRAM, blocks=BLOCKS))


def test_a_tile_travels_unless_motion_is_unwanted(open_page: Open) -> None:
    picture = animate("flash2")
    drawn = "document.querySelector('canvas').toDataURL()"
    page = open_page(picture)
    page.evaluate("iosim.seek(1); iosim.place(2); iosim.moving = {run: 0, since: 0, lasts: 1}")
    frames = {page.evaluate(f"iosim.draw({progress}), {drawn}") for progress in (0.1, 0.5, 0.9, 1)}
    assert len(frames) == 4
    still = open_page(picture, reduced_motion="reduce")
    assert still.evaluate("iosim.advance(), iosim.moving") is None
    assert page.evaluate("iosim.advance(), iosim.moving !== null")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone(open_page: Open, width: int) -> None:
    page = open_page(animate("flash2", beside="standard"), width=width, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("play", "forward", "scrub", "speed"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= 844


PLACES = """() => {
  const box = one => one.getBoundingClientRect(), main = document.querySelector("main"), shown = one => one.checkVisibility();
  return {
    main: [box(main).top, box(main).bottom], controls: box(document.getElementById("controls")).top,
    scrolls: main.scrollHeight - main.clientHeight,
    canvas: [...document.querySelectorAll(".stage")].map(one => box(one).bottom),
    words: [...document.querySelectorAll(".counters")].map(one => box(one).bottom),
    rows: [...document.querySelectorAll(".row")].filter(shown).map(one => box(one).bottom),
    listings: [...document.querySelectorAll(".listing")].filter(shown).map(one => box(one).bottom),
    last: Math.max(...[...document.querySelectorAll(".run")].map(one => box(one).bottom)),
    letters: parseFloat(getComputedStyle(document.querySelector(".counters td")).fontSize), wide: document.documentElement.scrollWidth,
    tall: document.documentElement.scrollHeight,
  };
}"""


@pytest.mark.parametrize("window", [(1280, 800), (1024, 768), (1366, 768), (1920, 1080)], ids=str)
@pytest.mark.parametrize("beside", [None, "flash"])
def test_it_fits_a_projector(open_page: Open, beside: str | None, window: tuple[int, int]) -> None:
    """Picture and words moved are seen without scrolling; the bar covers nothing; large is larger, and leaves out what has no room."""
    page = open_page(animate("flash2", beside=beside), *window)
    runs = 1 if beside is None else 2
    seek(page, length(page) // 2)
    letters = []
    for large in (False, True, False):
        found = page.evaluate(PLACES)
        letters.append(found["letters"])
        assert (found["wide"], found["tall"]) == window
        assert found["main"] == [0, found["controls"]]
        assert len(found["words"]) == runs
        assert max(*found["canvas"], *found["words"]) <= found["controls"]
        assert (len(found["rows"]), len(found["listings"])) == ((0, 2 - runs) if large else (runs, runs))
        if runs == 1 and window[1] >= 800:
            assert found["scrolls"] == 0
            assert all(bottom <= found["controls"] for bottom in found["rows"])
        page.evaluate("document.querySelector('main').scrollTo(0, 1e6)")
        assert page.evaluate(PLACES)["last"] <= found["controls"]
        page.evaluate("document.querySelector('main').scrollTo(0, 0)")
        page.keyboard.press("l")
    assert letters[1] > (1.1 if beside is None else 1.05) * letters[0] > 14.5
    assert letters[0] == letters[2]


def test_large_is_a_button_too_and_on_a_phone_it_is_the_short_form_of_two_runs(open_page: Open) -> None:
    page = open_page(animate("flash2", beside="flash"), width=390, height=844)
    high = []
    for pressed in ("true", "false"):
        assert page.locator("#large").get_attribute("aria-pressed") == pressed
        found = page.evaluate(PLACES)
        assert len(found["rows"]) == len(found["listings"]) == (0 if pressed == "true" else 2)
        high.append(found["scrolls"])
        page.locator("#large").click()
    assert high[0] < 1700 < high[1]
    assert page.locator("#large").get_attribute("aria-pressed") == "true"


def test_keys_and_signs_explain_the_tiles_of_pairs_and_leave_room_for_the_picture(open_page: Open) -> None:
    page = open_page(animate("flash2"), 1280, 800)
    page.locator(".help summary").click()
    told = page.locator(".help").inner_text()
    for part in ("solid once", "how often it was visited", "hatched while that is still to come", "with a cross it is never visited"):
        assert part in told
    found = page.evaluate(PLACES)
    assert found["canvas"][0] <= found["controls"]


def test_in_a_notebook_it_plays_inside_its_frame(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(animate("flash2")._repr_html_())
    frame = page.frames[1]
    until(frame, "window.iosim !== undefined")
    frame.locator("#end").click()
    assert frame.locator("#position").inner_text() == "240 / 240"
    page.close()


def test_a_trace_is_shown_without_numbers_and_its_name_does_nothing(
    open_page: Open, tmp_path: Path, sealed: Callable[[Sequence[Event]], str]
) -> None:
    path = tmp_path / "<img src=x onerror=alert(1)>.jsonl"
    path.write_text(sealed(trace("flash", SMALL, sram=SRAM, blocks=BLOCKS)), encoding="utf-8")
    page = open_page(from_trace(str(path)))
    seek(page, length(page))
    assert page.locator("h1").inner_text() == path.name
    assert told(page).words == expected(simulate("flash", SMALL, sram=SRAM, blocks=BLOCKS))
    assert not page.locator(".listing").is_visible()
    assert not page.locator(".rowview").is_visible()
