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


# The README's answer --------------------------------------------------------------------------

README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts: written by replication render -->", "<!-- end of verdicts -->"
MARKS = {"supported": "✔ supported", "partly supported": "◐ partly supported",
         "not supported": "✘ not supported", claims.NOT_RUN: "not run"}  # fmt: skip
LEGEND = (
    "✔ everything that the rule asks for holds · ◐ part of it holds · ? the measurements do not "
    "decide · ✘ the deciding questions are answered no"
)
KERNELS = {"linear": "with our compiled kernel", "authors": "with the authors' kernel of 2020"}
TERMS = (
    "*LSH attention* (Reformer) compares only positions that locality-sensitive hashing puts into "
    "one bucket, in one round of hashing or several; *fused* softmax never stores the N × N "
    "weights; a *cache* holds the keys and values of all earlier tokens, in place of the state of "
    "an RNN."
)
RIVALS = {
    "softmax": "PyTorch's fused softmax",
    "softmax-textbook": "softmax as a textbook writes it",
    "softmax-tiled": "softmax by the tiles and the compiler of our kernel",
}


def answer() -> str:
    """Of the reference run: from which length on, a row a claim, and below it what was seen."""
    found = claims.load("reference")
    if found is None:
        raise StoreError("There are no verdicts of the reference run. Build its report first.")
    since = [[_said(found["crossovers"].get(f"{kernel}-{rival}", "not measured"))
              for kernel in KERNELS] for rival in RIVALS]  # fmt: skip
    lines = [
        "**From which length on?** On one thread of the reference machine (a processor, no GPU; "
        "float32), training one causal layer of 8 heads of 64 features, linear attention is "
        "faster", "",
        f"| than | {' | '.join(KERNELS.values())} |", "|-|-|-|",
        *(f"| {name} | {' | '.join(words)} |"
          for name, words in zip(RIVALS.values(), since, strict=True)), "",
        *_whole(found["claims"]["X3"]["values"]),
        "`replication crossover` answers for your machine in a minute. Speed is one half of the "
        "question; whether the model still learns is the other: see C1, X2 and *What a user "
        "should do* in [the report](paper/report.pdf).", "",
        TERMS, "", f"{LEGEND}:", "", verdicts(found["claims"], "reference run"), "",
    ]  # fmt: skip
    seen = [f"- **{claim.id}** {found['claims'][claim.id]['evidence']}"
            for claim in claims.claims()]  # fmt: skip
    summary = "<details><summary>What was seen, claim by claim</summary>"
    return "\n".join([*lines, summary, "", *seen, "", "</details>"])


def _whole(equal_care: dict) -> list[str]:
    """What to know of short sequences, if equal care was examined."""
    if "whole_until" not in equal_care:
        return []
    return [f"Up to N = {equal_care['whole_until']} our kernel compares all pairs of positions, as "
            "softmax does: the lead there is one of cheaper calls and of features in place of "
            "exponentials, not of linear growth.", ""]  # fmt: skip


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


def _said(crossover: str) -> str:
    return crossover.replace("(open)", "(no difference shown)")


def _mark(outcome: str) -> str:
    return MARKS.get(outcome, "? inconclusive")


def refresh() -> None:
    """Put the answer between the marks."""
    text = README.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{README} lacks the marks {BEGIN} and {END}. Put them back.")
    before, rest = text.split(BEGIN)
    write_whole(README, f"{before}{BEGIN}\n{answer()}\n{END}{rest.split(END)[1]}".encode())
