"""Speech: the corpus, how it is had and what is wrong with it; phonemes by espeak-ng."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
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


def asked(folder: Path) -> tuple[set[str], str]:
    """The settings that can be run here, and why others cannot."""
    both = [studies.resolve(name, "smoke") for name in ("czech", "amount")]
    left, why = run.possible(run.runs_of(both), folder)
    return {unit.numbers["setting"] for unit in left}, why


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
    left, why = asked(tmp_path)
    assert "export REPLICATION_SPEECH" in why
    assert left == {"amount"}


def test_other_packages_are_refused_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in corpus.PACKAGES:
        (tmp_path / f"{name}_{corpus.VERSION}_all.deb").write_bytes(b"something else")
    with pytest.raises(CorpusError, match="is not the file of this study"):
        corpus.find(tmp_path)
    left = [p for p in (tmp_path / "cache" / "replication").iterdir() if p.suffix != ".lock"]
    assert left == []


# Packages -----------------------------------------------------------------------------------------


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A folder with packages of our own in place of Debian's; none are in the cache."""
    folder = tmp_path / "packages"
    for name, part in zip(corpus.PACKAGES, ("script", "sound"), strict=True):
        tree = tmp_path / name
        (tree / corpus.GAME / part).mkdir(parents=True)
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {corpus.VERSION}\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: made up\n")  # fmt: skip
        file = folder / f"{name}_{corpus.VERSION}_all.deb"
        folder.mkdir(exist_ok=True)
        if shutil.which("dpkg-deb"):
            subprocess.run(["dpkg-deb", "--build", tree, file], check=True, capture_output=True)
        else:
            file.write_bytes(name.encode())
    hashes = {name: hashlib.sha256((folder / f"{name}_{corpus.VERSION}_all.deb").read_bytes())
              for name in corpus.PACKAGES}  # fmt: skip
    monkeypatch.setattr(corpus, "PACKAGES", {n: one.hexdigest() for n, one in hashes.items()})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(corpus.VARIABLE, raising=False)
    return folder


def program(folder: Path, name: str, does: str, monkeypatch) -> None:
    """Before all others of that name."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_packages_without_dpkg_deb_are_told_of(packages, tmp_path, monkeypatch):
    monkeypatch.setenv(corpus.VARIABLE, str(packages))
    monkeypatch.setenv("PATH", str(tmp_path))
    left, why = asked(tmp_path)
    assert "was not run here: there is no dpkg-deb on this system." in why
    assert left == {"amount"}


def test_what_apt_get_says_is_told(packages, tmp_path, monkeypatch):
    program(tmp_path / "bin", "dpkg-deb", "", monkeypatch)
    does = "echo warning >&2; echo E: Unable to locate package >&2; exit 100"
    program(tmp_path / "bin", "apt-get", does, monkeypatch)
    left, why = asked(tmp_path)
    assert "was not run here: apt-get says: E: Unable to locate package." in why
    assert left == {"amount"}
    assert not (tmp_path / "cache/replication" / f"fillets-{corpus.VERSION}").exists()


def test_what_dpkg_deb_says_is_told(packages, tmp_path, monkeypatch):
    program(tmp_path / "bin", "dpkg-deb", "echo no space left >&2; exit 2", monkeypatch)
    with pytest.raises(CorpusError, match=r"all\.deb cannot be unpacked: no space left"):
        corpus.find(packages)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="there is no dpkg-deb here")
@pytest.mark.parametrize("way", ["named", "fetched"])
def test_packages_are_unpacked_once(way, packages, tmp_path, monkeypatch):
    if way == "fetched":
        does = f'[ "$1" = download ] && cp {packages}/* .'
        program(tmp_path / "bin", "apt-get", does, monkeypatch)
    source = packages if way == "named" else ""
    root = corpus.find(source)
    assert root == tmp_path / "cache/replication" / f"fillets-{corpus.VERSION}" / corpus.GAME
    assert (root / "sound").is_dir()
    assert (root / "script").is_dir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert corpus.find(source) == root


# What is wrong with it ----------------------------------------------------------------------------

SPOKEN = {"town/good": "Ahoj", "town/other": "Ano", "town/damaged": "Dva", "town/missing": "Tři",
          "ship/good": "Dobře", "cave/good": "Ticho", "cave/mute": None,
          "cave/empty": ""}  # fmt: skip
"""By id, the text in the scripts of a corpus of our own; ``cave/mute`` is in none."""
PARTS = {"town": "train", "ship": "dev", "cave": "test"}


@pytest.fixture
def ours(tmp_path, monkeypatch) -> Path:
    """The folder of a corpus of noise that is named, and whose table takes the place of Czech's."""
    rows, noise = [], np.random.default_rng(0)
    for name, text in {**SPOKEN, "town/unlisted": "Ne", "town/silent": "Nic"}.items():
        level, stem = name.split("/")
        sound, script = tmp_path / f"sound/{level}/cs/{stem}.ogg", tmp_path / f"script/{level}"
        sound.parent.mkdir(parents=True, exist_ok=True)
        script.mkdir(parents=True, exist_ok=True)
        soundfile.write(sound, 0.1 * noise.normal(size=(4410, 2)), 22050, format="OGG")
        if text is not None:
            with (script / "dialogs_cs.lua").open("a", encoding="utf-8") as file:
                file.write(f'dialogId("{stem}", "font", "")\ndialogStr("{text}")\n')
        spoken = espeak.phonemes("Ne" if stem in ("other", "mute", "empty") else text, "cs")
        if name in SPOKEN:
            rows.append({"id": name, "split": PARTS[level],
                         "sound": corpus.digest(sound.read_bytes()),
                         "phonemes": corpus.digest(" ".join(spoken).encode())})  # fmt: skip
    (tmp_path / "sound/town/cs/damaged.ogg").write_bytes(b"OggS but not really")
    (tmp_path / "sound/town/cs/missing.ogg").unlink()
    (tmp_path / "sound/town/cs/silent.ogg").unlink()
    monkeypatch.setattr(corpus, "table", lambda: tuple(rows))
    monkeypatch.setenv(corpus.VARIABLE, str(tmp_path))
    return tmp_path


