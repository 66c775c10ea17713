"""The order of work, on a laptop or on a cluster.

    snakemake --cores 2 --config profile=quick     the report of a profile
    snakemake --cores 2 --config sweep=FOLDER      a grid of points, as FOLDER/plan.json has it;
                                                   FOLDER as seen from here

`replication report` and `replication sweep` call this, and add a plan, progress, and errors that
are easy to read. A job is stale when its parameters, its notebook, or a source file that the
notebook imports has another content than when it ran. Snakemake deletes what it makes before it
makes it again; so it makes JOB.done, and JOB.ipynb is replaced only by a whole one.
"""

import re
import sys

from replication import notebooks, sweep
from replication.results import ROOT
from replication.workflow import prepare, report_jobs, report_sources

PYTHON = sys.executable
PROFILE = config.get("profile", "quick")
ROWS = config.get("rows", "auto")  # or fresh: measured anew, whatever was saved
IS_HERE = config.get("executor", "local") == "local"
CORES = workflow.cores if IS_HERE else 1  # of one job; a cluster's profile may say otherwise
THREADS = config.get("threads", CORES)  # of a training notebook
IS_SWEEP = "sweep" in config
FOLDER = (ROOT / config["sweep"]).resolve() if IS_SWEEP else notebooks.BUILD / PROFILE
JOBS = {job.name: job for job in (sweep.load(FOLDER).jobs() if IS_SWEEP else report_jobs(PROFILE))}
NOTEBOOKS = {job.notebook for job in JOBS.values()}
SOURCES = {notebook: notebooks.source_files(notebook) for notebook in NOTEBOOKS}
ROLES = {notebook: notebooks.role(notebook) for notebook in NOTEBOOKS}
ARTICLE = [] if IS_SWEEP else report_sources()

prepare(FOLDER, JOBS.values())


def inputs(wildcards):
    job = JOBS[wildcards.job]
    return {
        "notebook": job.notebook,
        "parameters": f"{job.name}.yaml",
        "sources": SOURCES[job.notebook],
        "rows": [f"{name}.done" for name in job.needs],
    }


def names(role):
    """A pattern of the jobs whose notebooks do this kind of work."""
    found = [re.escape(job.name) for job in JOBS.values() if ROLES[job.notebook] == role]
    return "|".join(found) or "(?!)"


def papermill(*options):
    """The executed notebook takes its place once it is whole; till then it is .part.ipynb."""
    return " ".join(
        (
            "{PYTHON:q} -m papermill {input.notebook:q} {wildcards.job:q}.part.ipynb",
            '-f {input.parameters:q} --cwd "$(dirname {input.notebook:q})" -k python3',
            "--no-progress-bar",
            *options,
            "> {log:q} 2>&1 && mv {wildcards.job:q}.part.ipynb {wildcards.job:q}.ipynb",
            "&& date > {output:q}",
        )
    )


workdir: FOLDER


localrules:
    all,
    page,
    report,


rule all:
    input:
        expand("{job}.done", job=JOBS),
        [] if IS_SWEEP else expand("{job}.html", job=JOBS),
        ["report.pdf", "report.html"] if ARTICLE else [],


rule reading:
    """A notebook that computes little."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    wildcard_constraints:
        job=names("reading"),
    shell:
        papermill()


rule training:
    """A notebook that trains as many models side by side as it is given cores."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    wildcard_constraints:
        job=names("training"),
    threads: THREADS
    shell:
        papermill("-p rows {ROWS:q} -p workers {threads}")


rule timing:
    """A notebook that reads the clock: it has all cores, so that nothing runs beside it."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    wildcard_constraints:
        job=names("timing"),
    threads: CORES
    shell:
        papermill("-p rows {ROWS:q}")


rule page:
    """An executed notebook as one file that any browser shows."""
    input:
        "{job}.done",
    output:
        "{job}.html",
    wildcard_constraints:
        job="|".join(map(re.escape, JOBS)),
    log:
        "{job}.page.log",
    shell:
        "{PYTHON:q} -m nbconvert --to html --embed-images {wildcards.job:q}.ipynb > {log:q} 2>&1"


rule report:
    """The article, from the rows of this profile."""
    input:
        expand("{job}.done", job=JOBS),
        ARTICLE,
    output:
        "report.pdf",
        "report.html",
    log:
        "report.log",
    shell:
        "{PYTHON:q} -m replication render --profile {PROFILE:q} > {log:q} 2>&1"
