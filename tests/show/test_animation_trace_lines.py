"""What one line of a trace may claim, and what it may do after those before it: each rule at its edge."""

from __future__ import annotations

import pytest

from iosim import BadInput, trace
from iosim.attention.catalogue import KERNELS
from iosim.core.events import Box, Event, Kind
from iosim.core.problem import Attention
from iosim.show.animation import limits, trace_state
from iosim.show.animation.event_fields import event_of, printable, unique
from iosim.show.animation.trace_state import TraceState

LOAD: dict[str, object] = {
    "kind": "load", "name": "Q", "box": [[0, 4], [0, 3]], "words": 12, "itemsize": 4, "times": 1, "sram": 12,
}  # fmt: skip
BEGIN = {**LOAD, "kind": "begin", "name": "tile", "box": [[0, 4]], "words": 0, "itemsize": 0, "sram": 0}
END = {**BEGIN, "kind": "end", "box": []}
MOST = 2**53 - 1


@pytest.mark.parametrize(
    "record",
    [
        LOAD, BEGIN, END,
        {**LOAD, "sram": MOST},
        {**LOAD, "name": "Q" * 100},
        {**LOAD, "box": [[MOST - 1, MOST], [0, 1]], "words": 1},
        *({**LOAD, "itemsize": size} for size in (1, 2, 4, 8)),
    ],
)  # fmt: skip
def test_what_is_just_within_the_rules_is_an_event(record: dict[str, object]) -> None:
    assert {**event_of(record).record(), "box": record["box"]} == record


WRONG: list[tuple[dict[str, object], str]] = [
    ({**LOAD, "sram": MOST + 1}, "its sram is 9007199254740992, not a whole number from 0 to below 2^53"),
    ({**LOAD, "sram": -1}, "its sram is -1, not"),
    ({**LOAD, "box": [[MOST, MOST + 1], [0, 1]], "words": 1}, "with 0 <= start < stop"),
    ({**LOAD, "box": [[-1, 3], [0, 3]]}, "with 0 <= start < stop"),
    ({**LOAD, "box": [[0, 4], [3, 3]], "words": 0}, "with 0 <= start < stop"),
    ({**LOAD, "box": [[False, 4], [0, 3]]}, "with 0 <= start < stop"),
    ({**LOAD, "box": [[0, True], [0, 3]], "words": 3}, "with 0 <= start < stop"),
    ({**LOAD, "box": [[0, 4, 5], [0, 3]]}, "with 0 <= start < stop"),
    ({**BEGIN, "box": []}, "its box is [], not 1 of [start, stop]"),
    ({**END, "box": [[0, 4]]}, "its box is [[0, 4]], not []"),
    ({**LOAD, "name": ""}, "its name is '', not a text of 1 to 100"),
    ({**LOAD, "name": "Q" * 101}, "not a text of 1 to 100"),
    *(({**one, "itemsize": 4}, f"but to {one['kind']} a tile has") for one in (BEGIN, END)),
    *(({**one, "words": 1}, f"but to {one['kind']} a tile has") for one in (BEGIN, END)),
    *(({**one, "name": "Q"}, f"but to {one['kind']} a tile has") for one in (BEGIN, END)),
    *(({**LOAD, "itemsize": size}, f"its itemsize is {size}, not 1, 2, 4 or 8 bytes") for size in (0, 3, 16)),
    *(({**LOAD, "times": times}, f"it stands for {times} visits") for times in (0, 2)),
]


@pytest.mark.parametrize(("record", "told"), WRONG)
def test_what_is_just_outside_of_them_is_not(record: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput) as error:
        event_of(record)
    assert told in str(error.value)


@pytest.mark.parametrize("name", ["\a", "\x1b[2J", "\u202e", "two\nlines", "\ud800", "x" * 500])
def test_the_name_of_a_field_is_told_in_one_line_that_no_terminal_obeys(name: str) -> None:
    with pytest.raises(BadInput) as error:
        event_of({**LOAD, name: 1})
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 200
    with pytest.raises(BadInput) as error:
        unique([(name, 1), (name, 1)])
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 100


def test_what_is_quoted_is_cut() -> None:
    assert (printable("a" * 40), printable("a" * 41), printable(" a \n b "), printable(" \n")) == ("a" * 40, "a" * 40 + "…", "a b", "")
    assert unique([("a", 1), ("b", 1)]) == {"a": 1, "b": 1}
    with pytest.raises(BadInput, match=r"^it has the field b twice$"):
        unique([("a", 1), ("b", 1), ("b", 2)])


# what follows from what


