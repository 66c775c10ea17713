"""The command ``replication``: what a user types. No science, and nothing slow before it is needed.

Experiments bring commands of their own; those of two words share the first one.
"""

import argparse
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from replication import experiments
from replication.experiments.base import PROFILES, count, later
from replication.store import BUILD, PAPER, RESULTS, ROOT, StoreError, writable


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. See {self.prog} --help.")


def main(arguments: list[str] | None = None) -> int:
    from replication.workflow.notebooks import hint

    try:
        options = parser().parse_args(arguments)
        options.is_command = arguments is None  # and not a call from Python: this process is for it
        if options.is_command:  # a terminal that knows few letters shows ? for the others
            sys.stdout.reconfigure(errors="replace")
        code = options.run(options)
        sys.stdout.flush()
        return code
    except StoreError as error:
        said = str(error)
    except ValueError as error:
        if not _raised_here(error):  # a library's words do not say what to do: it is a bug
            raise
        said = str(error)
    except BrokenPipeError:  # whoever reads this, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as of a program that SIGPIPE ends
    except OSError as error:
        if not hint(str(error)):  # it is no trouble of the disk, but a bug
            raise
        said = f"{error}\n{hint(str(error))}".strip()
    except ModuleNotFoundError as error:
        said = f"{error}. Call make setup, which repairs .venv."
    except KeyboardInterrupt:
        print("\nStopped. What was saved stays: call the same command again to resume.",
              file=sys.stderr)  # fmt: skip
        return 130
    print(f"replication: {said}", file=sys.stderr)
    return 2


