"""The event stream of a run, tile by tile, as objects or as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from iosim.events import Event
from iosim.plan import BlockChoice, make_plan
from iosim.specs import Attention
from iosim.units import Capacity


def trace(
    name: str, problem: Attention, *, sram: Capacity | int | str = "100KiB", blocks: BlockChoice = "fit", **options: str | bool | None
) -> list[Event]:
    """Every event of one head of ``name`` on ``problem``, in order, without numbers; options as for :func:`iosim.simulate`.

    >>> [event.kind for event in trace("flash2", Attention(n=2, d=1), sram=64, blocks=(2, 2))][:7]
    ['input', 'input', 'input', 'output', 'output', 'begin', 'load']
    """
    return make_plan(name, problem, sram, blocks, None, options).trace()


def line(event: Event) -> str:
    """An event as one line of JSON."""
    import json

    return json.dumps(event.record(), separators=(",", ":"))


def write_lines(events: list[Event], out: TextIO | Callable[[str], object]) -> None:
    """Write events as JSON lines to a file, or pass each line to a function."""
    write = out if callable(out) else out.write
    for event in events:
        write(line(event) + "\n")
