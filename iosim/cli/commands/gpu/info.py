"""What of CUDA this machine has, and what to install for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from iosim.cli.gpu_options import GpuGiven, takes
from iosim.cli.options import Command
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.wrapping import wrapped
from iosim.core.tables import table
from iosim_gpu.environment import NEEDS, REMEDIES, Backend, Part, backend, parts

ABILITIES = {
    "simulate": "simulator and counters meters (iosim gpu check --meter simulator,counters)",
    "compile": "compiled PTX, emulator meter (iosim gpu check --meter emulator)",
    "assemble": "machine code, registers and spills (iosim gpu compile)",
    "run on a GPU": "the kernels on a GPU",
}
WITHOUT_GPU = ("simulate", "compile", "assemble")


@click.command("info", cls=Command)
@takes("json", "csv")
def command(**given: Unpack[GpuGiven]) -> None:
    """Say what of CUDA works here, and for what does not, what to install or do.

    Everything is tried out: what is installed and broken counts as absent, with the reason.
    """
    found, runs = parts(), backend()
    rows = [{"part": part.name, "found": part.found, "detail": part.detail, "remedy": part.remedy or None} for part in found]
    able = {what: not missing(what, found) for what in NEEDS}
    document = {"backend": runs.kind, "reason": runs.reason, "able": able, "parts": rows, "device": device_of(found)}
    deliver(given, Answer(text_of(found, runs), document, rows))


def missing(what: str, found: Sequence[Part]) -> list[str]:
    """The parts that are lacking to do ``what``."""
    return [part.name for part in found if part.name in NEEDS[what] and not part.found]


def device_of(found: Sequence[Part]) -> Record | None:
    """The numbers of the GPU; None without one."""
    return next((part.numbers for part in found if part.name == "device" and part.found), None)


def text_of(found: Sequence[Part], runs: Backend) -> str:
    """A line a part, and what can be done with them."""
    rows = [[part.name, "yes" if part.found else "no", part.detail] for part in found]
    lines = [wrapped(summary(found), width()), "", table(["part", "works", "version, or why not"], rows, width=width()), ""]
    for what, told in ABILITIES.items():
        lacking = missing(what, found)
        verdict = f"no, for want of {', '.join(lacking)}" if lacking else "yes"
        lines.append(wrapped(f"{told}: {verdict}", width()))
    lines.append(wrapped(f"kernels launched in this process run on: {runs.kind} ({runs.reason})", width()))
    absent = dict.fromkeys(part.remedy for part in found if not part.found)
    lines += ["", *(wrapped(f"{', '.join(_names(remedy, found))}: {remedy}", width()) for remedy in absent)] if absent else []
    return "\n".join(lines)


def summary(found: Sequence[Part]) -> str:
    """In one line: whether all works, all but a GPU, or what is lacking."""
    lacking = [name for what in WITHOUT_GPU for name in missing(what, found)]
    if lacking:
        return f"Not everything that needs no GPU works here, for want of {', '.join(dict.fromkeys(lacking))}; what to do is said below."
    if missing("run on a GPU", found):
        return "Everything that needs no GPU works; there is no GPU here that could be used."
    return "Everything works, on a GPU too."


def _names(remedy: str, found: Sequence[Part]) -> list[str]:
    return [part.name for part in found if not part.found and REMEDIES[part.name] == remedy]
