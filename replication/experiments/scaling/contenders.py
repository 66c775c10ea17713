"""What is timed: kinds of measurement, the lengths of each, and a call of every contender."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from replication import attention, measure
from replication.experiments.scaling.numbers import LAYER, SEED, STEP, THREAD, WALL, Scaling

if TYPE_CHECKING:
    from replication.experiments.copy_task.studies import Run

Calls = dict[str, Callable[[], object]]
Models = Mapping[str, "Run"]
"""By setting: a run of the copy task, whose model and batch are timed."""
NO_MODELS: Models = MappingProxyType({})
BYTES_LINEAR, BYTES_SQUARE = 50, 3.5
"""What a call needs at most, in units of one input and of its N x N weights: LSH with four rounds
and textbook softmax, forward and backward, counted; the others need less."""


class Group(NamedTuple):
    """One size at which contenders are compared; with a contender it is a cell."""

    subject: str
    direction: str
    """forward, training (forward and backward), or step, of a model."""
    causal: bool
    clock: str
    heads: int
    head_dim: int
    dtype: str
    N: int
    batch: int

    def __str__(self) -> str:
        mask = "causal" if self.causal else "all keys"
        return f"{self.subject}, {self.direction}, {mask}, {self.clock}"


CELL = ("contender", *Group._fields)
"""The columns that name a cell."""


def kinds(s: Scaling, models: Models = NO_MODELS) -> list[list[Group]]:
    """What is measured together, in rounds: all lengths of one layer in one setting, or of a model.

    The first is what the claims are about. Models have what positions allow of their batch.
    """
    on_wall = s.threads > 1 or measure.pick_device(s.device).type != "cpu"
    clock, found = WALL if on_wall else THREAD, []
    asked = list(product(s.directions, s.causal))
    every = [(*one, s.lengths, clock) for one in asked]
    if s.other_lengths:
        others = product(("training", "forward"), (True, False))
        every += [(*one, s.other_lengths, clock) for one in others if one not in asked]
    every += [("training", True, s.thread_lengths, WALL)] * bool(s.thread_lengths)
    for direction, causal, lengths, by in every:
        sizes = [(N, max(1, min(s.samples, s.tokens // N))) for N in lengths]
        found.append([Group(LAYER, direction, causal, by, s.heads, s.head_dim, s.dtype, *size)
                      for size in sizes])  # fmt: skip
    for setting, run in models.items():
        found.append([Group(setting, STEP, True, clock, run.n_heads, run.d_model // run.n_heads,
                            "float32", N, max(1, min(run.batch_size, s.model_tokens // N)))
                      for N in s.model_lengths])  # fmt: skip
    return found


def contenders(s: Scaling, group: Group) -> tuple[str, ...]:
    """Of a group: in settings that no claim is about, those that crossovers are asked of."""
    if group.subject != LAYER:
        return s.model_contenders
    main = (group.direction, group.causal) in product(s.directions, s.causal)
    names = [c for c in s.contenders if (main and group.clock != WALL) or not c.startswith("lsh")]
    if not group.causal:  # one kernel of ours: without a mask there is nothing to compile
        names = [c for c in names if c != "linear-pytorch"]
    return tuple(c for c in names if c == "linear" or s.rivals_until >= group.N)


def obstacle(name: str, group: Group, free: float) -> str:
    """Why a contender cannot take part in a group; empty if it can."""
    card = attention.contenders()[name].mechanism
    if why := card.unavailable(group.dtype):
        return why
    values = group.batch * group.heads * group.N * getattr(torch, group.dtype).itemsize
    needed = values * (
        BYTES_LINEAR * group.head_dim + BYTES_SQUARE * group.N * (card.memory_power > 1)
    )
    if group.subject == LAYER and needed > free:
        return f"memory: up to {needed / 1e9:.3g} GB needed, {free / 1e9:.3g} GB are free"
    return ""


def words() -> dict[str, str]:
    """What sentences call every contender."""
    return {name: form.look.words for name, form in attention.contenders().items()}


def code_of(names: Iterable[str]) -> tuple[Callable, ...]:
    """The mechanisms' own functions, with the options of their contenders."""
    forms = [attention.contenders()[name] for name in names]
    return tuple(partial(form.mechanism.attend, **form.options) for form in forms)


def layer_calls(names: Iterable[str], group: Group, device: torch.device) -> Calls:
    """One forward pass of a layer, and one backward pass if training; inputs are drawn once.

    Contenders share their inputs, which stay in memory once. Somebody else's program takes
    [B, N, H, D]: its inputs are laid out like that and transposed, so that nothing is copied.
    """
    shape = (group.batch, group.heads, group.N, group.head_dim)
    generator, dtype = torch.Generator().manual_seed(SEED), getattr(torch, group.dtype)
    ours = [torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4)]
    forms, inputs = {name: attention.contenders()[name] for name in names}, {False: ours}
    if any(form.mechanism.is_peer for form in forms.values()):
        inputs[True] = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in ours]
    for Q, K, V, _ in inputs.values():
        for x in (Q, K, V):
            x.requires_grad_(group.direction == "training")
    return {
        name: _call(partial(form.mechanism, causal=group.causal, **form.options),
                    *inputs[form.mechanism.is_peer])
        for name, form in forms.items()
    }  # fmt: skip


def _call(
    layer: Callable, Q: Tensor, K: Tensor, V: Tensor, upstream: Tensor
) -> Callable[[], object]:
    """Gradients do not outlive a call, so that each call needs the memory of the first."""

    @torch.no_grad()
    def forward() -> Tensor:
        return layer(Q, K, V)

    def forward_and_backward() -> None:
        layer(Q, K, V).backward(upstream)
        Q.grad = K.grad = V.grad = None

    return forward_and_backward if Q.requires_grad else forward


def models_of(s: Scaling) -> Models:
    """The copy task's runs whose models are timed, at all lengths that are asked for."""
    from replication.experiments.copy_task.studies import resolve

    one = {"attentions": "linear", "lengths": s.model_lengths, "seeds": 0, "device": s.device}
    return {name: next(resolve(name, s.model_profile, **one).runs()) for name in s.models}


def step_calls(names: Iterable[str], group: Group, run: "Run", device: torch.device) -> Calls:
    """A training step as training makes it; parameters and their moments stay in memory."""
    from replication.experiments.copy_task.run import new_training

    sizes = {"length": group.N, "batch_size": group.batch, "device": str(device)}
    endless = {"steps": 10**9, "eval_every": 10**9}  # it never evaluates
    calls = {}
    for name in names:
        form = attention.contenders()[name]
        own = {f"{form.mechanism.name}_{key}": value for key, value in form.options.items()}
        mine = replace(run, attention=form.mechanism.name, **sizes, **endless, **own)
        calls[name] = partial(_step, new_training(mine))
    return calls


def _step(training) -> None:
    training.advance()
    training.optimiser.zero_grad()  # so that every step needs the memory of the first
