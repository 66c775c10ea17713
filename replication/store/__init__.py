"""The only room that touches the disk: units of work, each one file of rows, written whole beside
the provenance that belongs to it.

A unit is one trained run or one group of timings. ``ensure`` is the only way by which anything is
measured, resumed, locked or found stale (in a process of its own, ``make``): rows that are there,
whole and of the present code are loaded, all others are made.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, as_completed
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from replication.store.code import code_hash, commit, notebook_hash
from replication.store.files import (
    BUILD,
    PAPER,
    RESULTS,
    ROOT,
    StoreError,
    digest,
    locked,
    plain,
    to_json,
    writable,
    write_whole,
)

if TYPE_CHECKING:
    import pandas as pd

WAYS = ("auto", "saved", "fresh")
"""Rows to use: those that are current, else measured; any that are saved; none, all anew."""
OWN = "own"
"""In place of a profile: a question that somebody asked by a command such as ``crossover``."""
FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)
"""Where rows lie if no folder is named; None: in results/<profile>."""


class Result(NamedTuple):
    """What a unit makes: rows, and what else a reader must know of them."""

    rows: "pd.DataFrame"
    facts: dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """What one file of rows is of, and how it is made."""

    experiment: str
    name: str
    profile: str
    numbers: Mapping[str, Any]
    """All that the rows depend on: other numbers, another unit."""
    code: tuple[Callable, ...]
    """The functions whose code makes the rows; a mechanism's own among them."""
    run: Callable[[Path], Result] | None = field(compare=False)
    """Makes the rows; what must survive an interruption it may keep at the path it is given. None
    for a unit that was found in a folder."""

    @property
    def id(self) -> str:
        """Readable, and different for different numbers."""
        return f"{self.name}-{digest(json.dumps(plain(self.numbers), sort_keys=True).encode())[:8]}"

    @property
    def source(self) -> str:
        return code_hash(*self.code)

    def path(self, folder: Path | None = None) -> Path:
        """Its table; the provenance lies beside it with the suffix .json."""
        folder = folder or FOLDER.get() or RESULTS / self.profile
        return folder / self.experiment / f"{self.id}.csv"

    def scratch(self, folder: Path | None = None) -> Path:
        """What survives an interruption, of the present code alone."""
        return self.path(folder).with_suffix(f".{self.source}.pt")

    @property
    def remedy(self) -> str:
        """The command that makes it; a question that no notebook asks has one of its own."""
        notebook = f"replication run {self.experiment} --profile {self.profile}"
        return f"replication {self.experiment}" if self.profile == OWN else notebook


class Kept(NamedTuple):
    """Rows on disk, how they came about, and whether the present code would make them so."""

    unit: Unit
    rows: "pd.DataFrame"
    facts: dict[str, Any]

    @property
    def is_current(self) -> bool:
        return self.facts["source"] == self.unit.source


class Facts(dict):
    """A provenance. What it lacks is told with its file, and how to have it made again."""

    def __init__(self, content: Mapping[str, Any], path: Path, remedy: str) -> None:
        super().__init__(content)
        where = path.with_suffix(".json")
        self.lacks = f"{where} is damaged: it lacks {{}}. Measure it with\n    {remedy}"

    def __missing__(self, name: str) -> Any:
        raise StoreError(self.lacks.format(name))

    def __reduce__(self) -> tuple:
        return dict, (dict(self),)


def exists(unit: Unit, folder: Path | None = None) -> bool:
    """Whether there are rows and a provenance, of whatever code."""
    path = unit.path(folder)
    return path.is_file() and path.with_suffix(".json").is_file()


def is_current(unit: Unit, folder: Path | None = None) -> bool:
    """Whether its rows are there, whole, and of the present code."""
    try:
        return load(unit, folder).is_current
    except StoreError:
        return False


def load(unit: Unit, folder: Path | None = None, *, current: bool = False) -> Kept:
    """Rows and provenance, if they belong together; if ``current``, of the present code alone."""
    path, there, problem = unit.path(folder), exists(unit, folder), ""
    facts, content = provenance(path), path.read_bytes() if there else b""
    if not there:
        problem = f"No results at {path}"
    elif facts.get("numbers") != plain(unit.numbers) or not {"table", "source"} <= set(facts):
        problem = f"{path.with_suffix('.json')} is damaged: it does not tell of this unit"
    elif digest(content) != facts["table"]:
        problem = f"{path} is damaged: it is not the table that {path.stem}.json tells of"
    elif current and facts["source"] != unit.source:
        problem = f"{path} is stale: it comes from the code {facts['source']}, not {unit.source}"
    if problem:
        raise StoreError(f"{problem}. Measure it with\n    {unit.remedy}")
    import pandas as pd

    return Kept(unit, pd.read_csv(BytesIO(content)), Facts(facts, path, unit.remedy))


