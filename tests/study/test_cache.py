"""Caches in place of the scratchpad: the replay against caches written plainly, and the cliff of a listing under LRU."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import Attention, BadInput, simulate, trace
from iosim.study.cache import CacheReplay, replay_cache, require_reach
from iosim_reference import ReplayError
from iosim_reference.cache import Moved, Order, Touches, _Sets, touches

Event = dict[str, object]
Side = tuple[int, int]
Step = tuple[str, str, tuple[Side, ...]]


def event(kind: str, name: str, *box: Side, **claims: object) -> Event:
    return {"kind": kind, "name": name, "box": box, "times": 1} | claims


# --- plain caches, one word after the other ---


def addresses(steps: Sequence[Step], shapes: dict[str, tuple[int, ...]]) -> Iterator[tuple[int, bool]]:
    """The address of every word that is touched, row by row, and whether it is written."""
    starts, place = {}, 0
    for name, shape in shapes.items():
        starts[name], place = place, place + math.prod(shape)
    for kind, name, box in steps:
        (top, bottom), (left, right) = box if len(box) == 2 else (*box, (0, 1))
        width = shapes[name][1] if len(shapes[name]) == 2 else 1
        for row in range(top, bottom):
            for col in range(left, right):
                yield starts[name] + row * width + col, kind in ("store", "init")


def plain_lru(words: Sequence[tuple[int, bool]], size: int) -> Moved:
    return plain_sets(words, 1, size)


def plain_sets(words: Sequence[tuple[int, bool]], sets: int, ways: int) -> Moved:
    caches: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(sets)]
    reads = writes = 0
    for address, is_write in words:
        cache = caches[address % sets]
        reads += address not in cache and not is_write
        cache[address] = cache.pop(address, False) or is_write
        if len(cache) > ways:
            _, dirty = cache.popitem(last=False)
            writes += dirty
    return Moved(reads, writes + sum(dirty for cache in caches for dirty in cache.values()))


SHAPES = {"A": (6, 4), "B": (5, 1), "C": (7,)}


@st.composite
def regions(draw: st.DrawFn) -> tuple[str, tuple[Side, ...]]:
    name = draw(st.sampled_from(sorted(SHAPES)))
    box = []
    for axis, size in enumerate(SHAPES[name]):
        whole = axis == 1 and draw(st.booleans())
        start = 0 if whole else draw(st.integers(0, size - 1))
        box.append((start, size if whole else draw(st.integers(start + 1, size))))
    return name, tuple(box)


STEPS = st.lists(st.tuples(st.sampled_from(["load", "use", "store", "init"]), regions()), max_size=25)


def made(steps: Sequence[tuple[str, tuple[str, tuple[Side, ...]]]]) -> tuple[Touches, list[tuple[int, bool]]]:
    flat = [(kind, name, box) for kind, (name, box) in steps]
    events = [event("scratch", name, *((0, size) for size in shape)) for name, shape in SHAPES.items()]
    return touches([*events, *(event(kind, name, *box) for kind, name, box in flat)]), list(addresses(flat, SHAPES))


@given(STEPS, st.integers(1, 45))
def test_one_pass_knows_fully_associative_caches_of_every_size(steps: list[tuple[str, tuple[str, tuple[Side, ...]]]], size: int) -> None:
    found, words = made(steps)
    assert found.lru().moved(size) == plain_lru(words, size)


@given(STEPS, st.integers(1, 20), st.integers(1, 4))
def test_sets_are_caches_of_their_own(steps: list[tuple[str, tuple[str, tuple[Side, ...]]]], sets: int, ways: int) -> None:
    found, words = made(steps)
    assert found.set_associative(sets * ways, ways) == plain_sets(words, sets, ways)
    assert found.set_associative(sets * ways + ways - 1, ways) == plain_sets(words, sets, ways)  # the rest makes no set


@given(STEPS)
def test_steps_are_where_the_curve_falls(steps: list[tuple[str, tuple[str, tuple[Side, ...]]]]) -> None:
    profile = made(steps)[0].lru()
    falls = [size for size in range(1, 60) if profile.moved(size - 1) != profile.moved(size)]
    assert falls == profile.steps
    assert all(profile.moved(size).words >= profile.moved(size + 1).words for size in range(60))


def test_words_of_one_region_may_have_different_distances() -> None:
    """A column is read between two reads of the whole array: its upper words were touched before words of the other column, row by row."""
    steps: list[Step] = [("load", "A", ((0, 2), (0, 2))), ("load", "A", ((0, 2), (0, 1)))]
    found = touches([event("input", "A", (0, 2), (0, 2)), *(event(kind, name, *box) for kind, name, box in steps)])
    words = list(addresses(steps, {"A": (2, 2)}))
    assert [found.lru().moved(size) for size in range(1, 6)] == [plain_lru(words, size) for size in range(1, 6)]
    assert found.lru().moved(3) == Moved(5, 0)


def test_a_store_fetches_nothing_and_goes_to_hbm_once_it_is_replaced() -> None:
    store = [event("output", "O", (0, 4)), event("input", "X", (0, 4)), event("store", "O", (0, 4)), event("store", "O", (0, 4))]
    assert touches(store).lru().moved(4) == Moved(0, 4)
    assert touches(store).lru().moved(3) == Moved(0, 8)
    apart = [*store, event("load", "X", (0, 4)), event("load", "O", (0, 4))]
    assert touches(apart).lru().moved(8) == Moved(4, 4)
    assert touches(apart).lru().moved(7) == Moved(8, 4)


# --- orders ---


TILE = [
    event("input", "K", (0, 2)),
    event("input", "Q", (0, 3)),
    event("load", "K", (0, 2)),
    event("begin", "i", (0, 1)),
    event("load", "Q", (0, 3)),
    event("use", "Q", (0, 3)),
    event("use", "K", (0, 2)),
    event("alloc", "S", (0, 1)),
    event("use", "K", (0, 2)),
    event("use", "Q", (0, 3)),
    event("end", "i"),
]


@pytest.mark.parametrize(("order", "names"), [("listing", "KQQKKQ"), ("first-use", "QKKQ")])
def test_the_listing_fetches_where_it_loads_and_late_fetches_where_a_region_is_used(order: Order, names: str) -> None:
    assert "".join(touch.name for touch in touches(TILE, order).touches) == names


def test_late_fetches_come_behind_what_is_on_chip() -> None:
    used = [event("load", "Q", (0, 3)), event("use", "Q", (0, 3)), event("use", "K", (0, 2)), event("end", "i")]
    again = [*TILE[:-1], *used]
    assert "".join(touch.name for touch in touches(again, "first-use").touches) == "QKKQKQ"
    assert "".join(touch.name for touch in touches(again).touches) == "KQQKKQQQK"


def test_the_scratchpad_is_what_loads_and_stores_move_and_hold() -> None:
    found = touches([*TILE[:5], event("load", "Q", (0, 2)), *TILE[5:], event("load", "K", (0, 1))])
    assert (found.scratchpad, found.held) == (Moved(8, 0), 7)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (event("load", "V", (0, 1)), "V was never declared; declared: K, Q"),
        (event("load", "K", (0, 3)), r"lies outside K, which has shape \(2,\)"),
        (event("load", "K", (0, 1), (0, 1)), "lies outside K"),
        (event("use", "K", (1, 1)), "start < stop"),
        (event("use", "K", (0, 1), times=2), "stands for 2 visits"),
        (event("prefetch", "K", (0, 1)), "unknown kind 'prefetch'"),
        (event("end", "i"), "none is open"),
    ],
)
def test_a_trace_that_no_cache_can_follow_is_refused(wrong: Event, message: str) -> None:
    with pytest.raises(ReplayError, match=f"^event 12.*{message}"):
        touches([*TILE, wrong])


def test_unknown_orders_and_caches_without_a_set_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown order 'random'"):
        touches(TILE, "random")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="7 words has no set of 8 ways"):
        touches(TILE).set_associative(7)


# --- the cliff (flash, N = 512, d = 32, 32 x 32 tiles) ---

N, D, B = 512, 32, 32
BLOCKS = 4 * B * D  # Q, K, V and O of one tile


def printed(late: bool) -> list[Event]:
    """FlashAttention's Algorithm 1 in events as it is printed, or with O, l and m fetched only once P V is made."""
    every, one = (0, D), (0, 1)
    state = {"m": one, "l": one, "O": every}
    turns = [(start, start + B) for start in range(0, N, B)]
    events = [event("input", name, (0, N), every) for name in "QKV"] + [
        event("output", name, (0, N), width) for name, width in state.items()
    ]
    events += [event("init", name, rows, width) for rows in turns for name, width in state.items()]
    for keys in turns:
        events += [event("begin", "j", keys), event("load", "K", keys, every), event("load", "V", keys, every)]
        for rows in turns:
            fetched = [event("load", name, rows, width) for name, width in state.items()]
            used = [event("use", name, rows, width) for name, width in state.items()]
            product = [event("use", "V", keys, every)]
            events += [event("begin", "i", rows), event("load", "Q", rows, every), *([] if late else fetched)]
            events += [event("use", "Q", rows, every), event("use", "K", keys, every)]
            events += [*product, *fetched, *used] if late else [*used, *product]
            events += [event("store", name, rows, width) for name, width in state.items()] + [event("end", "i", rows)]
        events += [event("end", "j", keys)]
    return events


