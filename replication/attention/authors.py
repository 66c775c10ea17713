"""The authors' own linear attention, pytorch-fast-transformers: an oracle and a rival.

It is theirs, compiled by ``make peers`` where a C++ compiler is; here it is only called.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

from replication.attention.card import Look, Mechanism

ABSENT = "The authors' library is not installed, so it is left out. Build it by: make peers"
FLOAT32_ONLY = "The authors' kernel is for float32 only"


def is_installed() -> bool:
    return find_spec("fast_transformers") is not None


def unavailable(dtype: str = "float32") -> str | None:
    if not is_installed():
        return ABSENT
    return FLOAT32_ONLY if dtype != "float32" else None


def authors_attention(Q: Tensor, K: Tensor, V: Tensor, *, causal: bool = False) -> Tensor:
    """Their layer with their feature map elu + 1, for [B, H, N, D] in their order [B, N, H, D].

    A tensor that was laid out in their order and transposed is not copied.
    """
    if not is_installed():
        raise ValueError(ABSENT)
    from fast_transformers.attention import CausalLinearAttention, LinearAttention
    from fast_transformers.masking import FullMask, LengthMask, TriangularCausalMask

    B, _, N, D = Q.shape
    lengths = LengthMask(torch.full((B,), N, device=Q.device), device=Q.device)
    kind = CausalLinearAttention if causal else LinearAttention
    # Without a mask theirs is only asked whether it is all ones: N x N of them would be timed too.
    mask = TriangularCausalMask(N, device=Q.device) if causal else FullMask(1, device=Q.device)
    theirs = (x.transpose(1, 2) for x in (Q, K, V))
    return kind(D)(*theirs, mask, lengths, lengths).transpose(1, 2)


CARD = Mechanism(
    name="authors",
    attend=authors_attention,
    look=Look("linear, authors' kernel", "the authors' kernel", "#8573bd", "X", (0, (1, 1)), True),
    time_power=1,
    memory_power=1,
    reference="linear",
    unavailable=unavailable,
    is_peer=True,
    order=90,
)
