"""The site made of the documentation: `make docs`.

Its sources are the Markdown files as they are, in docs/ and at the root, so that they read the same in the repository.
The lists of the pages of contents are also the navigation.
"""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
project = "Paired namespaces"
author = "the contributors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
include_patterns = ["*.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "node_modules", "docs/site"]
root_doc = "docs/index"

default_role = "code"
nitpicky = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False

CONTENTS = ("docs/index", "docs/design/index")
"""Pages whose lists are the navigation of the site."""
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
SECTION_START = re.compile(r"^## ", re.MULTILINE)
PAGE = re.compile(r"\]\(([\w./-]+\.(?:md|rst))\)")
TABLE = "\n```{{toctree}}\n:hidden:\n:caption: {}\n\n{}\n```\n"
ENTRANCE = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>Documentation</title>'


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """A hidden table of contents for each section of a page of contents: the pages that it links."""
    if name not in CONTENTS:
        return
    titles, texts = ["Contents", *SECTION.findall(source[0])], SECTION_START.split(source[0])
    tables = [(title, dict.fromkeys(PAGE.findall(text))) for title, text in zip(titles, texts, strict=True)]
    source[0] += "".join(TABLE.format(title, "\n".join(pages)) for title, pages in tables if pages)


def add_pictures(app: Sphinx, problem: Exception | None) -> None:
    """Pictures that pages choose by theme are HTML, which Sphinx passes on without looking for files."""
    if problem is None and app.builder.format == "html":
        shutil.copytree(ROOT / "docs" / "images", app.outdir / "docs" / "images", dirs_exist_ok=True)
        (app.outdir / "index.html").write_text(ENTRANCE, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_pictures)
    return {"parallel_read_safe": True}
