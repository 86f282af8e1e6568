"""Docstrings on the site: a name means the one thing of that name that is documented, a bar means itself, and Args are a list."""

from __future__ import annotations

import builtins
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.nodes import make_refnode

LITERAL = re.compile(r"(``.*?``)")


def find(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement) -> nodes.Node | None:
    """The reference, if exactly one documented object has the last part of its name."""
    if node.get("refdomain") != "py" or str(node.get("reftarget", "")).partition(".")[0] not in ("iosim", node.get("reftarget")):
        return None
    last = str(node["reftarget"]).rpartition(".")[2]
    places = {
        (entry.docname, entry.node_id): name
        for name, entry in env.domains.python_domain.objects.items()
        if name.rpartition(".")[2] == last and entry.objtype not in ("module", "method", "attribute", "property")
    }
    if len(places) != 1:
        return None
    [(document, anchor)] = places
    return make_refnode(app.builder, str(node["refdoc"]), document, anchor, content, places[document, anchor])


def plain_bars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Escape the bars of absolute values, which would name substitutions; there are none in our docstrings."""
    parts = [LITERAL.split(line) for line in lines]
    lines[:] = ["".join(part if part.startswith("``") else part.replace("|", "\\|") for part in line) for line in parts]


def arguments(app: Sphinx, what: Any, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Typeset a block of Args; all else stays as it is: a colon in the line of a property would name a type to napoleon."""
    if "Args:" in lines:
        lines[:] = GoogleDocstring(lines, what=what, name=name).lines()


def no_builtins(app: Sphinx, tree: nodes.document) -> None:
    """Take away references to Python's own types, which a property of the same name (``bytes``) would answer."""
    for node in list(tree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, str(node["reftarget"])):
            node.replace_self(node.children)
