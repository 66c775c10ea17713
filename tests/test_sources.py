"""A result is stale when a file that it comes from changes, and only then."""

import pytest

from replication import sources


@pytest.fixture
def package(tmp_path, monkeypatch):
    """heart <- train <- runs; figures apart; results only stores."""
    root = tmp_path / "replication"
    (root / "attention").mkdir(parents=True)
    (root / "attention" / "__init__.py").write_text("from replication.attention.heart import f\n")
    (root / "attention" / "heart.py").write_text("def f(): ...\n")
    (root / "results.py").write_text("")
    (root / "train.py").write_text(
        "import torch\nfrom replication import results\nfrom replication.attention import f\n"
    )
    (root / "runs.py").write_text("import replication.train\n")
    (root / "figures.py").write_text("from replication.attention.heart import f\n")
    monkeypatch.setattr(sources, "PACKAGE", root)
    monkeypatch.setattr(sources, "APART", {root / "results.py"})
    return root


def names(*rooms):
    return [str(path.relative_to(sources.PACKAGE)) for path in sources.files(*rooms)]


def test_files_are_those_that_a_room_imports_directly_or_not(package):
    assert names("runs") == ["attention/__init__.py", "attention/heart.py", "runs.py", "train.py"]
    assert names("attention") == ["attention/__init__.py", "attention/heart.py"]
    assert "figures.py" in names("runs", "figures")


@pytest.mark.parametrize(
    ("changed", "stale"),
    [("attention/heart.py", True), ("runs.py", True), ("figures.py", False), ("results.py", False)],
)
def test_the_hash_changes_with_what_a_room_rests_on(package, changed, stale):
    before = sources.hash_of("runs")
    assert sources.hash_of("runs") == before
    (package / changed).write_text("# changed\n" + (package / changed).read_text())
    assert (sources.hash_of("runs") != before) == stale


def test_the_hash_changes_when_a_file_is_renamed(package):
    before = sources.hash_of("figures")
    (package / "figures.py").rename(package / "pictures.py")
    assert sources.hash_of("pictures") != before


def test_an_unknown_room_is_named():
    with pytest.raises(ValueError, match="no room 'kitchen'"):
        sources.files("kitchen")


def test_training_rests_on_attention_but_not_on_figures():
    found = names("runs")
    assert {"attention/causal_sums.py", "config/experiment.py", "train.py"} <= set(found)
    others = ("figures", "cli", "results", "config/numbers")
    assert not [name for name in found if name.startswith(others)]