def test_the_printed_order_falls_off_a_cliff_and_late_fetches_do_not() -> None:
    early, late = (touches(printed(late)) for late in (False, True))
    assert early.scratchpad == late.scratchpad == Moved(573_440, 295_936)
    assert early.lru().moved(BLOCKS * 5 // 4).reads >= 1.8 * early.scratchpad.reads
    assert early.lru().moved(int(1.35 * BLOCKS)).words <= 1.01 * early.scratchpad.words
    assert late.lru().moved(int(1.05 * BLOCKS)).words <= 1.01 * late.scratchpad.words
    assert late.lru().moved(BLOCKS).reads >= 1.4 * late.scratchpad.reads


@pytest.fixture(scope="module")
def replays() -> dict[Order, CacheReplay]:
    problem = Attention(n=N, d=D)
    orders: tuple[Order, ...] = ("listing", "first-use")
    return {order: replay_cache("flash", problem, sram=8192, blocks=(B, B), order=order) for order in orders}


def test_the_listing_falls_off_a_cliff_under_lru(replays: dict[Order, CacheReplay]) -> None:
    found = replays["listing"]
    report = simulate("flash", Attention(n=N, d=D), sram=8192, blocks=(B, B), execute=False, replay=False)
    assert (found.scratchpad.reads, found.scratchpad.writes) == (report.reads, report.writes)
    assert found.held == BLOCKS + 2 * B
    assert found.lru(BLOCKS * 5 // 4).reads >= 1.8 * report.reads
    assert found.lru(int(1.35 * BLOCKS)).words <= 1.01 * report.total


def test_fetched_at_first_use_the_cliff_is_gone_from_105_percent_on(replays: dict[Order, CacheReplay]) -> None:
    late = replays["first-use"]
    assert late.scratchpad == replays["listing"].scratchpad
    assert late.lru(int(1.05 * BLOCKS)).words == late.scratchpad.words
    assert late.lru(BLOCKS).reads >= 1.4 * late.scratchpad.reads
    assert BLOCKS < late.enough < 1.05 * BLOCKS


def test_eight_ways_smear_the_cliff(replays: dict[Order, CacheReplay]) -> None:
    early, late = replays["listing"], replays["first-use"]
    assert early.set_associative(BLOCKS).reads >= 1.8 * early.scratchpad.reads
    assert late.set_associative(int(1.05 * BLOCKS)).reads <= 1.15 * late.scratchpad.reads
    assert early.set_associative(2 * BLOCKS).words == early.scratchpad.words


def test_loads_and_stores_alone_show_no_cliff() -> None:
    events = [event for event in trace("flash", Attention(n=N, d=D), sram=8192, blocks=(B, B)) if event.kind != "use"]
    found = touches({"kind": e.kind, "name": e.name, "box": e.box, "times": e.times} for e in events)
    assert found.lru().moved(BLOCKS // 2).words == found.scratchpad.words


def test_a_cache_that_holds_everything_reads_the_inputs_once(replays: dict[Order, CacheReplay]) -> None:
    for found in replays.values():
        assert found.lru(10**6) == found.set_associative(10**6) == Moved(3 * N * D, N * (D + 2))


@pytest.mark.parametrize("kernel", ["standard", "flash2", "block-sparse", "flash-backward"])
def test_other_kernels_are_replayed_as_plainly(kernel: str) -> None:
    problem = Attention(n=20, nk=27, d=3, causal=True)
    found = replay_cache(kernel, problem, sram=2**20, blocks=(8, 5))
    events = [{"kind": e.kind, "name": e.name, "box": e.box, "times": 1} for e in trace(kernel, problem, sram=2**20, blocks=(8, 5))]
    declared = [e for e in events if e["kind"] in ("input", "output", "scratch")]
    shapes = {str(e["name"]): tuple(stop for _, stop in e["box"]) for e in declared}  # type: ignore[attr-defined]
    moves: list[Step] = [
        (str(e["kind"]), str(e["name"]), e["box"])  # type: ignore[misc]
        for e in events
        if e["kind"] in ("load", "use", "store", "init")
    ]
    words = list(addresses(moves, shapes))
    for size in (24, 40, 96, 200):
        assert found.lru(size) == plain_lru(words, size)
        assert found.set_associative(size) == plain_sets(words, size // 8, 8)
    assert found.lru(found.enough).words <= found.scratchpad.words < found.lru(found.enough - 1).words


@given(STEPS, st.integers(1, 20), st.integers(1, 4))
def test_looks_into_sets_are_counted_before_they_are_made(
    steps: list[tuple[str, tuple[str, tuple[Side, ...]]]], sets: int, ways: int
) -> None:
    found, words = made(steps)
    looks: list[int] = []
    turn = _Sets.turn

    def counted(sets: _Sets, first: int, last: int, tag: int, writes: bool) -> None:
        looks.append(last - first)
        turn(sets, first, last, tag, writes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Sets, "turn", counted)
        found.set_associative(sets * ways, ways)
    assert sum(looks) == found.lookups(sets * ways, ways) <= len(words)


def test_many_turns_of_few_sets_are_followed_quickly_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replay_cache("square-tiles-backward", Attention(n=64, d=8), sram=10**4, blocks=(4, 4))
    assert found.touches.lookups(40) == 187_136
    started = time.process_time()
    found.set_associative(40)
    assert time.process_time() - started < 2
    monkeypatch.setattr("iosim.study.cache.MOST_LOOKUPS", 187_135)
    with pytest.raises(BadInput, match=r"187,136 lookups.* about 0 s; .* at most 187,135,"):
        found.set_associative(40)
    with pytest.raises(BadInput, match="374,272 lookups"):
        require_reach([found, found], [40])


def test_what_takes_too_long_or_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="262,144 tiles takes minutes; ask for at most 20,000"):
        replay_cache("flash2", Attention(n=4096, d=4), blocks=(8, 8))
    monkeypatch.setattr("iosim.study.cache.MOST_SPANS", 100)
    with pytest.raises(BadInput, match=r"2,128 rows .* about 0 s; .* at most 100"):
        replay_cache("standard", Attention(n=64, d=4), sram=10**7, blocks=(8, 8))
    monkeypatch.setattr("iosim.study.cache.MOST_TILES", 15)
    with pytest.raises(BadInput, match="16 tiles takes minutes; ask for at most 15"):  # four query heads share K and V
        replay_cache("flash2", Attention(n=8, d=4, heads=4, kv_heads=1), blocks=(4, 4))
    with pytest.raises(BadInput, match="order must be 'listing' or 'first-use', not 'late'"):
        replay_cache("flash2", Attention(n=8, d=4), order="late")  # type: ignore[arg-type]
    found = replay_cache("flash2", Attention(n=8, d=4))
    with pytest.raises(BadInput, match="no set of 8 ways"):
        found.set_associative(7)
    with pytest.raises(BadInput, match="the size of a cache must be a whole number >= 1"):
        found.lru(0)
