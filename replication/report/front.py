"""The README's answer: crossover and verdicts of the reference run, kept between two marks."""

from pathlib import Path

from replication.report.run import claims, load_crossovers, load_verdicts
from replication.results import ROOT, ResultsError, write_whole
from replication.scaling_config import PROFILES

README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts: written by replication render -->", "<!-- end of verdicts -->"
MARKS = {
    "supported": "✔ supported",
    "partly supported": "◐ partly supported",
    "not supported": "✘ not supported",
}


def answer() -> str:
    """From which length on, and one row per claim with what was seen."""
    found = load_verdicts("reference")
    if found is None:
        raise ResultsError("There are no verdicts of the reference run. Build its report first.")
    lines = [_crossovers(), "", "| | claim | by | reference run | what was seen |", "|-|-|-|-|-|"]
    for claim in claims():
        seen = found[claim.id]
        outcome = MARKS.get(seen["outcome"], "? inconclusive")
        lines.append(
            f"| {claim.id} | {claim.title} | {claim.by} | {outcome} | {seen['evidence']} |"
        )
    return "\n".join(lines)


def _crossovers() -> str:
    layer = PROFILES["reference"]
    return (
        "**From which length on?** On the reference machine, training one causal layer of "
        f"{layer.heads} heads of {layer.head_dim}, {'; '.join(load_crossovers('reference'))}. "
        "`replication crossover` answers for your machine in a minute."
    )


def refresh(readme: Path = README) -> None:
    """Put the answer between the marks."""
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{readme} lacks the marks {BEGIN} and {END}. Put them back.")
    before, rest = text.split(BEGIN)
    write_whole(readme, f"{before}{BEGIN}\n{answer()}\n{END}{rest.split(END)[1]}".encode())
