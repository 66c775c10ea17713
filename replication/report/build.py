"""Execute the report's notebook and set it as PDF and as a page."""

from pathlib import Path

from replication import notebooks
from replication.report import front
from replication.report.exporter import HTMLExporter, PDFExporter
from replication.report.manuscript import PAPER
from replication.results import write_whole

NOTEBOOK = PAPER / "report.ipynb"


def build(profile: str, out: Path = PAPER) -> list[Path]:
    """The report of one profile's results as PDF and as a page, in build/profile and in ``out``.

    Nothing is written before both are made. That of the reference run renews the README's answer.
    """
    folder = notebooks.BUILD / profile
    executed = notebooks.run(NOTEBOOK, {"profile": profile}, folder / NOTEBOOK.name)
    pdf, _ = PDFExporter().from_filename(str(executed))
    page, _ = HTMLExporter().from_filename(str(executed))
    contents = {"report.pdf": pdf, "report.html": page.encode()}
    for place in (folder, out):
        for name, content in contents.items():
            write_whole(place / name, content)
    if (profile, out) == ("reference", PAPER):
        front.refresh()
    return [out / name for name in contents]
