"""One model of a run: how it begins, how it is trained, and how it is found again."""

from pathlib import Path

import torch
from torch import nn

from replication import train
from replication.attention import contenders
from replication.data import load
from replication.experiments.images.likelihood import VALUES
from replication.experiments.images.numbers import Run, Study
from replication.experiments.images.task import ImageTask, PixelModel
from replication.model import Sizes
from replication.store import StoreError, Unit


def new_model(run: Run) -> nn.Module:
    """The model at the start. For one seed, mechanisms differ in no weight that they share."""
    form = contenders()[run.attention]
    options = dict(form.options)
    if form.mechanism.seeded:
        options |= {"buckets": run.lsh_buckets, "chunk": run.lsh_chunk}
    sizes = Sizes(
        form.mechanism.name, run.d_model, run.n_heads, run.n_layers, run.d_ff, VALUES, run.length,
        run.dropout, "relu", "concatenated", options,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.hashed("weights", run.seed))
        return PixelModel(sizes, run.mixtures)


def task_of(numbers: Run | Study, data: str = "") -> ImageTask:
    """The task of a run. Its bytes are pinned, so how they are fetched makes no rows stale."""
    return ImageTask(load(numbers.dataset, data), numbers.side)


def train_run(
    run: Run, task: ImageTask, checkpoint: Path | None = None, progress: bool = False
) -> train.Outcome:
    return train.train(new_model(run), task, run, checkpoint, progress=progress)


def trained_model(unit: Unit, folder: Path | None = None) -> nn.Module:
    """The model that a finished unit has left in its checkpoint. Nothing is trained here."""
    run, path = Run(**unit.numbers), unit.scratch(folder)
    if not path.exists():
        raise StoreError(
            f"The weights of {run.name} are not here: there is no checkpoint {path}. Its rows may "
            "be saved without it; nothing is trained unasked. Train it, and all that is compared "
            f"with it, by\n    {unit.remedy} -p rows fresh"
        )
    training = train.Training(new_model(run), None, run)
    training.restore(path)
    if training.step < run.steps:
        raise StoreError(
            f"{run.name} has done {training.step} of {run.steps} steps. "
            f"{training.failure or f'Resume it by{chr(10)}    {unit.remedy}'}"
        )
    return training.model.eval()
