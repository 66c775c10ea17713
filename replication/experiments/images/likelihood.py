"""A mixture of discretised logistics: what the model says of the next byte, and drawing it.

A byte k is the value x = k / 127.5 - 1. Component i of the mixture is a logistic distribution with
mean m_i and scale s_i; it gives k the mass of the bin from x - 1/255 to x + 1/255, and the first
and the last bin are open, so that the masses of the 256 bytes sum to 1 (Salimans et al. 2017).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

VALUES = 256
HALF = 1 / 255
"""Half the width of a bin."""
LOWEST = -7.0
"""The least log scale, as in the authors' code: no component gets narrower than a quarter bin."""
TINY = 1e-30


def parameters(mixtures: int) -> int:
    """Numbers that describe a mixture: logits, means and log scales."""
    return 3 * mixtures


def log_probability(
    outputs: Float[Tensor, "*B P"], targets: Int[Tensor, "*B"]
) -> Float[Tensor, "*B"]:
    """log P(k), in nats, of the byte ``targets`` under the mixture that ``outputs`` describe.

    With a = (x + 1/255 - m) / s and b = (x - 1/255 - m) / s the mass of a bin is

        sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(b - a)),

    whose logarithm is a sum of terms that are finite wherever the two values of sigma cannot be
    told apart.
    """
    logits, means, log_scales = outputs.chunk(3, -1)
    log_scales = log_scales.clamp(min=LOWEST)
    x = (targets.to(outputs.dtype) / 127.5 - 1).unsqueeze(-1) - means
    narrow = torch.exp(-log_scales)
    above, below = F.logsigmoid((x + HALF) * narrow), F.logsigmoid((HALF - x) * narrow)
    first, last = ((targets == end).unsqueeze(-1) for end in (0, VALUES - 1))
    zero = torch.zeros((), dtype=outputs.dtype, device=outputs.device)
    inner = torch.where(first | last, zero, _log_width(log_scales, narrow))
    log_mass = torch.where(last, zero, above) + torch.where(first, zero, below) + inner
    return (F.log_softmax(logits, -1) + log_mass).logsumexp(-1)


def _log_width(log_scales: Tensor, narrow: Tensor) -> Tensor:
    """log(1 - exp(-w)), w = 2/255 / s, which is log w as w vanishes."""
    w = (2 * HALF * narrow).clamp(min=TINY)
    return math.log(2 * HALF) - log_scales + (-torch.expm1(-w) / w).log()


def direct_probability(
    outputs: Float[Tensor, "*B P"], targets: Int[Tensor, "*B"]
) -> Float[Tensor, "*B"]:
    """P(k) as the definition has it: differences of sigma. For checks, in double precision."""
    logits, means, log_scales = outputs.chunk(3, -1)
    scales = log_scales.clamp(min=LOWEST).exp()
    x = (targets.to(outputs.dtype) / 127.5 - 1).unsqueeze(-1)
    above, below = (((x + side - means) / scales).sigmoid() for side in (HALF, -HALF))
    above = torch.where((targets == VALUES - 1).unsqueeze(-1), torch.ones_like(above), above)
    below = torch.where((targets == 0).unsqueeze(-1), torch.zeros_like(below), below)
    return (logits.softmax(-1) * (above - below)).sum(-1)


def draw(
    outputs: Float[Tensor, "B P"], random: Float[Tensor, "B 2"], temperature: float = 1.0
) -> Int[Tensor, " B"]:
    """Bytes from the mixture, by two uniform random numbers each: which component, and where in it.

    The value mean + scale * logit(u) is rounded to the nearest byte, so a byte is drawn with just
    the probability that the loss gives it. (In the authors' code the scale of the samples is
    elu(log scale) + 1.0001, which is the loss's for negative log scales only, up to 0.0001.)
    A temperature below 1 sharpens the choice and narrows every component.
    """
    logits, means, log_scales = outputs.chunk(3, -1)
    heads = (logits / temperature).softmax(-1).cumsum(-1)[:, :-1]
    which = (random[:, :1] > heads).sum(-1, keepdim=True)
    mean, log_scale = means.gather(1, which), log_scales.gather(1, which).clamp(min=LOWEST)
    x = mean + temperature * log_scale.exp() * random[:, 1:].to(mean.dtype).logit(1e-12)
    return ((x + 1) * 127.5).round().clamp(0, VALUES - 1).to(torch.int64).squeeze(1)


def likeliest(outputs: Float[Tensor, "*B P"]) -> Int[Tensor, "*B"]:
    """The byte nearest to the mean of the heaviest component."""
    logits, means, _ = outputs.chunk(3, -1)
    mean = means.gather(-1, logits.argmax(-1, keepdim=True)).squeeze(-1)
    return ((mean + 1) * 127.5).round().clamp(0, VALUES - 1).to(torch.int64)
