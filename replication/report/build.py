"""Execute the report's notebook, set it as PDF and as a page, and renew the README's answer."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from replication import claims
from replication.store import BUILD, ROOT, StoreError, locked, write_whole
from replication.workflow.notebooks import execute

PAPER = ROOT / "paper"
NOTEBOOK = PAPER / "report.ipynb"


def build(profile: str) -> list[Path]:
    """PDF and page of one profile's results, in build/profile beside the executed notebook.

    Nothing is written before all are made. The reference run's also becomes paper/report.pdf, and
    renews the README's answer; no other profile changes a file that is committed.
    """
    folder = BUILD / profile
    with locked(folder / NOTEBOOK.name, NOTEBOOK.name):
        made = _made(profile)
        for name, content in made.items():
            write_whole(folder / name, content)
    if profile == "reference":
        write_whole(PAPER / "report.pdf", made["report.pdf"])
        refresh()
    return [folder / name for name in made if name != NOTEBOOK.name]


def _made(profile: str) -> dict[str, bytes]:
    """The executed notebook, the PDF and the page; the last two are set side by side."""
    book = execute(NOTEBOOK, {"profile": profile}, None)
    import nbformat

    from replication.report import pandoc, prose

    text = pandoc.read(book, PAPER)
    with ThreadPoolExecutor() as pool:
        pdf, page = (pool.submit(write, text, "") for write in (pandoc.pdf, pandoc.html))
        filled = nbformat.writes(prose.filled(book)).encode()
        return {NOTEBOOK.name: filled, "report.pdf": pdf.result()[0],
                "report.html": page.result()[0].encode()}  # fmt: skip


# The README's answer --------------------------------------------------------------------------

README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts: written by replication render -->", "<!-- end of verdicts -->"
MARKS = {"supported": "✔ supported", "partly supported": "◐ partly supported",
         "not supported": "✘ not supported", claims.NOT_RUN: "not run"}  # fmt: skip
KERNELS = {"linear": "with our compiled kernel", "authors": "with the authors' kernel of 2020"}
RIVALS = {
    "softmax": "PyTorch's fused softmax",
    "softmax-textbook": "softmax as a textbook writes it",
}


def answer() -> str:
    """Of the reference run: from which length on, a row a claim, and below it what was seen."""
    found = claims.load("reference")
    if found is None:
        raise StoreError("There are no verdicts of the reference run. Build its report first.")
    since = [[found["crossovers"].get(f"{kernel}-{rival}", "not measured") for kernel in KERNELS]
             for rival in RIVALS]  # fmt: skip
    lines = [
        "**From which length on?** On the reference machine, training one causal layer of 8 heads "
        "of 64 features, linear attention is faster", "",
        f"| than | {' | '.join(KERNELS.values())} |", "|-|-|-|",
        *(f"| {name} | {' | '.join(words)} |"
          for name, words in zip(RIVALS.values(), since, strict=True)), "",
        "`replication crossover` answers for your machine in a minute.", "",
        "| | claim | made by | reference run |", "|-|-|-|-|",
    ]  # fmt: skip
    seen = []
    for claim in claims.claims():
        verdict = found["claims"][claim.id]
        outcome = MARKS.get(verdict["outcome"], "? inconclusive")
        lines.append(f"| {claim.id} | {claim.title} | {claim.by} | {outcome} |")
        seen.append(f"- **{claim.id}** {verdict['evidence']}")
    summary = "<details><summary>What was seen, claim by claim</summary>"
    return "\n".join([*lines, "", summary, "", *seen, "", "</details>"])


def refresh(readme: Path = README) -> None:
    """Put the answer between the marks."""
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{readme} lacks the marks {BEGIN} and {END}. Put them back.")
    before, rest = text.split(BEGIN)
    write_whole(readme, f"{before}{BEGIN}\n{answer()}\n{END}{rest.split(END)[1]}".encode())
