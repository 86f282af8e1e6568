"""A run too large to animate: how large, the limit, and a smaller problem that shows the same, which must itself have room."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from iosim import KERNELS, Attention, BadInput, BlockMask, animate
from iosim.attention.plan import Plan, make_plan
from iosim.cli import main
from iosim.cli.pages import trace_html
from iosim.core.masks import patterns
from iosim.show.animation import limits
from iosim.show.animation.limits import TooLarge, counted, extent, measure
from iosim.show.animation.recording import record

SMALL = Attention(n=10, nk=14, d=3, dv=2, causal=True)
PLENTY = 2**30


def plan(kernel: str, problem: Attention = SMALL, **options: str | bool) -> Plan:
    return make_plan(kernel, problem, PLENTY, (4, 3), None, options)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_number_of_events_is_known_before_the_run(kernel: str) -> None:
    made = plan(kernel)
    assert measure(made).events == sum(event.kind != "use" for event in made.trace())
    assert measure(made).words == made.count().peak_hbm


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("group", [2, 3, 4, 9])
def test_of_many_heads_three_tell_the_rest(kernel: str, group: int) -> None:
    asked = [{}, *([{"pack": True}] if "pack" in KERNELS[kernel].has else [])]
    for options in asked:
        made = plan(kernel, Attention(n=10, nk=14, d=3, heads=2 * group, kv_heads=2), **options)
        assert extent(made) == counted(made)


def test_the_limit_is_the_largest_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("flash2")
    events = sum(event.kind != "use" for event in made.trace())
    monkeypatch.setattr(limits, "MOST_EVENTS", events)
    assert len([kind for kind, *_ in record(made).steps.rows if kind != 6]) + len(record(made).steps.arrays) == events
    monkeypatch.setattr(limits, "MOST_EVENTS", events - 1)
    with pytest.raises(TooLarge, match=rf"^a run of flash2 with {events:,} events is too large to animate, the limit is {events - 1:,}; "):
        record(made)


def test_the_limit_is_what_is_told() -> None:
    assert f"{limits.MOST_EVENTS:,}" == "120,000"
    assert "120,000 events" in str(animate.__doc__)
    heads = {True: 106, False: 107}  # the last that have room, and one more
    for fits, count in heads.items():
        found = extent(make_plan("flash", Attention(n=32, d=4, heads=count, kv_heads=1), PLENTY, (4, 4), None, {}))
        assert found.fits == fits, found
        assert abs(found.events - 120_000) < 1_000


def test_the_words_of_hbm_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("standard")
    words = made.count().peak_hbm
    monkeypatch.setattr(limits, "MOST_WORDS", words)
    assert measure(made).words == words
    monkeypatch.setattr(limits, "MOST_WORDS", words - 1)
    with pytest.raises(
        TooLarge, match=rf" events over {words:,} words of HBM is too large to animate, the limits are 120,000 and {words - 1:,}; "
    ):
        measure(made)


ADVICE = re.compile(r"; add (.*) to the command, which then shows the same in a grid of ([0-9]+) by ([0-9]+) tiles(?: after: (.*))?$")
LARGE = "--n 8192"
MASKS = {
    "dense": f"{LARGE} --dtype float16",
    "causal": f"{LARGE} --causal",
    "longer keys": f"{LARGE} --nk 5000 --causal",
    "few keys": f"{LARGE} --nk 1000 --d 8 --dv 64",
    "window": f"{LARGE} --window 1000,3",
    "open window": f"{LARGE} --window=-1,500 --blocks 8x4",
    "elements": "--n 4000 --nk 4096 --mask elements.npy",
    "pattern": f"{LARGE} --blocks 4x4 --block-mask local:9+global:2",
    "grid": "--n 8192 --blocks 4x4 --block-mask grid.npy",
    "tiles of elements": "--n 4096 --blocks 4x4 --block-mask tiles.npy",
    "both": "--n 4096 --blocks 4x4 --block-mask tiles.npy --mask square.npy --causal",
    "dropout": f"{LARGE} --dropout 0.1 --causal",
    "heads": f"{LARGE} --heads 6 --kv-heads 2 --batch 3 --causal",
    "many heads": "--n 512 --heads 30000 --kv-heads 3",
}
TIGHT = {
    "a small M": f"{LARGE} --sram 1000 --d 16 --dv 5 --causal",
    "bytes": f"{LARGE} --sram 2KiB --d 16 --dtype float16",
    "the paper's blocks": f"{LARGE} --sram 500 --d 16 --blocks paper",
    "overflow": f"{LARGE} --sram 10 --blocks 4x4 --overflow record",
}
VARIANTS = {
    "first_pass": "--first-pass create", "reuse": "--reuse ideal", "softmax": "--softmax streamed", "skip": "--no-skip",
    "skip_empty": "--skip-empty", "accumulator": "--accumulator float32", "dq_pass": "--dq-pass own", "depth": "--depth one",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with masks in files."""
    path, rng = tmp_path_factory.mktemp("masks"), np.random.default_rng(0)
    np.save(path / "elements.npy", np.tril(np.ones((4000, 4096), bool)))
    np.save(path / "square.npy", np.tril(np.ones((4096, 4096), bool)))
    np.save(path / "grid.npy", rng.random((2048, 2048)) < 0.5)
    np.save(path / "tiles.npy", (rng.random((1024, 1024)) < 0.5).repeat(4, 0).repeat(4, 1))
    return path


