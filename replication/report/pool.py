"""Results that travel: ``export`` writes those of a profile as one file, ``pool`` joins several.

A file holds rows and their provenance, no verdicts: who pools judges all of them anew, by the rules
and the code that are here. What has other rules, other code or damaged tables is refused. A file
whose tables and hashes were both forged cannot be told from an honest one.
"""

import json
import zipfile
import zlib
from argparse import Namespace
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pandas as pd

from replication import claims, experiments, store
from replication.experiments.base import NOT_RUN, PROFILES
from replication.report.run import Run, load_run
from replication.store import StoreError

MANIFEST = "replication.json"
MOST_BYTES = 500e6
"""Unpacked. A reference run has some 30 MB."""
BAD = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, zlib.error)
"""What reading a zip raises beside its own error: cut, damaged, encrypted, of other content."""


def rules() -> str:
    return store.digest(claims.FILE.read_bytes())[:12]


def export(options: Namespace) -> int:
    out = options.out or store.BUILD / f"{options.profile}.replication.zip"
    if out.is_dir() or not out.name.endswith(".zip"):
        raise ValueError(f"--out {out} names no zip file. Try my-machine.zip.")
    if out.exists() and not (out.is_file() and _is_ours(out)):
        raise ValueError(f"--out {out} is there and was not exported from here. It stays as it is: "
                         "choose another file.")  # fmt: skip
    store.writable(out.parent)
    run = load_run(options.profile)
    if not run.kept:
        raise StoreError(
            f"There is nothing to export: {run.folder} holds no results. Measure them with\n"
            f"    replication report --profile {options.profile}"
        )
    with zipfile.ZipFile(content := BytesIO(), "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(MANIFEST, store.to_json({"profile": options.profile, "rules": rules()}))
        for table in (one.unit.path(run.folder) for kept in run.kept.values() for one in kept):
            for path in (table, table.with_suffix(".json")):
                packed.writestr(path.relative_to(run.folder).as_posix(), path.read_bytes())
    store.write_whole(out, content.getvalue())
    print(f"{out}: {sum(map(len, run.kept.values()))} units of {', '.join(run.kept)}")
    return 0


def _is_ours(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as packed:
            return MANIFEST in packed.namelist()
    except (*BAD, zipfile.BadZipFile):
        return False


def unpacked(file: Path, folder: Path) -> Run:
    """What an exported file holds, judged by the rules here; refused in words if it is none."""
    try:
        if not file.is_file():
            raise ValueError("it is no file")
        with zipfile.ZipFile(file) as packed:
            _check(packed)
            manifest = dict(json.loads(packed.read(MANIFEST)))
            packed.extractall(folder)
    except (*BAD, zipfile.BadZipFile) as error:
        why = str(error) or "it ends too early"
        raise StoreError(f"{file} is no exported file ({why}). Write one by\n"
                         "    replication export") from None  # fmt: skip
    if manifest.get("profile") not in PROFILES:
        raise StoreError(f"{file} is of the profile {manifest.get('profile')!r}, which is unknown.")
    if manifest.get("rules") != rules():
        raise StoreError(
            f"{file} was exported with other rules ({manifest.get('rules')}, here {rules()}). "
            "Export it again with the version that is here."
        )
    try:
        run = load_run(manifest["profile"], folder)
    except StoreError as error:
        raise StoreError(f"{file} is refused: {str(error).splitlines()[0]}") from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        what = f"its rows or provenance hold what they should not ({error})"
        raise StoreError(f"{file} is refused: {what}. Export it again.") from None
    for one in (one for kept in run.kept.values() for one in kept if one.rows.empty):
        raise StoreError(f"{file} is refused: {one.unit.name} has no rows. Export it again.")
    if not run.kept:
        raise StoreError(f"{file} holds no results of this version. Export it again.")
    known = {one.unit.path(folder) for kept in run.kept.values() for one in kept}
    for path in sorted(set(folder.rglob("*.csv")) - known):
        what = f"{path.parent.name}/{path.name} is of no unit of this version"
        raise StoreError(f"{file} is refused: {what}. Export it again.")
    return run


def _check(packed: zipfile.ZipFile) -> None:
    for one in packed.infolist():
        place = PurePosixPath(one.filename)
        known = len(place.parts) == 2 and place.parts[0] in experiments.every()
        if not (one.filename == MANIFEST or (known and place.suffix in (".csv", ".json"))):
            raise ValueError(f"it holds {one.filename!r}, which is neither rows nor provenance")
    if (size := sum(one.file_size for one in packed.infolist())) > MOST_BYTES:
        raise ValueError(f"it would unpack to {size / 1e6:.0f} MB")
    if damaged := packed.testzip():
        raise ValueError(f"{damaged} is damaged")


TITLE = "# Results of several machines"
"""How a report begins; a file that begins otherwise is not replaced."""
CROSSOVERS = """From which N on linear attention costs less in training one causal layer, with 95 %
intervals (bytes are exact). <8: at every length measured, the shortest being 8; >4096: at none at
the end; ‡: the last of several; –: not measured, or by profile smoke, which decides nothing."""


def pool(options: Namespace) -> int:
    out = options.out
    is_ours = out.is_file() and out.read_bytes().startswith(TITLE.encode())
    if out.suffix not in (".md", ".txt") or (out.exists() and not is_ours):
        raise ValueError(f"--out {out} would not be a report of this command: name a new .md file, "
                         "or one that pool has written.")  # fmt: skip
    store.writable(out.parent)
    names = [path.name.removesuffix(".zip").removesuffix(".replication") for path in options.files]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two files are called {name}. Name each after its machine.")
    with TemporaryDirectory() as folder:
        files = enumerate(zip(names, options.files, strict=True))
        runs = {name: unpacked(path, Path(folder) / str(i)) for i, (name, path) in files}
    text = report(runs)
    store.write_whole(out, text.encode())
    print(f"{text}\nWritten to {out}")
    return 0


def report(runs: dict[str, Run]) -> str:
    """Markdown: the machines, their crossovers and verdicts, and who differs, by what was seen."""
    from replication.report.show import table_text  # slow, which bad files need not wait for

    machines = pd.DataFrame({"name": name} | _machine(run) for name, run in runs.items())
    outcomes = pd.DataFrame(
        {name: {id: one.outcome for id, one in run.verdicts.items()} for name, run in runs.items()}
    )
    answers = {name: {question: said for one in experiments.every().values()
                      for question, said in one.answers(run.evidence).items()}
               for name, run in runs.items()}  # fmt: skip
    crossovers = pd.DataFrame(answers, dtype=object).fillna("–")
    titles = {claim.id: f"{claim.id} {claim.title}" for claim in claims.claims()}
    side_by_side = outcomes.rename(index=titles).rename_axis("claim").reset_index()
    parts = [TITLE, table_text(machines, "of machines")]
    if len(crossovers := crossovers.rename_axis("from which N on").reset_index()):
        parts += ["## Crossovers", CROSSOVERS, table_text(crossovers, "of crossovers")]
    parts += ["## Verdicts", table_text(side_by_side, "of verdicts"), "## What was seen"]
    for id, row in outcomes.iterrows():
        seen = ((name, run.verdicts[id]) for name, run in runs.items())
        lines = [f"- **{name}**, {one.outcome}: {one.evidence}" for name, one in seen]
        parts += [f"### {titles[id]}: {_together(row)}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _together(outcomes: pd.Series) -> str:
    """What all say who ran a claim, or who says what."""
    ran = outcomes[outcomes != NOT_RUN]
    if ran.nunique() < 2:
        return next(iter(ran), NOT_RUN)
    said = (f"{one}: {', '.join(ran.index[ran == one])}" for one in ran.unique())
    return f"they differ ({'; '.join(said)})"


def _machine(run: Run) -> dict[str, str]:
    facts = [one.facts["machine"] for kept in run.kept.values() for one in kept]
    places = {f"{one['processor']}, {one['cores']} cores, {one['device']}" for one in facts}
    return {"profile": run.profile, "machine": "; ".join(sorted(places)),
            "PyTorch": ", ".join(sorted({one["versions"]["torch"] for one in facts}))}  # fmt: skip
