"""An executed notebook as a page that stands alone: mathematics as MathML, figures inside, code
that only prepares folded away, links that work from where the page lies. It loads nothing.

An index leads to all pages of a folder.
"""

import html
import json
import os
import re
from pathlib import Path

from replication.report import pandoc
from replication.store import write_whole
from replication.workflow.notebooks import NOTEBOOKS

HEADING = re.compile(r"^#+ +(.+)$", re.M)
MARKS = re.compile(
    r"(?s)(```|~~~).*?\1|(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\2(?!`)"
    r"|(?<=\]\()(?!\w+:|#)(?P<link>[^)\s]+)(?=\))|\\tag\{(?P<tag>.+?)\}"
)
"""In Markdown: code, which stays as it is; a link to a file; the number of an equation."""
FOLDED = ("source_hidden", "parameters")
SHOWN = ("text/html", "image/png", "text/markdown", "text/plain")
"""The forms of an output, the best first."""
LIVE = "application/vnd.jupyter.widget-view+json"
"""Something that moves in JupyterLab, such as a progress bar: its text alone is stale on a page."""


def write(notebook: Path) -> Path:
    """The page beside an executed notebook."""
    page = notebook.with_suffix(".html")
    write_whole(page, page_of(json.loads(notebook.read_text("utf-8")), page.parent).encode())
    return page


def page_of(book: dict, folder: Path) -> str:
    """The page of a notebook, to lie in ``folder``."""
    texts, title, heading = [], "", ""
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            headings = HEADING.findall(source)
            if not title and headings:
                title, source = headings[0], HEADING.sub("", source, count=1)
            heading = (headings or [heading])[-1]
            texts.append(_prose(source, folder))
        else:
            texts.append(_code(cell, source))
        texts += [_output(output, heading, folder) for output in cell.get("outputs", ())]
    return pandoc.page("\n\n".join(texts), title or "Notebook")


def _prose(text: str, folder: Path) -> str:
    def mended(found: re.Match) -> str:
        if found["link"]:
            return _target(found["link"], folder)
        return rf"\qquad\text{{({found['tag']})}}" if found["tag"] else found[0]

    return MARKS.sub(mended, text)


def _code(cell: dict, source: str) -> str:
    """Python as it stands; what only prepares is folded."""
    if not source.strip():
        return ""
    facts = (*cell["metadata"].get("jupyter", {}), *cell["metadata"].get("tags", ()))
    text = f"~~~~~~ python\n{source}\n~~~~~~"
    if not set(FOLDED) & set(facts) and not re.match(r"%|import |from ", source):
        return text
    return _raw("<details><summary>Code</summary>") + f"\n\n{text}\n\n" + _raw("</details>")


def _output(output: dict, heading: str, folder: Path) -> str:
    """The best form of an output; a figure's alternative text names where it stands."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()
            if kind in SHOWN}  # fmt: skip
    kind = next((kind for kind in SHOWN if kind in data), "")
    if kind == "text/markdown":
        return _prose(data[kind], folder)
    if kind == "text/html":
        return _raw(f'<div class="wide">{data[kind]}</div>')
    if kind == "image/png":
        found = output.get("metadata", {}).get("report", {}).get("alt")
        words = html.escape(re.sub(r"[*`$\\]", "", found or f"Figure of the section {heading}"))
        content = data[kind].replace("\n", "")
        return _raw(f'<p><img alt="{words}" src="data:{kind};base64,{content}"></p>')
    if LIVE in output.get("data", {}):
        return ""
    text = data.get(kind) or "".join(output.get("text", output.get("traceback", "")))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")
    return _raw(f"<pre>{html.escape(plain)}</pre>") if plain else ""


def _raw(text: str) -> str:
    return f"~~~~~~ {{=html}}\n{text}\n~~~~~~"


def _target(link: str, folder: Path) -> str:
    """A link from notebooks/ as it is from the page: to another's page, or to a file."""
    path, mark, place = link.partition("#")
    if "/" not in path and path.endswith(".ipynb"):
        return f"{path.removesuffix('.ipynb')}.html{mark}{place}"
    return Path(os.path.relpath(NOTEBOOKS / path, folder)).as_posix() + mark + place


def write_index(folder: Path, title: str, more: str = "") -> Path:
    """A page that links the report and all others of the folder, and shows ``more`` below."""
    path, lines = folder / "index.html", []
    for page in sorted(set(folder.glob("*.html")) - {path}, key=lambda p: (p.stem != "report", p)):
        number = re.match(r"\d*", page.stem)[0]
        found = re.search(r"<title>(.*?)</title>", page.read_text("utf-8"), re.S)
        beside = page.with_suffix(".pdf")
        also = f" ([PDF]({beside.name}))" if beside.exists() else ""
        name = html.unescape(found[1]) if found else page.stem
        lines.append(f"- {number} [{name}]({page.name}){also}")
    write_whole(path, pandoc.page("\n".join([*lines, "", more]), title).encode())
    return path
