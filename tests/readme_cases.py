"""What the README asks a reader to type, and what it links to."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every line of every shell block, without its remark."""
    lines = (line for block in blocks("sh") for line in block.splitlines())
    return [found for line in lines if (found := re.sub(r"(^|\s+)# .*", "", line).strip())]


def links() -> list[str]:
    """All links into the repository."""
    found = re.findall(r"\]\(([^)]+)\)", TEXT)
    return [link for link in found if "://" not in link and not link.startswith("#")]


def anchors() -> set[str]:
    """All links to its own headings."""
    return set(re.findall(r"\]\(#([^)]+)\)", TEXT))
