"""Real speech: Czech dialogues of the game Fish Fillets NG, read by actors, under the GPL-2.

The sound is in the Debian package ``fillets-ng-data-cs``, the texts are in scripts of
``fillets-ng-data``. Both are fetched without root into the user's cache, or taken from a folder
that the user names. Phonemes are made of the texts by espeak-ng. Of sound and text nothing is part
of this repository: ``czech.csv`` lists the utterances by name, their part, and hashes.
"""

import csv
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from replication.experiments.speech import espeak
from replication.experiments.speech.features import features
from replication.store import StoreError, locked

PACKAGES = {
    "fillets-ng-data": "25de89afd8b1adf7bcace8290248a6a22c89cd42300317e69000e162c032cf84",
    "fillets-ng-data-cs": "3ecef99b9456f1c80c9625c6f2418642b52d58e7167a46bad7a412db17991b14",
}
VERSION = "1.0.1-1.1"
VARIABLE = "REPLICATION_SPEECH"
"""The environment variable that names a folder with the packages, or with what is in them."""
TABLE = Path(__file__).parent / "czech.csv"
GAME = "usr/share/games/fillets-ng"


class CorpusError(StoreError):
    """The speech cannot be had here. It says why, and what to do."""


class Utterance(NamedTuple):
    id: str
    features: Tensor
    """[N, 40], a row every 10 ms."""
    phonemes: tuple[str, ...]


class Corpus(NamedTuple):
    """Utterances by part, and what was left out of them and why."""

    parts: dict[str, list[Utterance]]
    counts: dict[str, int]


# Getting it -----------------------------------------------------------------------------------


def find(folder: str | Path = "") -> Path:
    """The folder with ``sound`` and ``script``: the one named, else that in the cache, fetched."""
    named = folder or os.environ.get(VARIABLE, "")
    if not named:
        return _fetched(cache_folder() / f"fillets-{VERSION}")
    for root in (Path(named), Path(named) / GAME):
        if (root / "sound").is_dir() and (root / "script").is_dir():
            return root
    if all((Path(named) / _file(name)).exists() for name in PACKAGES):
        return _fetched(cache_folder() / f"fillets-{VERSION}", Path(named))
    raise CorpusError(
        f"There is no Czech speech in {named}: neither folders sound and script, nor the packages "
        f"{' and '.join(map(_file, PACKAGES))}. Name another folder in {VARIABLE}, or none to have "
        "it fetched."
    )


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "replication"


def _file(name: str) -> str:
    return f"{name}_{VERSION}_all.deb"


def _fetched(place: Path, source: Path | None = None) -> Path:
    """The packages unpacked at ``place``, whole or not at all; one process at a time."""
    if not place.is_dir():
        with locked(place, "The Czech speech", wait=True):
            if not place.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fillets.") as work:
                    _unpack(source or _download(Path(work)), Path(work) / "whole")
                    os.replace(Path(work) / "whole", place)
    return place / GAME


def _download(work: Path) -> Path:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise _missing("there is no apt-get and dpkg-deb on this system")
    wanted = [f"{name}={VERSION}" for name in PACKAGES]
    done = subprocess.run(
        ["apt-get", "download", *wanted], cwd=work, capture_output=True, text=True
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise _missing(f"apt-get says: {words[-1] if words else done.returncode}")
    return work


def _unpack(source: Path, into: Path) -> None:
    for name, expected in PACKAGES.items():
        path = source / _file(name)
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "nothing"
        if found != expected:
            raise _missing(f"{path.name} is not the file of this study (sha256 {found[:12]})")
        done = subprocess.run(["dpkg-deb", "-x", path, into], capture_output=True, text=True)
        if done.returncode:
            raise _missing(f"{path.name} cannot be unpacked: {done.stderr.strip()}")


def _missing(why: str) -> CorpusError:
    return CorpusError(
        f"Czech speech was not run here: {why}. It is in the Debian packages "
        f"{' and '.join(PACKAGES)}, version {VERSION}. Put both files, or what they hold, into a "
        f"folder and name it:\n    export {VARIABLE}=FOLDER\nWithout it all else still runs."
    )


# Reading it -----------------------------------------------------------------------------------

DIALOGUE = re.compile(
    r'dialogId\(\s*"([^"]+)"(?:(?!dialogId\().)*?dialogStr\(\s*"((?:[^"\\]|\\.)*)"\s*\)', re.S
)


def texts(root: Path) -> dict[str, str]:
    """By "level/name", from the scripts."""
    found = {}
    for path in sorted(root.glob("script/*/*_cs.lua")):
        for name, text in DIALOGUE.findall(path.read_text(encoding="utf-8")):
            found[f"{path.parent.name}/{name}"] = re.sub(r"\\(.)", r"\1", text)
    return found


def sounds(root: Path) -> dict[str, Path]:
    """By "level/name"."""
    paths = sorted((root / "sound").glob("**/cs/*.ogg"))
    return {f"{path.relative_to(root / 'sound').parts[0]}/{path.stem}": path for path in paths}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def table() -> tuple[dict[str, str], ...]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def czech(folder: str = "", most: dict[str, int] | None = None) -> Corpus:
    """The utterances of the table, at most so many a part; what cannot be used is counted."""
    root, counts, parts = find(folder), Counter(), {"train": [], "dev": [], "test": []}
    written, there = texts(root), sounds(root)
    counts["sound without text"] = sum(not written.get(name) for name in there)
    counts["text without sound"] = sum(name not in there for name in written)
    for row in _chosen(table(), most or {}):
        found = _read(row, there.get(row["id"]), written.get(row["id"], ""), counts)
        if found is not None:
            parts[row["split"]].append(found)
            counts["used"] += 1
    if not parts["train"] or not parts["test"]:
        raise CorpusError(f"No utterance in {root} can be used: {dict(counts)}. {_missing('')}")
    return Corpus(parts, dict(counts))


def lacking(most: dict[str, int]) -> str:
    """Why ``czech`` cannot be had here, so many a part: words, or none. It is asked before anything
    is run; no rows come from it."""
    try:
        root = find()
        written, there = texts(root), sounds(root)
        for part in ("train", "dev", "test"):
            mine, seen = (row for row in _chosen(table(), most) if row["split"] == part), Counter()
            if not any(_read(x, there.get(x["id"]), written.get(x["id"], ""), seen) for x in mine):
                said = ", ".join(f"{what}: {n}" for what, n in seen.items() if n)
                raise _missing(f"of {part} nothing in {root} can be used ({said})")
    except FileNotFoundError as error:
        return str(_missing(f"there is no {error.filename} on this system"))
    except StoreError as error:
        return str(error)
    return ""


def _chosen(rows: Iterable[dict], most: dict[str, int]) -> Iterator[dict]:
    """In the order of a hash, so that a few are of many levels."""
    taken = Counter()
    for row in sorted(rows, key=lambda row: digest(row["id"].encode())):
        taken[row["split"]] += 1
        if taken[row["split"]] <= most.get(row["split"], len(table())):
            yield row


def _read(row: dict, path: Path | None, text: str, counts: Counter) -> Utterance | None:
    import soundfile

    if path is None or not path.exists():
        counts["sound missing"] += 1
        return None
    if digest(path.read_bytes()) != row["sound"]:
        counts["sound damaged"] += 1
        return None
    spoken = espeak.phonemes(text, "cs")
    counts["other phonemes than listed"] += digest(" ".join(spoken).encode()) != row["phonemes"]
    if not spoken:
        counts["text empty"] += 1
        return None
    return Utterance(row["id"], features(*soundfile.read(path, dtype="float32")), spoken)
