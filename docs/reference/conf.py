"""Sphinx: the documents of the repository, laid out as they are there, and the reference beside them."""

import os
import pathlib
import re
import sys

import heed
from sphinx.pycode import ModuleAnalyzer

project = "heed"
author = "the heed developers"
release = heed.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.viewcode", "myst_parser", "breathe"]
root_doc = "index"
source_suffix = {".md": "markdown"}
# Documents link into folders that lie beside them; pages there are not pages of this site.
exclude_patterns = ["inference/python/README.md"]

breathe_projects = {"heed": os.environ["HEED_DOCS_XML"]}
breathe_default_project = "heed"
breathe_default_members = ("members",)
breathe_show_include = False

# Links to headings are written as GitHub makes them.
myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
# Not as the source writes them: the keywords of a TypedDict stand in signatures whose source has **options.
autodoc_preserve_defaults = False
python_use_unqualified_type_names = True
add_module_names = False

# Every header says again that it is in the namespace; overloads may differ in their constraints alone.
suppress_warnings = ["duplicate_declaration.cpp"]

# Blocks that do not say what they are hold formulas and commands.
highlight_language = "none"

html_theme = "furo"
html_title = f"heed {release}"
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
html_static_path = ["reference.css"]
html_css_files = ["reference.css"]
# furo's own sidebar, and below its tree the way to the other versions, whose folders lie beside this one's (versions.py).
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html", "versions.html",
        "sidebar/scroll-end.html", "sidebar/variant-selector.html",
    ]
}


def _leave_private_members_out(xml):
    """Doxygen's XML has them whatever its options say, and Breathe shows what a file has."""
    for path in [*xml.glob("class*.xml"), *xml.glob("struct*.xml")]:
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'<sectiondef kind="private.*?</sectiondef>', "", text, flags=re.DOTALL), encoding="utf-8")


def _name_headers_by_path(xml):
    """Doxygen lists files by their last name, which heed/attention.h and heed/nn/attention.h share; Breathe looks there."""

    def named(match):
        described = (xml / f"{match[1]}.xml").read_text(encoding="utf-8")
        path = re.findall(r'<location file="([^"]+)"', described)[-1]
        return f'<compound refid="{match[1]}" kind="file"><name>{path}</name>'

    index = xml / "index.xml"
    text = re.sub(r'<compound refid="(\w+)" kind="file"><name>[^<]*</name>', named, index.read_text(encoding="utf-8"))
    index.write_text(text, encoding="utf-8")


def _escaped(text):
    return re.sub(r"([*`|\\]|_\b)", r"\\\1", text)


def _columns(lines):
    """Names and what they mean, side by side, as a list of definitions; None for lines that are something else."""
    starts = [match.end() for line in lines if (match := re.match(r"\S.*?  +(?=\S)", line))]
    if not starts or lines[0].startswith(" "):
        return None
    start, names, found = min(starts), "", []
    for line in lines:
        names += line[:start].strip()
        if not line[start:]:  # several names that share what stands beside the last one
            names += " "
            continue
        if names:
            found.append(f"**{_escaped(names)}**")
        found.append(f"   {_escaped(line[start:])}")
        names = ""
    return found


def _as_written(app, what, name, obj, options, lines):
    """Docstrings are plain text: prose flows, columns become lists, and what is indented is shown as it is."""
    shown = []
    for paragraph in re.split(r"\n{2,}", "\n".join(lines).rstrip()):
        written = paragraph.splitlines()
        if columns := _columns(written):
            shown += columns
        elif any(line.startswith(" ") for line in written):
            shown += [".. code-block:: text", "", *(f"   {line}" for line in written)]
        else:
            shown += _escaped(paragraph).splitlines()
        shown.append("")
    lines[:] = shown


def _forget_overloads(app):
    """The signature with all options says more to readers than its overloads, which are for type checkers."""
    for module in [name for name in sys.modules if name.partition(".")[0] == "heed"]:
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        analyzer.overloads.clear()


def setup(app):
    app.connect("builder-inited", _forget_overloads)
    app.connect("autodoc-process-docstring", _as_written)
    return {"parallel_read_safe": True}


_leave_private_members_out(pathlib.Path(os.environ["HEED_DOCS_XML"]))
_name_headers_by_path(pathlib.Path(os.environ["HEED_DOCS_XML"]))
