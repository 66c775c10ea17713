"""What a user types, and what is said when it is wrong."""

import json

import nbformat
import pytest

from replication import notebooks
from replication.cli import main


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["run", "99"], "There is no notebook '99'"),
        (["run", "01", "-p", "wrong", "1"], "has no parameter wrong"),
        (["bench", "attention", "--rounds", "0"], "--rounds 0 measures nothing"),
        (["bench", "attention", "--device", "abacus"], "device='abacus' cannot be used here"),
    ],
)
def test_a_wrong_command_is_explained_before_anything_runs(typed, said, capsys):
    assert main(typed) == 2
    assert said in capsys.readouterr().err


def test_a_failing_cell_is_named_and_earlier_output_is_kept(tmp_path, monkeypatch):
    book = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell("1 / (x - 1)"),
        ]
    )
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    source = tmp_path / "07_broken.ipynb"
    nbformat.write(book, source)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    with pytest.raises(ValueError, match="ZeroDivisionError: division by zero"):
        notebooks.run(source, {}, tmp_path / "out.ipynb")
    assert (tmp_path / "out.ipynb").exists()
    notebooks.run(source, {"x": 3}, tmp_path / "out.ipynb")


def test_a_page_contains_its_figures(tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title $x^2$")])
    path = tmp_path / "a.ipynb"
    nbformat.write(book, path)
    assert "Title" in notebooks.to_html(path).read_text()


@pytest.mark.parametrize("notebook", notebooks.every(), ids=lambda path: path.stem)
def test_a_committed_notebook_was_executed_whole_and_without_errors(notebook):
    book = json.loads(notebook.read_text())
    code = [c for c in book["cells"] if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [o for c in code for o in c["outputs"]]
    assert outputs
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any("parameters" in c["metadata"].get("tags", []) for c in code)
