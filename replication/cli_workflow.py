"""The commands ``run``, ``sweep``, ``report``, ``render`` and ``doctor``. No science here."""

import argparse
import os
from pathlib import Path

from replication.config import PROFILE_NAMES
from replication.results import ROOT


def add(commands) -> None:
    _add_run(commands)
    _add_sweep(commands)
    _add_report(commands)
    doctor = commands.add_parser("doctor", help="what this machine can do, and what is missing")
    doctor.set_defaults(run=_doctor)


# run --------------------------------------------------------------------------------------------


def _add_run(commands) -> None:
    parser = _about_a_notebook(commands, "run", "run one notebook by papermill")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
                        dest="parameters", help="set a parameter of the notebook")  # fmt: skip
    parser.add_argument("--out", type=Path, default=None, help="default: build/NOTEBOOK")
    parser.set_defaults(run=_run, parser=parser)


def _about_a_notebook(commands, name: str, help: str) -> argparse.ArgumentParser:
    """A command whose --help shows the parameters of a notebook too."""
    parser = commands.add_parser(name, help=help, add_help=False)
    parser.add_argument("notebook", nargs="?", help="its number, such as 03, or its path")
    parser.add_argument("-h", "--help", action="store_true", dest="explain",
                        help="show this, and the named notebook's parameters")  # fmt: skip
    parser.add_argument("--profile", choices=PROFILE_NAMES, help="the same as -p profile")
    return parser


def _only_explains(options: argparse.Namespace) -> bool:
    from replication import notebooks

    if options.notebook is None and not options.explain:
        options.parser.error("name a notebook, such as 03")
    if options.explain:
        options.parser.print_help()
    if options.explain and options.notebook is not None:
        print("\n" + notebooks.describe(notebooks.find(options.notebook)))
    return options.explain


def _values(options: argparse.Namespace, notebook: Path) -> dict[str, list]:
    """Every parameter that was typed with its values, checked."""
    from replication import notebooks

    profile = [("profile", [options.profile])] if options.profile else []
    return notebooks.read(notebook, profile + [(n, v) for n, *v in options.parameters])


def _run(options: argparse.Namespace) -> int:
    from replication import notebooks

    if _only_explains(options):
        return 0
    notebook = notebooks.find(options.notebook)
    given = {name: value for name, (value,) in _values(options, notebook).items()}
    out = notebooks.run(notebook, given, options.out or notebooks.BUILD / notebook.name)
    print(f"Executed: {out}")
    return 0


# sweep ------------------------------------------------------------------------------------------


def _add_sweep(commands) -> None:
    parser = _about_a_notebook(commands, "sweep", "run a notebook for every point of a grid")
    parser.add_argument("-p", nargs="+", action="append", default=[], dest="parameters",
                        metavar="NAME VALUE", help="several values make a grid")  # fmt: skip
    parser.add_argument("--name", help="of its folder in results/sweeps/; default: what it does")
    parser.add_argument("--table", help="which table to collect; default: the notebook's main one")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and run nothing")
    _add_machine(parser)
    parser.set_defaults(run=_sweep, parser=parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cores", type=_at_least_one, default=_cores(), metavar="N",
                        help="to be used at once; default: all, %(default)s")  # fmt: skip
    parser.add_argument("--executor", default="local", choices=_executors(),
                        help="where to run: here, or as workflow/ says")  # fmt: skip


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few, choose at least 1")
    return int(text)


def _executors() -> list[str]:
    return ["local", *sorted(path.parent.name for path in ROOT.glob("workflow/*/config.yaml"))]


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _sweep(options: argparse.Namespace) -> int:
    from replication import notebooks, sweep, workflow

    if _only_explains(options):
        return 0
    notebook = notebooks.find(options.notebook)
    grid = sweep.plan(notebook, _values(options, notebook), options.name, options.table)
    with workflow.alone(grid.folder, options.executor):
        sweep.save(grid)
        workflow.drop_lost(grid.folder, grid.jobs())
        settings = {"sweep": os.path.relpath(grid.folder, ROOT), "threads": 1}
        drive = workflow.Drive(grid.folder, settings, options.cores, options.executor)
        waiting = drive.pending()
        settings["threads"] = _threads(options, len(waiting))
        may_try = options.executor == "local" and not options.dry_run
        at_once = _at_once(options, notebook)
        sweep.announce(grid, len(waiting), settings["threads"], at_once, may_try)
        if options.dry_run:
            return 0
        code = workflow.explain(drive.run(list(waiting), "point"))
        if points := len(grid.finished()):
            table = sweep.collect(grid)
            print(f"{len(table)} rows of {points} points: {grid.folder / 'table.csv'}")
    return code


def _threads(options: argparse.Namespace, waiting: int) -> int:
    """Of one point: its share of the cores; on a cluster one, unless its profile says otherwise."""
    return max(1, options.cores // max(1, waiting)) if options.executor == "local" else 1


def _at_once(options: argparse.Namespace, notebook: Path) -> int | None:
    """How many points may run side by side; None where a cluster decides."""
    from replication import notebooks

    if options.executor != "local":
        return None
    return 1 if notebooks.role(notebook) == "timing" else options.cores


# report -----------------------------------------------------------------------------------------


def _add_report(commands) -> None:
    report = commands.add_parser("report", help="run what is missing or stale, build the report")
    report.add_argument("--profile", default="quick", choices=PROFILE_NAMES)
    report.add_argument("--fresh", action="store_true", help="measure anew, whatever was saved; "
                        "if that was broken off, go on with it")  # fmt: skip
    _add_machine(report)
    report.set_defaults(run=_report)
    render = commands.add_parser("render", help="build the report from the rows there are")
    render.add_argument("--profile", default="quick", choices=PROFILE_NAMES)
    render.set_defaults(run=_render)


def _report(options: argparse.Namespace) -> int:
    from replication import notebooks, workflow

    folder = notebooks.BUILD / options.profile
    settings = {"profile": options.profile, "rows": "fresh" if options.fresh else "auto"}
    with workflow.alone(folder, options.executor):
        workflow.drop_lost(folder, workflow.report_jobs(options.profile))
        if options.fresh:
            workflow.drop_all(folder)
        drive = workflow.Drive(folder, settings, options.cores, options.executor)
        waiting = drive.pending()
        print(workflow.overview(folder, waiting), flush=True)
        code = workflow.explain(drive.run(list(waiting), "file"))
        if not code:
            (folder / workflow.FRESH).unlink(missing_ok=True)
    print(f"Pages, executed notebooks and report: {folder}")
    return code


def _render(options: argparse.Namespace) -> int:
    from replication import notebooks, workflow

    if not workflow.report_sources():
        raise ValueError(f"There is no {workflow.PAPER / 'report.ipynb'} to render.")
    from replication.report.build import build

    print("Executing the report's notebook, then setting it: less than a minute ...", flush=True)
    with workflow.alone(notebooks.BUILD, wait=True):  # it may be the last step of hours
        made = build(options.profile)
    print(f"Report of profile {options.profile}: {', '.join(map(str, made))}")
    return 0


# doctor -----------------------------------------------------------------------------------------


def _doctor(options: argparse.Namespace) -> int:
    from replication import doctor

    found = doctor.examine()
    print(doctor.table(found))
    print(doctor.durations())
    return int(any(check.is_needed and not check.is_fine for check in found))
