"""The event stream of a run, tile by tile, as objects or as JSON lines."""

from __future__ import annotations

from iosim.attention.catalogue import Named
from iosim.attention.plan import BlockChoice, make_plan
from iosim.core.events import Event
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.units import Capacity

VERSION = 2
"""Of the JSON lines, told in the first. Version 1 was the bare events, in which nobody saw that lines were missing."""


def trace(
    name: Named, problem: Attention, *, sram: Capacity | int | str = "100KiB", blocks: BlockChoice = "fit", **options: Value | None
) -> list[Event]:
    """Every event of one head of ``name`` on ``problem``, in order, without numbers; options as for :func:`iosim.simulate`.

    >>> [event.kind for event in trace("flash2", Attention(n=2, d=1), sram=64, blocks=(2, 2))][:7]
    ['input', 'input', 'input', 'output', 'output', 'begin', 'load']
    """
    return make_plan(name, problem, sram, blocks, None, options).trace()


def line(event: Event, **more: object) -> str:
    """An event as one line of JSON, with ``more`` fields after its own."""
    import json

    return json.dumps({**event.record(), **more}, separators=(",", ":"))


class Seal:
    """Makes lines that belong together: each ends in a ``check`` of its own text and of all lines before it.

    The first line tells the ``version``, the last one that it is the ``last``. So a line that was dropped, repeated, moved or changed is
    found where it stands, and a trace that was cut short anywhere does not end as one. ``check`` is a CRC-32 in hexadecimal.

    >>> lines = Seal()
    >>> lines.line(Event("end", "tile", (), 0, 0, 1, 0), last=True)
    '{"kind":"end","name":"tile","box":[],"words":0,"itemsize":0,"times":1,"sram":0,"version":2,"last":true,"check":"fe56e503"}'
    """

    def __init__(self) -> None:
        self.sum = 0
        self.marks: dict[str, object] = {"version": VERSION}

    @property
    def check(self) -> str:
        """That of the lines so far."""
        return f"{self.sum:08x}"

    def line(self, event: Event, *, last: bool = False) -> str:
        """The next line, without its end."""
        from zlib import crc32

        text = line(event, **self.marks, **({"last": True} if last else {}))
        self.sum, self.marks = crc32(text.encode(), self.sum), {}
        return f'{text[:-1]},"check":"{self.check}"}}'
