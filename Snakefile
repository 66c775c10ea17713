"""The order of work, on a laptop or on a cluster.

    snakemake --cores 2 --config profile=quick     the report of a profile
    snakemake --cores 2 --config sweep=FOLDER      a grid of points, as FOLDER/plan.json has it;
                                                   FOLDER as seen from here

`replication report` and `replication sweep` call this, and add a plan, progress, and errors that
are easy to read. A job is stale when its parameters, its notebook, or the code of the package that
the notebook runs has changed; comments and docstrings do not count. Rows that are missing, stale
or damaged are found by `replication report`, which then asks for the job again. Snakemake deletes
what it makes before it makes it again; so it makes JOB.done, and JOB.ipynb, JOB.html and
report.pdf are replaced only by whole ones.
"""

import re
import sys

from replication.store import BUILD, ROOT
from replication.workflow import notebooks, prepare, report_code, report_files, report_jobs, sweep

PYTHON = sys.executable
PROFILE = config.get("profile", "quick")
IS_HERE = config.get("executor", "local") == "local"
IS_SWEEP = "sweep" in config
TRIES = PROFILE == "smoke" and not IS_SWEEP  # its times decide nothing: jobs share cores
CORES = 1 if TRIES or not IS_HERE else workflow.cores  # of one job; a cluster's profile may say otherwise
THREADS = config.get("threads", CORES)  # of a training notebook
FOLDER = (ROOT / config["sweep"]).resolve() if IS_SWEEP else BUILD / PROFILE
JOBS = {job.name: job for job in (sweep.load(FOLDER).jobs() if IS_SWEEP else report_jobs(PROFILE))}
NOTEBOOKS = {job.notebook for job in JOBS.values()}
CODE = {notebook: notebooks.code_of(notebook) for notebook in NOTEBOOKS}
WORK = {notebook: notebooks.work_of(notebook) for notebook in NOTEBOOKS}
ARTICLE = [] if IS_SWEEP else report_files()

prepare(FOLDER, JOBS.values())


def inputs(wildcards):
    job = JOBS[wildcards.job]
    rows = [f"{name}.done" for name in job.needs]
    return {"notebook": job.notebook, "parameters": f"{job.name}.json", "rows": rows}


def code(wildcards):
    """Another one makes a job stale."""
    return CODE[JOBS[wildcards.job].notebook]


def names(work):
    """A pattern of the jobs whose notebooks do this kind of work."""
    found = [re.escape(job.name) for job in JOBS.values() if WORK[job.notebook] == work]
    return "|".join(found) or "(?!)"


RUN = (
    "{PYTHON:q} -m replication run {input.notebook:q} -f {input.parameters:q}"
    + " --out {wildcards.job:q}.ipynb"
    + ("" if IS_SWEEP else " --page")
)
DONE = " > {log:q} 2>&1 && date > {output:q}"


workdir: FOLDER


localrules:
    all,
    report,


rule all:
    input:
        expand("{job}.done", job=JOBS),
        ["report.done"] if ARTICLE else [],


rule reading:
    """A notebook that computes little."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    params:
        code=code,
    wildcard_constraints:
        job=names("reading"),
    shell:
        RUN + DONE


rule training:
    """A notebook that trains as many models side by side as it is given cores."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    params:
        code=code,
    wildcard_constraints:
        job=names("training"),
    threads: THREADS
    shell:
        RUN + " -p workers {threads}" + DONE


rule timing:
    """A notebook that reads the clock: it has all cores, so that nothing runs beside it."""
    input:
        unpack(inputs),
    output:
        "{job}.done",
    log:
        "{job}.log",
    params:
        code=code,
    wildcard_constraints:
        job=names("timing"),
    threads: CORES
    shell:
        RUN + DONE


rule report:
    """The article, from the rows of this profile."""
    input:
        expand("{job}.done", job=JOBS),
        ARTICLE,
    output:
        "report.done",
    log:
        "report.log",
    params:
        code=report_code() if ARTICLE else "",
    shell:
        "{PYTHON:q} -m replication render --profile {PROFILE:q}" + DONE
