"""The parts of the site that are made when it is built: what the catalogue, the closed forms and the command line know already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Give Sphinx the directives, the notebooks, and four rules for docstrings."""
    from iosim_docs import directives, kernels, late, names, notebooks

    late.load()
    for name, directive in directives.DIRECTIVES.items():
        app.add_directive(name, directive)
    notebooks.copy(kernels.ROOT / notebooks.FOLDER, Path(app.srcdir) / notebooks.FOLDER)
    app.connect("missing-reference", names.find)
    app.connect("doctree-read", names.no_builtins)
    app.connect("autodoc-process-docstring", names.plain_bars)
    app.connect("autodoc-process-docstring", names.arguments)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
