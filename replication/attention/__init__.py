"""Attention mechanisms: one a file, with one call signature and a card for each.

A file in this folder that holds ``CARD`` or ``CARDS`` is a mechanism; there is no other list.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from replication.attention.card import Contender, Look, Mechanism
from replication.attention.feature_maps import elu_plus_one, polynomial_2
from replication.attention.frozen import FrozenLayers, FrozenStack, LayerWeights
from replication.attention.kernels import available_kernel, choose_kernel
from replication.attention.linear import linear_attention, linear_attention_step, watch_denominators
from replication.attention.lsh import lsh_attention
from replication.attention.softmax import softmax_attention


@cache
def mechanisms() -> dict[str, Mechanism]:
    """Every card by its name, in the order of legends and tables."""
    found = []
    for file in (file for file in iter_modules(__path__) if not file.ispkg):
        module = import_module(f"{__name__}.{file.name}")
        found += getattr(module, "CARDS", None) or filter(None, [getattr(module, "CARD", None)])
    return {card.name: card for card in sorted(found, key=lambda card: (card.order, card.name))}


def mechanism(name: str) -> Mechanism:
    if name not in mechanisms():
        raise ValueError(f"There is no attention {name!r}. Choose one of: {', '.join(trained())}.")
    return mechanisms()[name]


def trained() -> list[str]:
    """The names of those that a model of ours can have."""
    return [name for name, card in mechanisms().items() if not card.is_peer]


@cache
def contenders() -> dict[str, Contender]:
    """Every form in which a benchmark knows a mechanism, by its name, in order."""
    return {form.name: form for card in mechanisms().values() for form in card.contenders()}


def look_of(name: str) -> Look:
    """The look of a contender or of a mechanism."""
    return contenders()[name].look if name in contenders() else mechanism(name).look
