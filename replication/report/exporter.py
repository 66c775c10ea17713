"""nbconvert exporters: an executed notebook becomes a typeset PDF, a page, or LaTeX.

    jupyter nbconvert --execute --to replication_pdf paper/report.ipynb

nbconvert imports this file whenever it looks for exporters, so it imports nothing slow.
"""

from pathlib import Path

from nbconvert.exporters import Exporter
from nbformat import NotebookNode

from replication.report import pandoc
from replication.report.pages import page_of


class _ReportExporter(Exporter):
    """What is left to a subclass is its format, and what is written in it."""

    def from_notebook_node(self, nb: NotebookNode, resources=None, **kw) -> tuple:
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        folder = Path(resources.get("metadata", {}).get("path") or ".")
        return self.written(nb, folder, resources), resources


class PDFExporter(_ReportExporter):
    """A4 pages by Typst: the same bytes every time, tagged for screen readers (PDF/UA-1)."""

    export_from_notebook = "Report (PDF)"
    output_mimetype = "application/pdf"
    file_extension = ".pdf"

    def written(self, nb: NotebookNode, folder: Path, resources: dict) -> bytes:
        return pandoc.pdf(pandoc.read(nb, folder))


class HTMLExporter(_ReportExporter):
    """One file that needs no network: mathematics as MathML, figures inside. Of the report its
    text; of any other notebook its code and outputs as well."""

    export_from_notebook = "Report (HTML)"
    output_mimetype = "text/html"
    file_extension = ".html"

    def written(self, nb: NotebookNode, folder: Path, resources: dict) -> str:
        is_report = "report" in nb.metadata
        return pandoc.html(pandoc.read(nb, folder)) if is_report else page_of(nb, folder.resolve())


class LatexExporter(_ReportExporter):
    """A text for XeLaTeX or LuaLaTeX, with its figures in a folder beside it."""

    export_from_notebook = "Report (LaTeX)"
    output_mimetype = "text/latex"
    file_extension = ".tex"

    def written(self, nb: NotebookNode, folder: Path, resources: dict) -> str:
        beside = resources.get("output_files_dir", "report_files")
        text, figures = pandoc.latex(pandoc.read(nb, folder), beside)
        resources.setdefault("outputs", {}).update(figures)
        return text
