"""nbconvert exporters: an executed notebook becomes a typeset PDF, a page, or LaTeX.

    jupyter nbconvert --to replication_pdf paper/report.ipynb

nbconvert imports this file whenever it looks for exporters, so it imports next to nothing.
"""

from pathlib import Path

from nbconvert.exporters import Exporter
from nbformat import NotebookNode


class _ReportExporter(Exporter):
    """What is left to a subclass is the name of its format."""

    def from_notebook_node(self, nb: NotebookNode, resources=None, **kw) -> tuple:
        from replication.report import pandoc

        nb, resources = super().from_notebook_node(nb, resources, **kw)
        source = Path(resources.get("metadata", {}).get("path") or ".")
        if self.file_extension == ".html" and "report" not in nb.metadata:
            from replication.report.pages import page_of

            return page_of(nb, source.resolve()), resources
        beside = resources.get("output_files_dir", "report_files")
        text, files = pandoc.FORMATS[self.file_extension](pandoc.read(nb, source), beside)
        resources.setdefault("outputs", {}).update(files)
        return text, resources


class PDFExporter(_ReportExporter):
    """A4 pages by Typst: the same bytes every time, tagged for screen readers (PDF/UA-1)."""

    export_from_notebook = "Report (PDF)"
    output_mimetype = "application/pdf"
    file_extension = ".pdf"


class HTMLExporter(_ReportExporter):
    """One file that needs no network: mathematics as MathML, figures inside. Of the report its
    text; of any other notebook its code and outputs as well."""

    export_from_notebook = "Report (HTML)"
    output_mimetype = "text/html"
    file_extension = ".html"


class LatexExporter(_ReportExporter):
    """A text for XeLaTeX or LuaLaTeX, with its figures in a folder beside it."""

    export_from_notebook = "Report (LaTeX)"
    output_mimetype = "text/latex"
    file_extension = ".tex"