class Story:
    """A run told event by event, which keeps count of what SRAM holds."""

    def __init__(self) -> None:
        self.run, self.sram, self.marks = TraceState(), 0, [0]
        self.tell("input", "K", (6, 2))
        self.tell("output", "O", (6, 2))

    def tell(self, kind: Kind, name: str, *spans: tuple[int, int]) -> None:
        """An event: (start, stop) for each axis, or the shape of what is declared."""
        box: Box = tuple((0, size) for size in spans[0]) if kind in ("input", "output", "scratch") else spans
        words = 1
        for start, stop in box:
            words *= stop - start
        self.sram += words if kind in ("load", "alloc") else 0
        self.run.follow(Event(kind, name, box, words, 4, 1, self.sram))

    def begin(self) -> None:
        self.marks.append(self.sram)
        self.run.follow(Event("begin", "tile", ((0, 2),), 0, 0, 1, self.sram))

    def end(self) -> None:
        self.sram = self.marks.pop()
        self.run.follow(Event("end", "tile", (), 0, 0, 1, self.sram))


WIDE = (0, 2)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_the_end_of_a_tile_takes_everything_that_was_loaded_in_it(late: int) -> None:
    story, regions = Story(), [((0, 2), WIDE), ((2, 4), WIDE), ((4, 6), WIDE)]
    story.begin()
    for region in regions:
        story.tell("load", "K", *region)
        story.tell("use", "K", *region)
    story.end()
    with pytest.raises(BadInput, match="which is not on chip"):
        story.tell("use", "K", *regions[late])


def test_the_end_of_a_tile_leaves_what_was_loaded_before_it() -> None:
    story = Story()
    story.tell("load", "K", WIDE, WIDE)
    story.begin()
    story.tell("load", "K", WIDE, WIDE)
    story.end()
    story.tell("use", "K", WIDE, WIDE)


def test_a_region_is_loaded_once_all_of_it_was_written() -> None:
    story = Story()
    story.tell("store", "O", (0, 3), WIDE)
    story.tell("load", "O", (1, 3), WIDE)
    for rows in ((0, 4), (2, 4), (3, 6), (0, 6)):
        with pytest.raises(BadInput, match=rf"^loads O\[{rows[0]}:{rows[1]}, 0:2\], of which elements were never written$"):
            story.run._touch(Event("load", "O", (rows, WIDE), 2 * (rows[1] - rows[0]), 4, 1, 0))
    assert "6 of 12 elements of O were never written" in story.run.missing()
    story.tell("init", "O", (3, 6), WIDE)
    story.tell("load", "O", (0, 6), WIDE)
    assert story.run.missing() == ""


@pytest.mark.parametrize("kind", ["input", "output", "scratch"])
def test_an_array_is_declared_whole_and_outside_of_tiles(kind: Kind) -> None:
    whole = Event(kind, "S", ((0, 4), (0, 2)), 8, 4, 1, 0)
    story = Story()
    story.begin()
    with pytest.raises(BadInput, match="outside of tiles"):
        story.run.follow(whole)
    for box in (((1, 4), (0, 2)), ((0, 4), (1, 2))):
        with pytest.raises(BadInput, match="from 0"):
            Story().run.follow(Event(kind, "S", box, 8, 4, 1, 0))
    Story().run.follow(whole)


@pytest.mark.parametrize("kind", ["store", "init"])
def test_an_input_is_never_stored_to(kind: Kind) -> None:
    with pytest.raises(BadInput, match="K is an input"):
        Story().tell(kind, "K", WIDE, WIDE)


def test_what_moves_again_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    for _ in range(5):
        story.begin()
        story.tell("load", "K", (0, 6), WIDE)  # an input is never looked at
        story.tell("store", "O", (0, 4), WIDE)
        story.tell("load", "O", (0, 4), WIDE)
        story.tell("load", "O", (1, 3), WIDE)
        story.end()
    assert story.run.looked == 8 + 4
    monkeypatch.setattr(trace_state, "MOST_LOOKED", 15)
    story.tell("load", "O", (0, 4), WIDE)
    with pytest.raises(BadInput, match=r"regions: 20 words in all, the limit is 15$"):
        story.tell("store", "O", (2, 6), WIDE)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_cut_arrays_in_few_ways(kernel: str) -> None:
    events, run = trace(kernel, Attention(n=12, d=4, causal=True, heads=3, kv_heads=1), sram=2**20, blocks=(1, 1)), TraceState()
    for event in events:
        run.follow(event)
    held = sum(event.words for event in events if event.kind in ("input", "output", "scratch"))
    assert run.looked <= 16 * held
    assert 16 * limits.MOST_WORDS < trace_state.MOST_LOOKED
    assert run.missing() == ""
