"""Execute the report's notebook, set it as PDF and as a page, and renew the README's answer."""

from concurrent.futures import ThreadPoolExecutor

import nbformat

from replication import claims
from replication.report import pandoc, prose
from replication.store import BUILD, PAPER, ROOT, StoreError, locked, write_whole
from replication.workflow.notebooks import execute

NOTEBOOK = PAPER / "report.ipynb"


def build(profile: str) -> None:
    """PDF and page of one profile's results, in build/profile beside the executed notebook.

    Nothing is written before all are made. The reference run's also becomes paper/report.pdf, and
    renews the README's answer; no other profile changes a file that is committed.
    """
    folder = BUILD / profile
    with locked(folder / NOTEBOOK.name, "The report", wait=True):
        book = execute(NOTEBOOK, {"profile": profile}, None)
        text = pandoc.read(book, PAPER)
        with ThreadPoolExecutor() as pool:
            pdf, page = pool.map(lambda write: write(text), (pandoc.pdf, pandoc.html))
        write_whole(folder / NOTEBOOK.name, nbformat.writes(prose.filled(book)).encode())
        write_whole(folder / "report.pdf", pdf)
        write_whole(folder / "report.html", page.encode())
    if profile == "reference":
        write_whole(PAPER / "report.pdf", pdf)
        refresh()


README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts: written by replication render -->", "<!-- end of verdicts -->"
MARKS = {"supported": "✔ supported", "partly supported": "◐ partly supported",
         "not supported": "✘ not supported", claims.NOT_RUN: "not run"}  # fmt: skip
ANSWER = pandoc.TEMPLATE / "readme.md"
"""What it says, with ``{{ … }}`` for what the run found."""


def answer() -> str:
    """Of the reference run: from which length on, a row a claim, and below it what was seen."""
    found = claims.load("reference")
    if found is None:
        raise StoreError("There are no verdicts of the reference run. Build its report first.")
    own = {"ids": [claim.id for claim in claims.claims()]}
    own |= {"table": verdicts(found["claims"], "reference run")}
    return prose.render(ANSWER.read_text("utf-8"), found | own).strip()


def verdicts(found: dict[str, dict], title: str) -> str:
    """A table in Markdown: every claim, by who made it, and its outcome in this run."""
    lines, every = [f"| | claim | {title} |", "|-|-------|---|"], claims.claims()
    for by in dict.fromkeys(claim.by for claim in every):
        lines.append(f"| | *{prose.GROUPS.get(by, by)}* | |")
        lines += [f"| {claim.id} | {claim.title} | {_outcome(found[claim.id])} |"
                  for claim in every if claim.by == by]  # fmt: skip
    return "\n".join(lines)


def _outcome(verdict: dict) -> str:
    outcome, theirs = _mark(verdict["outcome"]), verdict["values"].get("authors", {})
    if theirs.get("ratios") and theirs["outcome"] != verdict["outcome"]:
        outcome += f"; by the authors' kernel {_mark(theirs['outcome'])}"
    return outcome


def _mark(outcome: str) -> str:
    return MARKS.get(outcome, "? inconclusive")


def refresh() -> None:
    """Put the answer between the marks."""
    text = README.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{README} lacks the marks {BEGIN} and {END}. Put them back.")
    before, rest = text.split(BEGIN)
    write_whole(README, f"{before}{BEGIN}\n{answer()}\n{END}{rest.split(END)[1]}".encode())
