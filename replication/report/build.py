"""Execute the report's notebook and set it as PDF and as a page."""

from pathlib import Path

from replication import notebooks
from replication.report.exporter import HTMLExporter, PDFExporter
from replication.report.manuscript import PAPER
from replication.results import write_whole

NOTEBOOK = PAPER / "report.ipynb"


def build(profile: str, out: Path = PAPER) -> list[Path]:
    """The report of one profile's results: out/report.pdf and out/report.html, both or neither."""
    folder = notebooks.BUILD / profile
    executed = notebooks.run(NOTEBOOK, {"profile": profile}, folder / NOTEBOOK.name)
    pdf, _ = PDFExporter().from_filename(str(executed))
    page, _ = HTMLExporter().from_filename(str(executed))
    contents = {out / "report.pdf": pdf, out / "report.html": page.encode()}
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)
