"""What a mechanism tells of itself, so that models, benchmarks, figures and tests need no list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn


class Look(NamedTuple):
    """How a mechanism looks in every figure: told apart by colour, and in grey by the rest."""

    label: str
    """In legends and tables, such as "softmax, fused"."""
    words: str
    """In sentences, such as "fused softmax"."""
    colour: Any
    marker: str
    dash: Any
    fine: bool = False
    """Drawn finer: no claim is about it."""


def shade(colour: str, by: float) -> tuple[float, ...]:
    """A colour made lighter (by > 0) or darker (by < 0), up to white and black at 1 and -1."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(part + (1 - part) * by if by > 0 else part * (1 + by) for part in parts)


class Memory(NamedTuple):
    """What a mechanism keeps from token to token."""

    kind: str
    """state: of constant size; cache: grows with every token."""
    begin: Callable[..., Any]
    """(like, batch, heads, length, size) -> what is remembered before the first token."""
    step: Callable[..., Tensor]
    """(memory, position, q, k, v, **options), each [B, H, size] -> V': k and v go in, in place."""
    look: Callable[..., Tensor]
    """(memory, q, length) -> V' of a query that takes nothing in and sees ``length`` tokens."""
    gather: Callable[[Tensor, Tensor], Any]
    """(K, V) [B, H, N, size] -> the memory of a whole sequence."""
    nbytes: Callable[[Any, int], int]
    """(memory, N) -> the bytes that N tokens fill."""


class Contender(NamedTuple):
    """A mechanism as a benchmark knows it: with its options fixed, by a name of its own."""

    name: str
    mechanism: "Mechanism"
    options: Mapping[str, Any]
    look: Look


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """The card of a mechanism; its file in this folder holds it as ``CARD`` or in ``CARDS``."""

    name: str
    attend: Callable[..., Tensor]
    """(Q, K, V, *, causal, key_lengths, **options) -> V', or (Q, V, ...) if keys are shared."""
    look: Look
    time_power: int
    """N^power is how the time of a layer grows: 1 or 2."""
    memory_power: int
    reference: str = ""
    """Its name in ``reference.REFERENCES``; empty: its own."""
    shared_keys: bool = False
    """Queries are keys: no projection for keys, no cross attention."""
    cross_attention: str = ""
    """The mechanism that looks into another sequence in its place; empty: itself."""
    seeded: bool = False
    """It draws random numbers, from the option ``seed``."""
    memory: Memory | None = None
    """None: it cannot go on from a memory, and decodes by full passes."""
    variants: Mapping[str, tuple[Mapping[str, Any], Look]] = field(default_factory=dict)
    """Its contenders by name, with options and look; empty: itself, with the defaults."""
    parameters: Callable[..., nn.Module] | None = None
    """(n_heads, head size, length) -> a module that is passed to ``attend`` as ``own``."""
    unavailable: Callable[[str], str | None] = lambda dtype: None
    """Why it cannot be run here with this type; None if it can."""
    is_peer: bool = False
    """Somebody else's program: an oracle and a rival, but part of no model of ours."""
    order: int = 100
    """Its place in legends and tables."""

    def __call__(self, Q: Tensor, K: Tensor, V: Tensor, **options: Any) -> Tensor:
        return self.attend(Q, V, **options) if self.shared_keys else self.attend(Q, K, V, **options)

    def code(self) -> tuple[Callable, ...]:
        """The functions whose code makes what it computes, whole or token by token."""
        memory = self.memory
        steps = (memory.begin, memory.step, memory.look, memory.gather) if memory else ()
        return self.attend, *steps

    def contenders(self) -> list[Contender]:
        if not self.variants:
            return [Contender(self.name, self, {}, self.look)]
        return [Contender(name, self, *variant) for name, variant in self.variants.items()]
