"""How Sphinx builds the site: ``sphinx-build -n -W docs docs/_build``; it asks the network for nothing, then or when it is read."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ["MPLBACKEND"] = "Agg"

import iosim  # noqa: E402  # behind the path of the extension

project = "iosim"
author = "The iosim authors"
project_copyright = author
release = version = iosim.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinxcontrib.bibtex", "iosim_docs"]
exclude_patterns = ["_build", "_ext", "examples"]
nitpicky = True

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4
# Notebooks are run, each in a kernel of its own, whenever their page is made; what a cell must not do stops the build.
nb_execution_mode = "force"
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_output_stderr = "warn"
nb_merge_streams = True
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"
nb_ipywidgets_js = {}  # widgets would load scripts from elsewhere; iosim_docs.notebooks leaves them out
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "undoc-members": False}
# No inventory of Python's or NumPy's documentation is read, since that would need a network: what is theirs is named, not linked.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|ast|collections|concurrent|contextlib|inspect|typing|pathlib|fractions|matplotlib|os)\..*"),
    ("py:class", r"(.*\._Array|.*\.Listing|Array|Box|Deed|Int32|Kind|Path|Record|Shape|Size|Visit)"),  # aliases, which have no page
    ("py:class", r"iosim\..*\.(Asked|Exercise|Group|Ledger|Number|Quantity|Recording|Rival|Slot|Step|Steps)"),  # internal
]


def mathjax() -> Path:
    """One script that sets formulas, from the package sphinx-mathjax-offline; the rest of that package is not copied."""
    found = find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise ImportError("formulas are set by a script of sphinx-mathjax-offline; pip install -e '.[docs]'")
    return Path(found.origin).parent / "static" / "mathjax" / "tex-svg.js"


html_theme = "furo"
html_title = "iosim"
html_static_path = ["_static", str(mathjax())]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
mathjax_path = "tex-svg.js"
# The menu offers to load more from the network; the script of version 3 is what the package has.
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"scale": 0.9}}
mathjax4_config = None
