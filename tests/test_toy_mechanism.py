"""A file and its equations are a mechanism: it is compared, trained, timed and drawn."""

import os
import shutil
import subprocess
import sys

import pytest
from contributing_cases import add_mechanism
from workflow_cases import ROOT

PROGRAM = """
import torch
from replication import attention, reference

card = attention.mechanism("cosine")
assert "cosine" in attention.trained() and "cosine" in attention.contenders()

# compared with the reference, values and gradients, with an awkward size and padding
for N, causal in ((1, False), (2, True), (65, False), (65, True)):
    Q, K, V = (torch.randn(2, 2, N, size, dtype=torch.float64, requires_grad=True)
               for size in (3, 3, 5))
    found = card(Q, K, V, causal=causal)
    with torch.enable_grad():
        expected = reference.batched("cosine", Q, K, V, causal=causal)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((x * weight).sum(), (Q, K, V)) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)
print("compared")

# trained
from replication.experiments.copy_task import run, studies

study = studies.resolve("paper", "smoke", attentions="cosine", lengths="8", seeds="0", steps=3)
(one,) = study.runs()
outcome = run.train_run(one)
assert len(outcome.rows) == 3 and not outcome.failure
print("trained")

# timed and drawn
from replication.experiments.scaling import figures
from replication.experiments.scaling import numbers as sizes
from replication.experiments.scaling import run as scaling

settings = sizes.resolve("smoke", contenders="linear, cosine", lengths="8, 16, 32")
rows = scaling.ensure(settings).layer
assert set(rows.contender) >= {"linear", "cosine"}
print("timed")
figure = figures.growth(rows)
labels = {text.get_text() for part in [figure, *figure.axes] for legend in
          [*getattr(part, "legends", []), getattr(part, "legend_", None)] if legend
          for text in legend.get_texts()}
assert card.look.label in labels, labels
print("drawn")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = tmp_path_factory.mktemp("mechanism")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "replication", project / "replication", ignore=ignore)
    add_mechanism(project)
    return project


def test_two_files_make_a_mechanism(project):
    """In a copy of the package that has the worked example of CONTRIBUTING.md and nothing else."""
    program = project / "program.py"
    program.write_text(f"if __name__ == '__main__':\n{indented(PROGRAM)}")
    env = os.environ | {"PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    env["REPLICATION_KERNEL"] = "pytorch"  # compiling the other one is not what is tried
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["compared", "trained", "timed", "drawn"]


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
