"""What to add to a command whose run is too large to animate."""

from __future__ import annotations

import numpy as np

from iosim.cli.options import Given
from iosim.show.animation.smaller import Smaller

SMALL = "small.npy"
SMALL_GRID = "small-grid.npy"


def advice(instead: Smaller, given: Given) -> str:
    """The options that make the problem smaller, and how to make the files that they name."""
    files = [*_mask(instead, given), *_grid(instead, given)]
    asked = " ".join([*_sizes(instead, given), *(f"{option} {name}" for option, name, _ in files)])
    made = f" after: {'; '.join(_save(name, part) for _, name, part in files)}" if files else ""
    return f"add {asked} to the command, which then {instead.shown}{made}"


def _sizes(instead: Smaller, given: Given) -> list[str]:
    problem, large, blocks = instead.problem, instead.large.problem, instead.blocks
    window = problem.window or (0, 0)
    optional = {
        f"--nk {problem.nk}": given.get("nk") is not None or problem.nk != problem.n,
        f"--dv {problem.dv}": given.get("dv") is not None or problem.dv != problem.d,
        f"--window={window[0]},{window[1]}": problem.window is not None and problem.window != large.window,
        f"--heads {problem.heads} --kv-heads {problem.kv_heads}": problem.group != large.group,
        "--softmax streamed": instead.streamed and "softmax" not in given["variants"],
        "--overflow record": instead.over and given.get("overflow") is None,
    }
    return [f"--n {problem.n} --d {problem.d} --blocks {blocks}", *(text for text, needed in optional.items() if needed)]


def _mask(instead: Smaller, given: Given) -> list[tuple[str, str, str]]:
    path, problem = given.get("mask"), instead.problem
    return [] if path is None else [("--mask", SMALL, _part(path, instead.elements, (problem.n, problem.nk)))]


def _grid(instead: Smaller, given: Given) -> list[tuple[str, str, str]]:
    """A grid of tiles out of that in a file, or out of the elements there."""
    path, large = given.get("block_mask"), instead.large
    if path is None or not path.endswith(".npy"):
        return []
    (down, across), of_elements = instead.tiles, np.load(path, mmap_mode="r").shape == (large.problem.n, large.problem.nk)
    rows, cols = (large.blocks.rows, large.blocks.cols) if of_elements else (1, 1)
    return [("--block-mask", SMALL_GRID, _part(path, (down * rows, across * cols), instead.grid))]


def _part(path: str, steps: tuple[int, int], shape: tuple[int, int]) -> str:
    return f"numpy.load({path!r})[::{steps[0]}, ::{steps[1]}][:{shape[0]}, :{shape[1]}]"


def _save(name: str, part: str) -> str:
    return f"numpy.save({name!r}, {part})"
