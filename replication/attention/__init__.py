"""Attention mechanisms: one a file, one call signature for all."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from replication.attention.feature_maps import (
    FEATURE_MAPS,
    FeatureMap,
    elu_plus_one,
    polynomial_2,
    relu,
)
from replication.attention.linear import (
    State,
    linear_attention,
    linear_attention_step,
    watch_denominators,
)
from replication.attention.lsh import lsh_attention
from replication.attention.softmax import softmax_attention


class Mechanism(NamedTuple):
    """How a model calls an attention mechanism, and what it can do."""

    attend: Callable[..., Tensor]
    """(Q, K, V, *, causal, key_lengths) -> V', or (Q, V, ...) if queries are the keys."""
    shared_keys: bool = False
    """Queries are keys: no projection for keys, no cross attention."""

    def __call__(self, Q: Tensor, K: Tensor, V: Tensor, **options) -> Tensor:
        return self.attend(Q, V, **options) if self.shared_keys else self.attend(Q, K, V, **options)


ATTENTIONS = {
    "softmax": Mechanism(softmax_attention),
    "softmax-textbook": Mechanism(partial(softmax_attention, fused=False)),
    "linear": Mechanism(linear_attention),
    "lsh": Mechanism(lsh_attention, shared_keys=True),
}
"""Every mechanism by name. A new one is one file, one entry here and its reference."""

__all__ = [
    "ATTENTIONS",
    "FEATURE_MAPS",
    "FeatureMap",
    "Mechanism",
    "State",
    "elu_plus_one",
    "linear_attention",
    "linear_attention_step",
    "lsh_attention",
    "polynomial_2",
    "relu",
    "softmax_attention",
    "watch_denominators",
]