def test_what_cannot_be_used_is_left_out_and_counted(ours):
    found = corpus.czech()
    assert {part: {one.id for one in some} for part, some in found.parts.items()} == {
        "train": {"town/good", "town/other"}, "dev": {"ship/good"}, "test": {"cave/good"},
    }  # fmt: skip
    assert found.counts == {
        "sound without text": 2,  # mute and empty
        "text without sound": 2,  # missing and silent
        "sound missing": 1, "sound damaged": 1, "text empty": 2, "used": 4,
        "other phonemes than listed": 3,  # other, which is used, and mute and empty
    }  # fmt: skip
    for one in (one for part in found.parts.values() for one in part):
        assert one.phonemes == espeak.phonemes(SPOKEN[one.id], "cs")
        assert one.features.shape == (18, 40)  # 0.2 s
        assert torch.isfinite(one.features).all()


def test_a_few_of_a_part_are_the_same_few(ours):
    few = corpus.czech(most={"train": 4, "dev": 1, "test": 3}).parts
    assert few.keys() == corpus.czech().parts.keys()
    assert len(few["train"]) == 2


def test_a_corpus_of_which_some_can_be_used_is_run(ours):
    assert asked(ours / "rows") == ({"czech", "amount"}, "")


@pytest.mark.parametrize("level", PARTS)
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_corpus_without_one_part_is_not_run_and_synthetic_speech_is(level, how, ours):
    for path in (ours / "sound" / level).rglob("*.ogg"):
        path.unlink() if how == "missing" else path.write_bytes(b"OggS")
    left, why = asked(ours / "rows")
    assert left == {"amount"}
    assert f"was not run here: of {PARTS[level]} nothing in {ours} can be used (sound " in why
    assert f"{how}: " in why


def test_empty_folders_are_no_corpus(tmp_path, monkeypatch):
    (tmp_path / "sound").mkdir()
    (tmp_path / "script").mkdir()
    monkeypatch.setenv(corpus.VARIABLE, str(tmp_path))
    seen = []
    monkeypatch.setattr(run, "made_runs", lambda *_: [])
    monkeypatch.setattr(run.training, "ensure", lambda units, *_, **__: seen.extend(units) or [])
    both = [studies.resolve(name, "smoke") for name in ("czech", "amount")]
    _, why = run.ensure(both, tmp_path / "rows")
    assert {unit.numbers["setting"] for unit in seen} == {"amount"}
    assert "of train nothing" in why
    assert "here: ." not in why


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