def read_folder(folder: Path) -> list[Kept]:
    """All units that lie in a folder or below it, of whatever experiments, in order of name."""
    found = []
    for path in sorted(folder.rglob("*.csv")):
        facts = provenance(path)
        named = [facts.get(name) for name in ("experiment", "unit", "profile", "numbers")]
        if None in named or {*map(type, named[:3])} != {str}:
            said = "has no provenance that can be read. Delete it, then call the same again."
            raise StoreError(f"{path} {said}")
        found.append(load(Unit(*named, code=(), run=None), path.parent.parent))
    return found


def provenance(path: Path) -> dict[str, Any]:
    """The provenance of a table; nothing if it cannot be read."""
    try:
        return dict(json.loads(path.with_suffix(".json").read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def ensure(unit: Unit, folder: Path | None = None, rows: str = "auto") -> Kept:
    """The rows of a unit: as saved if they may be used, else made here and now."""
    return ensure_all([unit], folder, rows)[0]


def ensure_all(
    units: Iterable[Unit],
    folder: Path | None = None,
    rows: str = "auto",
    pool: Executor | None = None,
    made: Callable[[Unit, int, int], None] | None = None,
) -> list[Kept]:
    """The same for many, in order; those to be made by the processes of ``pool``, if given.

    ``made`` is told of each unit when it is there: how many are, of how many.
    """
    units = list(units)
    if rows == "fresh":
        retire(units, folder)
    todo = [unit for unit in units if rows != "saved" and not is_current(unit, folder)]
    for done, unit in enumerate(_in_turn(todo, folder, pool), 1):
        if made:
            made(unit, done, len(todo))
    return [load(unit, folder) for unit in units]


def _in_turn(todo: list[Unit], folder: Path | None, pool: Executor | None) -> Iterator[Unit]:
    if pool is None:
        for unit in todo:
            make(unit, folder)
            yield unit
        return
    jobs = {pool.submit(make, unit, folder): unit for unit in todo}
    try:
        for job in as_completed(jobs):
            job.result()
            yield jobs[job]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def make(unit: Unit, folder: Path | None = None) -> None:
    """Run a unit and write its rows, unless another process has; the old ones stay until then."""
    path, scratch = unit.path(folder), unit.scratch(folder)
    with locked(path, f"{unit.experiment} {unit.name}"):
        if is_current(unit, folder):
            return
        started, begin = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        code, at = unit.source, commit()
        result = unit.run(scratch)
        facts = {
            "experiment": unit.experiment, "unit": unit.name, "profile": unit.profile,
            "numbers": plain(unit.numbers), "source": code, "commit": at,
            "started": started, "seconds": round(time.perf_counter() - begin, 3),
        }  # fmt: skip
        write(path, result.rows, result.facts | facts)
        for old in set(path.parent.glob(f"{path.stem}.*.pt")) - {scratch}:
            old.unlink()


def write(path: Path, rows: "pd.DataFrame", facts: dict[str, Any]) -> None:
    """The table, then the provenance that names its hash."""
    if rows.empty:
        raise StoreError(f"There are no rows to save as {path}.")
    content = rows.to_csv(index=False, lineterminator="\n").encode()
    write_whole(path, content)
    write_whole(path.with_suffix(".json"), to_json(facts | {"table": digest(content)}))


def retire(units: Iterable[Unit], folder: Path | None = None) -> None:
    """Have these made anew; their rows stay on disk until then."""
    for unit in units:
        if exists(unit, folder):
            path = unit.path(folder)
            facts = provenance(path) | {"source": "retired"}
            write_whole(path.with_suffix(".json"), to_json(facts))
        unit.scratch(folder).unlink(missing_ok=True)


def move(units: Iterable[Unit], old: Path, new: Path) -> None:
    """Rows from one folder to another, where they replace those that were there."""
    for unit in units:
        for suffix in (".csv", ".json"):
            target = unit.path(new).with_suffix(suffix)
            target.parent.mkdir(parents=True, exist_ok=True)
            unit.path(old).with_suffix(suffix).replace(target)
