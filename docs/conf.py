"""Sphinx configuration. `make docs` runs the examples of every page, then builds the pages; a warning is an error."""

import doctest
import sys
from pathlib import Path

import latentgraph

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "latentgraph"
author = "The latentgraph developers"
release = latentgraph.__version__
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Examples in the pages are {doctest} and {testcode} blocks and are run here. Those in docstrings are run by pytest.
doctest_test_doctest_blocks = ""
doctest_global_setup = "import torch; torch.set_num_threads(1)"  # small examples; other work may use the cores
doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "code"
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"latentgraph {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
