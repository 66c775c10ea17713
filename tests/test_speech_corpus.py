"""Speech: the corpus, how it is had and what is wrong with it; phonemes by espeak-ng."""

import shutil

import numpy as np
import pytest
import speech_listing as listing
import torch

from replication import store
from replication.experiments.speech import corpus, espeak, run, studies, synthetic
from replication.experiments.speech.corpus import CorpusError
from replication.experiments.speech.features import features

try:
    ROOT = corpus.cache_folder() / f"fillets-{corpus.VERSION}" / corpus.GAME
    HAS_CORPUS = (ROOT / "sound").is_dir()
except RuntimeError:
    HAS_CORPUS = False
needs_corpus = pytest.mark.skipif(not HAS_CORPUS, reason="the Czech speech is not in the cache")


# The corpus ---------------------------------------------------------------------------------------


def test_no_level_is_in_two_parts():
    parts: dict[str, set[str]] = {}
    for row in corpus.table():
        parts.setdefault(row["id"].split("/")[0], set()).add(row["split"])
    assert all(len(found) == 1 for found in parts.values())
    assert {row["split"] for row in corpus.table()} == {"train", "dev", "test"}
    assert len({row["id"] for row in corpus.table()}) == len(corpus.table())
    assert all(len(row["sound"]) == len(row["phonemes"]) == 12 for row in corpus.table())


def test_texts_are_read_from_scripts(tmp_path):
    folder = tmp_path / "script" / "city"
    folder.mkdir(parents=True)
    (folder / "dialogs_cs.lua").write_text(
        'dialogId("a", "font", "English (one)")\ndialogStr("Ahoj \\"ty\\".")\n'
        'dialogId("b", "font",\n  "two")\ndialogStr(\n  "Dva")\ndialogId("c", "font", "three")\n'
        'dialogId("d", "font", "four")\ndialogStr("")\n', encoding="utf-8")  # fmt: skip
    assert corpus.texts(tmp_path) == {"city/a": 'Ahoj "ty".', "city/b": "Dva", "city/d": ""}


def test_a_folder_without_speech_is_told_of(tmp_path):
    with pytest.raises(CorpusError, match="neither folders sound and script"):
        corpus.find(tmp_path)


def test_without_apt_it_is_not_run_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(corpus.VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CorpusError, match="was not run here"):
        corpus.find()
    units = run.runs_of([studies.resolve("czech", "smoke"), studies.resolve("amount", "smoke")])
    left, why = run.possible(units, tmp_path)
    assert "export REPLICATION_SPEECH" in why
    assert {unit.numbers["setting"] for unit in left} == {"amount"}


def test_other_packages_are_refused_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in corpus.PACKAGES:
        (tmp_path / f"{name}_{corpus.VERSION}_all.deb").write_bytes(b"something else")
    with pytest.raises(CorpusError, match="is not the file of this study"):
        corpus.find(tmp_path)
    left = [p for p in (tmp_path / "cache" / "replication").iterdir() if p.suffix != ".lock"]
    assert left == []


@needs_corpus
def test_damaged_and_missing_sound_is_counted(tmp_path, monkeypatch):
    few = [row for row in corpus.table() if row["split"] == "test"][:2]
    few += [row for row in corpus.table() if row["split"] == "train"][:3]
    monkeypatch.setattr(corpus, "table", lambda: tuple(few))
    for row in few:
        source = corpus.sounds(ROOT)[row["id"]]
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    shutil.copytree(ROOT / "script", tmp_path / "script")
    there = corpus.sounds(tmp_path)
    there[few[0]["id"]].write_bytes(b"OggS but not really")
    there[few[2]["id"]].unlink()
    found = corpus.czech(str(tmp_path))
    assert found.counts["sound damaged"] == found.counts["sound missing"] == 1
    assert found.counts["used"] == 3
    assert found.counts["text without sound"] > 1000


@needs_corpus
def test_the_table_is_that_of_the_packages():
    rows, written = corpus.table()[::90], corpus.texts(ROOT)
    there = corpus.sounds(ROOT)
    assert len(there) == 1882
    for row in rows:
        assert corpus.digest(there[row["id"]].read_bytes()) == row["sound"]
        spoken = espeak.phonemes(written[row["id"]], "cs")
        assert corpus.digest(" ".join(spoken).encode()) == row["phonemes"]


# espeak-ng ----------------------------------------------------------------------------------------


def test_phonemes_of_a_text():
    assert " ".join(espeak.phonemes("Probuď se!", "cs")) == "p r o b u c s e"
    assert espeak.phonemes("", "cs") == espeak.phonemes("...", "cs") == ()
    marked = "h_ə_l_\u02c8oʊ (en)w_\u02c8e_l(cs)"
    assert espeak.clean(marked) == ("h", "ə", "l", "oʊ", "w", "e", "l")


def test_an_unknown_voice_is_told_of():
    with pytest.raises(ValueError, match="has no voice"):
        espeak.phonemes("hello", "xx-nowhere")


def test_a_slow_voice_speaks_longer():
    (slow, rate), (fast, _) = (espeak.speak("hello world", "en-us", r, 50) for r in (100, 250))
    assert len(slow) > 1.5 * len(fast) > 0
    assert rate == 22050
    assert 0.05 < np.abs(slow).max() <= 1


def test_levels_are_divided_by_their_share_of_sound():
    seconds = {f"level {i}": 10.0 + i for i in range(60)}
    parts = listing.split(seconds)
    for name, share in listing.SHARES.items():
        found = sum(seconds[level] for level, part in parts.items() if part == name)
        assert share <= found / sum(seconds.values()) < share + 0.05
    assert listing.split(dict(reversed(seconds.items()))) == parts


# Synthetic speech -------------------------------------------------------------------------------


def test_synthetic_speech_is_the_same_every_time_and_says_its_phonemes():
    one, two = synthetic.synthetic(2, 3, 4), synthetic.synthetic(5, 3, 4)
    for part, n in (("test", 4), ("dev", 4), ("train", 2)):
        assert len(one.parts[part]) == n
        for a, b in zip(one.parts[part], two.parts[part], strict=False):
            assert a.phonemes == b.phonemes
            assert a.phonemes
            assert torch.equal(a.features, b.features)
    wave, rate = synthetic.sound(3, 3)
    assert torch.equal(features(wave, rate), one.parts["test"][3].features)


def test_rows_of_synthetic_speech_tell_what_a_model_made_of_one_utterance(tmp_path):
    unit = run.runs_of([studies.resolve("amount", "smoke", models="linear", steps=2)])[-1]
    errors = run.errors_of([unit], tmp_path)
    store.ensure_all([unit, *errors], tmp_path)
    by_weights = run.listen([unit], run.EXAMPLE, tmp_path)
    unit.scratch(tmp_path).unlink()
    by_rows = run.listen([unit], run.EXAMPLE, tmp_path)
    assert by_rows.said == by_weights.said
    assert by_rows.heard == by_weights.heard
    found, expected = by_rows.posteriors["linear"], by_weights.posteriors["linear"]
    torch.testing.assert_close(found, expected, atol=run.LIKELY + 0.001, rtol=0)
    assert len(features(*by_rows.sound())) > 30
    assert run.listen([unit], run.EXAMPLE + 1, tmp_path) is None
    assert store.load(errors[0], tmp_path).facts["example"]["id"] == f"test/{run.EXAMPLE}"
