"""All that holds parameters: transformers that take any attention mechanism by name.

Drawn from the same random numbers, models of different mechanisms start from equal weights.
"""

from replication.model.layers import (
    ACTIVATIONS,
    RECURRENT,
    CrossAttention,
    Layer,
    SelfAttention,
    Sizes,
)
from replication.model.transformers import DecoderOnly, Embedding, EncoderDecoder, sinusoids

MODELS = {"paper": DecoderOnly, "earlier": EncoderDecoder}
"""The paper's model for the copy task, and that of the earlier replication."""

__all__ = [
    "ACTIVATIONS",
    "MODELS",
    "RECURRENT",
    "CrossAttention",
    "DecoderOnly",
    "Embedding",
    "EncoderDecoder",
    "Layer",
    "SelfAttention",
    "Sizes",
    "sinusoids",
]
