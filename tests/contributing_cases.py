"""The worked examples of CONTRIBUTING.md, put into a project as a reader would."""

import re
from pathlib import Path

import nbformat
from workflow_cases import KERNEL, ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def examples() -> dict[str, str]:
    """What each file of an example holds, by the path in its first line."""
    found = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return dict(found)


def add_mechanism(project: Path) -> None:
    for name, text in examples().items():
        if name == "replication/reference.py":
            with (project / name).open("a") as file:
                file.write(f"\n\n{text}")
        elif name.startswith("replication/attention/"):
            (project / name).write_text(text)


def add_experiment(project: Path) -> None:
    for name, text in examples().items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("replication/experiments/"):
            path.write_text(text)
        elif name.startswith("notebooks/"):
            nbformat.write(_notebook(text), path)
        elif name == "paper/claims.yaml":
            path.write_text((path.read_text() if path.exists() else "") + text)


def _notebook(text: str) -> nbformat.NotebookNode:
    """From cells with "# %%" between them."""
    cells = []
    for part in text.split("# %%")[1:]:
        head, _, source = part.partition("\n")
        if "markdown" in head:
            cells.append(nbformat.v4.new_markdown_cell(source.replace("# ", "", 1).strip()))
        else:
            tags = {"tags": ["parameters"]} if "parameters" in head else {}
            cells.append(nbformat.v4.new_code_cell(source.strip(), metadata=tags))
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