def _raised_here(error: Exception) -> bool:
    """Whether the last line that ran is one of this package."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return Path(last.f_code.co_filename).is_relative_to(Path(__file__).parent)


def parser() -> argparse.ArgumentParser:
    found = Parser("replication", description="Run and measure the replication on this machine.")
    commands = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_notebook_commands(commands)
    _add_report_commands(commands)
    doctor = commands.add_parser("doctor", help="what this machine can do, and what is missing")
    doctor.add_argument("--json", action="store_true", help="for scripts; default: a table")
    doctor.set_defaults(run=later("replication.workflow.doctor:report"))
    groups = {}
    for command in (c for one in experiments.every().values() for c in one.commands):
        *first, last = command.name.split()
        if first and first[0] not in groups:
            group = commands.add_parser(first[0], help=f"{first[0]} {last}, and others like it")
            groups[first[0]] = group.add_subparsers(dest="what", required=True, metavar="WHAT")
        one = (groups[first[0]] if first else commands).add_parser(last, help=command.help)
        command.arguments(one)
        one.set_defaults(run=command.run)
    return found


def _add_machine(parser: argparse.ArgumentParser) -> None:
    known = ["local", *sorted(path.parent.name for path in ROOT.glob("workflow/*/config.yaml"))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--cores", type=count(1024), default=cores, metavar="N",
                        help="to be used at once; default: all, %(default)s")  # fmt: skip
    parser.add_argument("--executor", default="local", choices=known,
                        help="where to run: here, or as workflow/ says")  # fmt: skip


# One notebook, or a grid of its parameters --------------------------------------------------


def _add_notebook_commands(commands) -> None:
    """Their --help shows the parameters of a notebook, too."""
    run = commands.add_parser("run", help="run one notebook by papermill", add_help=False)
    sweep = commands.add_parser("sweep", help="run it for every point of a grid", add_help=False)
    for one, does in ((run, _run), (sweep, _sweep)):
        one.add_argument("notebook", nargs="?", help="its number, experiment's name or path")
        one.add_argument("-h", "--help", action="store_true", dest="explain",
                         help="show this, and the named notebook's parameters")  # fmt: skip
        one.add_argument("--profile", choices=PROFILES, help="the same as -p profile")
        one.set_defaults(run=does, parser=one)
    many = {"action": "append", "default": [], "dest": "parameters"}
    run.add_argument("-p", nargs=2, metavar=("NAME", "VALUE"), help="set a parameter", **many)
    run.add_argument("-f", type=Path, metavar="FILE", help="a JSON file of parameters", dest="file")
    run.add_argument("--out", help="default: build/NOTEBOOK")
    run.add_argument("--page", action="store_true", help="write it as HTML, too")
    sweep.add_argument("-p", nargs="+", metavar="NAME VALUE", help="more values: a grid", **many)
    sweep.add_argument("--name", help="of its folder in results/sweeps/; default: what it does")
    sweep.add_argument("--table", metavar="EXPERIMENT", help="whose rows to collect, if the "
                       "notebook has several; default: the first")  # fmt: skip
    sweep.add_argument("--dry-run", action="store_true", help="show the plan and run nothing")
    _add_machine(sweep)


def _named(options: argparse.Namespace) -> tuple[Path, dict[str, list]] | None:
    """The notebook and every parameter that was typed with its values; None: it was explained."""
    from replication.workflow import notebooks

    notebook = notebooks.find(options.notebook) if options.notebook else None
    if options.explain:
        options.parser.print_help()
        print(f"\n{notebooks.describe(notebook)}" if notebook else "")
        return None
    if not notebook:
        raise ValueError("Name a notebook: its number, such as 03, its experiment or its path.")
    profile = [("profile", [options.profile])] if options.profile else []
    return notebook, notebooks.read(notebook, profile + [(n, v) for n, *v in options.parameters])


def _run(options: argparse.Namespace) -> int:
    from replication.workflow import notebooks

    if (named := _named(options)) is None:
        return 0
    notebook, values = named
    given = notebooks.read_file(options.file) if options.file else {}
    given |= {name: value for name, (value,) in values.items()}
    out = BUILD / notebook.name if options.out is None else Path(options.out)
    notebooks.check_out(notebook, out)
    notebooks.check(notebook, given)
    if options.page:
        _check_tools()
        if (page := out.with_suffix(".html")).exists() and not out.exists():
            raise ValueError(f"--page would replace {page}, which is of no notebook beside it. It "
                             "stays as it is: choose another --out.")  # fmt: skip
    writable(out.parent)
    if given.get("out") and notebooks.experiments_of(notebook):
        writable(notebook.parent / given["out"])
    print(f"Executed: {notebooks.run(notebook, given, out)}")
    if options.page:
        from replication.report import pages

        print(f"Its page: {pages.write(out)}")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from replication.workflow.sweep import plan, run

    if (named := _named(options)) is None:
        return 0
    grid = plan(*named, options.name, options.table)
    return run(grid, options.cores, options.executor, dry=options.dry_run)


# All of them, and what is made of them ------------------------------------------------------


def _add_report_commands(commands) -> None:
    report = commands.add_parser("report", help="run what is missing or stale, build the report")
    report.add_argument("--fresh", action="store_true", help="measure anew, whatever was saved; "
                        "if that was broken off, resume it")  # fmt: skip
    _add_machine(report)
    render = commands.add_parser("render", help="build the report from the rows of a profile")
    export = commands.add_parser("export", help="write the results of a profile as one file")
    export.add_argument("--out", type=Path, help="default: build/PROFILE.replication.zip")
    pool = commands.add_parser("pool", help="judge the exported files of several machines")
    pool.add_argument("files", type=Path, nargs="+", metavar="FILE")
    pool.add_argument("--out", type=Path, default=BUILD / "pool.md")
    pool.set_defaults(run=later("replication.report.pool:pool"))
    exporting = later("replication.report.pool:export")
    for one, run in ((report, _report), (render, _render), (export, exporting)):
        one.add_argument("--profile", default="quick", choices=PROFILES)
        one.set_defaults(run=run)


def _report(options: argparse.Namespace) -> int:
    from replication import workflow

    _check_tools()
    folder = BUILD / options.profile
    drive = workflow.Drive(folder, {"profile": options.profile}, options.cores, options.executor)
    with workflow.alone(folder):
        lost = workflow.drop_lost(folder, options.profile, fresh=options.fresh)
        waiting = {name: lost.get(name, why) for name, why in drive.pending().items()}
        print(f"To be made in {folder}:" if waiting else f"Nothing to do: {folder} is up to date.")
        print("".join(f"  {name}: {why}\n" for name, why in waiting.items()), end="", flush=True)
        code = drive.run(list(waiting), "job")
        if not code:
            (folder / workflow.FRESH).unlink(missing_ok=True)
    from replication import claims
    from replication.report import build, pages

    judged = claims.load(options.profile) if workflow.report_files() and not code else None
    table = build.verdicts(judged["claims"], "here") if judged else ""
    index = pages.write_index(folder, f"All pages of profile {options.profile}", table)
    print(f"Executed notebooks and their pages: {index}")
    if not workflow.report_files():
        print("There is no paper/report.ipynb: only pages are made.")
    elif not code:
        _tell(options.profile)
    return code


def _render(options: argparse.Namespace) -> int:
    from replication.workflow import report_files

    if not report_files():
        raise ValueError(f"There is no {PAPER / 'report.ipynb'} to render.")
    if not any((RESULTS / options.profile).glob("*/*.csv")):
        raise StoreError(f"There are no results in {RESULTS / options.profile}. Measure them with\n"
                         f"    replication report --profile {options.profile}")  # fmt: skip
    from replication.report.build import build
    from replication.report.run import lacking

    _check_tools()
    build(options.profile)
    _tell(options.profile)
    if gone := lacking(options.profile):
        print(f"Missing are units of {gone}: verdicts are of the others. Make them with\n"
              f"    replication report --profile {options.profile}", file=sys.stderr)  # fmt: skip
    return 0


def _check_tools() -> None:
    """What makes pages and the report, before minutes are spent on what they are to tell."""
    import typst  # noqa: F401

    from replication.report import pandoc

    pandoc.path()


def _tell(profile: str) -> None:
    """The verdicts, and where the report is."""
    from replication import claims

    found = claims.load(profile)["claims"]
    for claim in claims.claims():
        print(f"{claim.id}  {found[claim.id]['outcome']}: {found[claim.id]['evidence']}")
    print(f"Report of profile {profile}: {BUILD / profile / 'report.pdf'}")