@pytest.fixture
def told(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str]]:
    monkeypatch.chdir(folder)

    def run(line: str) -> tuple[int, str]:
        status = main(["trace", *shlex.split(line), "--html", "page.html"])
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", min(status, 1))
        return status, err.rstrip("\n")

    return run


def follow(told: Callable[[str], tuple[int, str]], line: str) -> tuple[str, tuple[int, int]]:
    """What a command is advised to be, with the files that it then needs, and the tiles that it then has."""
    status, err = told(line)
    assert status == 2, line
    assert re.search(r"with [0-9,]{4,} events (over [0-9,]+ words of HBM )?is too large to animate, the limits? (is|are) 120,000", err), err
    found = ADVICE.search(err)
    assert found is not None, err
    if found[4]:
        exec(found[4], {"numpy": np})  # what the advice says must be done first
    return f"{line} {found[1]}", (int(found[2]), int(found[3]))


def variants(kernel: str) -> list[str]:
    """The kernel with each option that it has."""
    rules = cycle([f"{LARGE} --causal", LARGE])
    asked = [f"{rule} {VARIANTS[option]}" for option, rule in zip(KERNELS[kernel].has, rules, strict=False) if option in VARIANTS]
    packed = [f"{LARGE} --heads {heads} --kv-heads 1 --pack" for heads in (3, 200)]
    return asked + packed * ("pack" in KERNELS[kernel].has)


