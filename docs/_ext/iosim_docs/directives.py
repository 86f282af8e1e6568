"""The directives: each asks another module of this package for Markdown, and has it parsed where it stands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from iosim import animate
from iosim.show.animation.moving import SIDE, SMALL
from iosim.show.plots import write
from iosim_docs import commands, golden, kernels, notebooks

LEAD = (
    f"The counted run of {SMALL.n} queries and keys with d = {SMALL.d}, in blocks of {SIDE[0]} x {SIDE[1]}: "
    "what you see are its events, and its numbers are its counts."
)


class Made(SphinxDirective):
    """A directive of one argument that stands for Markdown; ``uses`` are the files whose change makes the page anew."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {}

    def markdown(self, name: str) -> str:
        """What to parse."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Parse it in place."""
        found: list[nodes.Node] = self.parse_text_to_nodes(self.markdown(self.arguments[0]))
        return found

    def included(self, path: Path, language: str, *more: str) -> str:
        """A file shown as it is."""
        place = os.path.relpath(path, Path(self.env.doc2path(self.env.docname)).parent)
        return "\n".join([f"```{{literalinclude}} {place}", f":language: {language}", *more, "```"])


def made_by(function: Callable[[str], str]) -> type[Made]:
    """The directive of a function."""

    class Of(Made):
        def markdown(self, name: str) -> str:
            return function(name)

    return Of


class Listing(Made):
    """The function of a kernel and those that it calls, from their files."""

    def markdown(self, name: str) -> str:
        """One block a file, under its name."""
        return "\n\n".join(self.shown(path, spans) for path, spans in kernels.sources(name).items())

    def shown(self, path: Path, spans: list[tuple[int, int]]) -> str:
        """Some functions of a file, with the two empty lines above each but the first."""
        lines = ",".join(f"{first - (2 if place else 0)}-{last}" for place, (first, last) in enumerate(spans))
        return self.included(path, "python", f":lines: {lines}", f":caption: {path.relative_to(kernels.ROOT).as_posix()}")


class Example(Made):
    """A script and what it prints, or a command and what it prints."""

    def markdown(self, name: str) -> str:
        """Every example of that name."""
        places = [golden.EXAMPLES / f"{name}{suffix}" for suffix in (".py", ".out", ".console")]
        languages = ("python", "text", "console")
        found = [self.included(place, language) for place, language in zip(places, languages, strict=True) if place.exists()]
        if not found:
            raise self.error(f"there is no example {name!r}")
        return "\n\n".join(found)


class Drawn(Made):
    """A script that draws, and its figure, made now; the content says what it shows, and ``alone`` leaves the script out."""

    has_content = True
    option_spec: ClassVar[OptionSpec] = {"alone": directives.flag}

    def markdown(self, name: str) -> str:
        """The figure with its alternative text, and the script below it."""
        example = golden.EXAMPLES / "figures" / f"{name}.py"
        place = Path(self.env.doctreedir) / "figures" / f"{name}.svg"
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            write(golden.drawn(example), file, "svg")
        shown = os.path.relpath(place, Path(self.env.doc2path(self.env.docname)).parent)
        says = " ".join(self.content)
        script = [] if "alone" in self.options else ["", self.included(example, "python")]
        image = ["````{container} drawn", f"```{{image}} {shown}", f":alt: {says}", "```", "````"]
        return "\n".join([*image, "", f"*{says}*", *script])


class Picture(SphinxDirective):
    """The moving picture of a kernel, ours or one of an example, recorded now, in a page of its own that this one frames."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the page beside the others, and frame it."""
        asked = self.arguments[0]
        name = asked.rpartition(":")[2]
        folder = Path(self.env.app.outdir) / "_static" / "moving"
        folder.mkdir(parents=True, exist_ok=True)
        animate(asked if name == asked else str(golden.EXAMPLES / asked)).save(folder / f"{name}.html")
        place = "../" * self.env.docname.count("/") + f"_static/moving/{name}.html"
        frame = f'<iframe class="moving" title="{name}, event by event" loading="lazy" src="{place}"></iframe>'
        link = f'<p><a href="{place}">{name} on a page of its own</a></p>'
        return [*self.parse_text_to_nodes(LEAD), nodes.raw("", frame + link, format="html")]


class Notebooks(SphinxDirective):
    """The notebooks, with the question of each."""

    def run(self) -> list[nodes.Node]:
        """A list of them."""
        found: list[nodes.Node] = self.parse_text_to_nodes(notebooks.listed(kernels.ROOT / "notebooks"))
        return found


DIRECTIVES: dict[str, type[SphinxDirective]] = {
    "kernel": made_by(kernels.facts),
    "kernels": made_by(kernels.listed),
    "listing": Listing,
    "words": made_by(kernels.words),
    "variants": made_by(kernels.variants),
    "usage": made_by(commands.usage),
    "example": Example,
    "drawn": Drawn,
    "picture": Picture,
    "notebooks": Notebooks,
}
