"""A sweep through a real Slurm on this one machine. `make test-cluster` calls this.

It installs Slurm from Debian's packages if need be, writes a configuration, starts the daemons,
and runs the same small sweep here and through the queue. There the driver is killed, and must take
its jobs back when it is called again; then a job is killed, and must be tried again. Both tables
must be equal up to times. At the end all daemons are stopped and the configuration is removed; the
packages stay.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workflow_cases import ROOT, call, importable, start, until

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
CONFIG = Path("/etc/slurm/slurm.conf")
OURS = "# Written by tests/cluster/run.py, which removes it at its end."
SWEEP = (
    "sweep", "03", "--profile", "smoke", "-p", "setting", "paper", "-p", "seeds", "0",
    "-p", "attentions", "softmax", "linear", "-p", "lengths", "8", "16", "--cores", "2",
)  # fmt: skip
TIMES = ["seconds"]


def check() -> None:
    """Say what is missing before anything is changed."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("This test installs and starts a Slurm of its own: it needs root on Debian or "
                 "Ubuntu. Run it in a container, such as one of debian:12.")  # fmt: skip
    if CONFIG.exists() and OURS not in CONFIG.read_text():
        sys.exit(f"{CONFIG} belongs to a Slurm that is in use here. It is left alone: run this "
                 "test on another machine.")  # fmt: skip


def install() -> None:
    if all(map(shutil.which, ("slurmctld", "slurmd", "squeue", "munged", "setpriv"))):
        return
    print("Installing Slurm ...", flush=True)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        subprocess.run(["apt-get", "--quiet=2", *command], env=env, check=True)


def configuration(state: Path) -> str:
    host, cores = socket.gethostname().split(".")[0], os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return f"""{OURS}
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/d
SlurmctldPidFile={state}/ctld.pid
SlurmdPidFile={state}/d.pid
SlurmctldLogFile={state}/ctld.log
SlurmdLogFile={state}/d.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
AccountingStorageType=accounting_storage/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def resolvable() -> Iterator[None]:
    """This machine's name leads to 127.0.0.1 for as long as the daemons run."""
    host, hosts = socket.gethostname().split(".")[0], Path("/etc/hosts")
    before = hosts.read_text()
    hosts.write_text(f"127.0.0.1 {host}\n{before}")
    try:
        yield
    finally:
        hosts.write_text(before)


@contextmanager
def configured(state: Path) -> Iterator[None]:
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(configuration(state))
    try:
        yield
    finally:
        CONFIG.unlink()


@contextmanager
def daemon(*command: str) -> Iterator[None]:
    """A daemon in the foreground, so that its process is known and ends with this one."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def munge() -> Iterator[None]:
    """Slurm's way to know who calls."""
    for folder in ("/run/munge", "/var/lib/munge", "/var/log/munge", "/etc/munge"):
        Path(folder).mkdir(exist_ok=True)
        shutil.chown(folder, "munge", "munge")
    key = Path("/etc/munge/munge.key")
    if not key.exists():
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        shutil.chown(key, "munge", "munge")
    ids = ("--reuid=munge", "--regid=munge", "--clear-groups")
    with daemon("setpriv", *ids, "munged", "--foreground", "--force"):
        until(lambda: Path("/run/munge/munge.socket.2").exists(), 30)
        yield


@contextmanager
def slurm() -> Iterator[None]:
    """A cluster of one machine."""
    host = socket.gethostname().split(".")[0]
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        stack.enter_context(resolvable())
        stack.enter_context(configured(state))
        stack.enter_context(munge())
        stack.enter_context(daemon("slurmctld", "-D", "-c"))
        stack.enter_context(daemon("slurmd", "-D", "-N", host))
        until(lambda: "idle" in asked("sinfo", "--noheader", "--format=%t"), 60)
        yield


def asked(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def running() -> list[str]:
    """Jobs that run in the queue, the oldest first."""
    return asked("squeue", "--noheader", "--states=RUNNING", "--sort=i", "--format=%i").split()


def kill_driver(project: Path, *typed: str) -> list[str]:
    """End the driver while jobs of its are running; those jobs."""
    child = start(project, *typed)
    until(running)
    child.kill()
    child.communicate()
    left = running()
    assert left, "the jobs ended with the driver, so this shows nothing"
    return left


def kill_job(before: list[str]) -> str:
    """Kill the first new job that has run for some seconds, as a failing node would.

    None of those before may run beside it.
    """
    until(lambda: set(running()) - set(before))
    assert not set(before) & set(running()), "jobs of the killed driver run beside the new ones"
    job = min(set(running()) - set(before), key=int)
    time.sleep(5)
    subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True)
    return job


def table(project: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(project / f"results/sweeps/{name}/table.csv").drop(columns=TIMES)


def sweep_twice(project: Path) -> None:
    """Here, and through the queue in spite of all."""
    print(call(project, *SWEEP, "--name", "here"), flush=True)
    typed = (*SWEEP, "--name", "queue", "--executor", "slurm")
    left = kill_driver(project, *typed)
    print(f"Killed the driver while jobs {', '.join(left)} were running.", flush=True)
    child = start(project, *typed)
    print(f"Killed job {kill_job(left)} of the next driver.", flush=True)
    said, complained = child.communicate()
    print(said, complained, flush=True)
    assert child.returncode == 0, "the sweep did not survive the loss of a job"
    log = (project / "results/sweeps/queue/snakemake.log").read_text()
    assert "Trying to restart job" in log, "the killed job was not tried again"
    pd.testing.assert_frame_equal(table(project, "here"), table(project, "queue"))


def main() -> None:
    check()
    install()
    with tempfile.TemporaryDirectory(prefix="sweep-") as scratch, slurm():
        project = Path(scratch) / "project"
        for name in ("replication", "workflow", "notebooks"):
            shutil.copytree(ROOT / name, project / name)
        shutil.copy(ROOT / "Snakefile", project)
        importable(project).symlink_to(project)
        sweep_twice(project)
    print("Passed: the table from Slurm equals the one from here, but for times.")


if __name__ == "__main__":
    main()