def commands(kernel: str) -> list[str]:
    """A kernel with two of the masks, others for each kernel, and with each of its options; for some M chooses the blocks, too."""
    start, tight = list(KERNELS).index(kernel) * 2, kernel in ("flash2", "flash-backward")
    masked = [list(MASKS.values())[(start + place) % len(MASKS)] for place in range(2)]
    return [f"{kernel} {rest}" for rest in (*masked, *variants(kernel), *(TIGHT.values() if tight else ()))]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_smaller_problem_has_room_with_all_options(
    told: Callable[[str], tuple[int, str]], monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    planned: list[Plan] = []

    def measured(plans: list[Plan]) -> object:
        planned[:] = plans
        for one in plans:
            measure(one, [other for other in plans if other is not one])
            one.count()  # SRAM included
        return animate("flash2")

    monkeypatch.setattr(trace_html, "picture", measured)
    for line in commands(kernel):
        command, tiles = follow(told, line)
        large = planned[0]
        assert told(command)[0] == 0, command
        (small,) = planned
        assert small.options == large.options, command
        assert (small.problem.dtype, small.problem.causal, small.problem.dropout) == (
            large.problem.dtype, large.problem.causal, large.problem.dropout,
        )  # fmt: skip
        masks = [(problem.window is None, problem.mask is None, problem.block_mask is None) for problem in (small.problem, large.problem)]
        assert masks[0] == masks[1], command
        rows = small.problem.n * (small.problem.group if small.options.pack else 1)
        wide = KERNELS[kernel].wide(small.options)
        assert tiles == (-(-rows // small.blocks.rows), 1 if wide else -(-small.problem.nk // small.blocks.cols)), command
        assert 2 < tiles[0] <= 16, command
        if "--overflow record" not in line:
            assert small.overflow in (large.overflow, "error"), command


ADVISED = {
    "standard --n 8192 --sram 2000 --d 16": "--n 32 --d 4 --blocks 4x4 --softmax streamed",  # as it was chosen for the large one
    "standard --n 8192 --sram 2000 --d 16 --softmax streamed": "--n 32 --d 4 --blocks 4x4",
    "flash --n 4096 --blocks 4x4 --block-mask tiles.npy": "numpy.save('small-grid.npy', numpy.load('tiles.npy')[::512, ::512][:8, :8])",
    "flash --n 8192 --blocks 4x4 --block-mask grid.npy": "numpy.save('small-grid.npy', numpy.load('grid.npy')[::256, ::256][:8, :8])",
    "flash --n 4000 --nk 4096 --mask elements.npy": "numpy.save('small.npy', numpy.load('elements.npy')[::125, ::128][:32, :32])",
    "flash2 --n 8192 --window 1000,3 --blocks 8x4": "--window=16,3",
}


@pytest.mark.parametrize("line", ADVISED)
def test_the_advice_is_what_it_should_be(told: Callable[[str], tuple[int, str]], line: str) -> None:
    status, err = told(line)
    assert status == 2
    assert re.search(rf"(?<!\S){re.escape(ADVISED[line])}( to the command|$)", err), err


ROTATING = cycle(MASKS.values())


@pytest.mark.parametrize(("kernel", "mask"), [(kernel, next(ROTATING)) for kernel in KERNELS])
def test_what_is_advised_makes_a_page(told: Callable[[str], tuple[int, str]], kernel: str, mask: str) -> None:
    command, _ = follow(told, f"{kernel} {mask}")
    assert told(command) == (0, "")
    assert Path("page.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "line", ["flash --beside flash2 --n 8192", "flash2 --causal --beside dense --n 8192 --sram 5000", "flash --n 9000 --beside standard"]
)
def test_of_two_runs_both_have_room_in_the_smaller_problem(told: Callable[[str], tuple[int, str]], line: str) -> None:
    command, _ = follow(told, line)
    assert told(command) == (0, "")


def test_a_window_reaches_over_as_many_tiles() -> None:
    found = plan("flash2", Attention(n=4096, d=4, window=(8, 0)))
    with pytest.raises(TooLarge) as told:
        measure(replace(found, blocks=replace(found.blocks, rows=1, cols=2)))
    assert told.value.instead is not None
    assert told.value.instead.problem.window == (8, 0)
    with pytest.raises(TooLarge) as told:
        measure(plan("flash2", Attention(n=4096, d=4, window=(30, -1))))
    assert told.value.instead is not None
    assert told.value.instead.problem.window == (12, -1)  # half of the 24 keys; 30 of them are 10 tiles


MANY = np.tril(np.ones((2000, 2000), bool))
CALLS = {
    "dense": (Attention(n=4096, d=8), {}),
    "longer keys": (Attention(n=2048, nk=4096, d=8, dv=3, dtype="float64", scale=0.5, causal=True), {}),
    "window": (Attention(n=40960, d=8, window=(64, 0)), {}),
    "elements": (Attention(n=2000, d=8, mask=MANY), {}),
    "tiles": (Attention(n=2000, d=8, causal=True, block_mask=patterns.dense(2000, 2000, 4, 4)), {}),
    "heads": (Attention(n=512, d=8, heads=3000, kv_heads=1), {}),
    "a small M": (Attention(n=4096, d=8), {"sram": 200, "blocks": "fit"}),
    "the paper's blocks": (Attention(n=4096, d=8), {"sram": 90, "blocks": "paper"}),
}


@pytest.mark.parametrize("kernel", ["standard", "flash", "block-sparse", "flash2-backward"])
@pytest.mark.parametrize("call", CALLS)
def test_in_python_the_advice_is_a_problem(kernel: str, call: str) -> None:
    problem, given = CALLS[call]
    with pytest.raises(BadInput) as told:
        animate(kernel, problem, **given)  # type: ignore[arg-type]  # of several types
    found = re.search(r"; (Attention\(.*\)) with (blocks=\([0-9]+, [0-9]+\)(?:, softmax='streamed')?) shows the same in", str(told.value))
    assert found is not None, told.value
    names = {"Attention": Attention, "BlockMask": BlockMask, "mask": problem.mask, "block_mask": problem.block_mask}
    smaller, more = eval(found[1], names), eval(f"dict({found[2]})")
    assert (smaller.dtype, smaller.scale, smaller.causal) == (problem.dtype, problem.scale, problem.causal)
    assert animate(kernel, smaller, **{**given, **more}).runs[0].steps.rows  # which is refused, unless it has room
