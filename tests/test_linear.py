"""Linear attention is one function in three forms: parallel, in pieces, step by step."""

import pytest
import torch
import torch.nn.functional as F
from cases import BOUNDS, Case, assert_all_near, assert_near, expected, solve
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from replication import reference
from replication.attention import (
    causal_sums,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    polynomial_2,
)
from replication.attention.linear import State, read

TIGHT = BOUNDS[torch.float64]
PIECES = (1, 63, 64, 65, 7)
"""Sizes around the chunk of 64, none of them starting on its edge but two."""

PHIS = [pytest.param(phi, id=phi.name) for phi in (elu_plus_one, polynomial_2)]
CAUSAL = pytest.mark.parametrize("causal", [False, True])


class Learnt(nn.Module):
    """A feature map with parameters, of another size than its input."""

    def __init__(self, D: int, C: int):
        super().__init__()
        self.linear = nn.Linear(D, C, dtype=torch.float64)

    def forward(self, x):
        return F.softplus(self.linear(x))


def leaves(*sizes, B=2, H=2, N=None):
    shapes = [(B, H, N, d) if N else (B, H, d) for d in sizes]
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]


def attend_in_steps(Q, K, V, state=None, **options):
    rows = []
    for q, k, v in zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True):
        row, state = linear_attention_step(state, q, k, v, **options)
        rows.append(row)
    return torch.stack(rows, 2), state


def attend_in_pieces(Q, K, V, state=None, **options):
    parts = []
    for part in zip(*(x.split(PIECES, 2) for x in (Q, K, V)), strict=True):
        values, state = linear_attention(
            *part, causal=True, state=state, return_state=True, **options
        )
        parts.append(values)
    return torch.cat(parts, 2), state


def prompt_then_steps(Q, K, V, state=None, **options):
    read_, go_on = zip(*(x.split([130, 70], 2) for x in (Q, K, V)), strict=True)
    first, state = linear_attention(*read_, causal=True, state=state, return_state=True, **options)
    second, state = attend_in_steps(*go_on, state, **options)
    return torch.cat((first, second), 2), state


# Feature maps ------------------------------------------------------------------------------


@CAUSAL
@pytest.mark.parametrize("N", [1, 63, 65, 130])
@pytest.mark.parametrize("phi", PHIS)
def test_every_feature_map_equals_the_reference(phi, N, causal):
    case = Case(N, N, causal, True)
    answer = solve(linear_attention, case, "linear", feature_map=phi)
    assert_all_near(answer, expected("linear", case, phi.name), TIGHT)


@pytest.mark.parametrize("phi", PHIS)
def test_a_feature_map_and_its_derivative_equal_the_reference(phi):
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    x[0, 0, 0] = 0
    x, same = x.requires_grad_(), x.clone().requires_grad_()
    ours, theirs = phi(x), getattr(reference, phi.name)(same)
    assert ours.shape[-1] == phi.size(5)
    assert_near(ours, theirs, TIGHT)
    G = torch.randn_like(ours)
    assert_near(*(torch.autograd.grad(*pair, G)[0] for pair in ((ours, x), (theirs, same))), TIGHT)
    assert torch.equal(phi(x.detach()), ours)


@CAUSAL
def test_any_function_can_be_the_feature_map(causal):
    case = Case(65, 65, causal, True)
    plain = solve(linear_attention, case, "linear", feature_map=lambda x: reference.elu_plus_one(x))
    assert_all_near(plain, expected("linear", case), TIGHT)
    softplus = solve(linear_attention, case, "linear", feature_map=F.softplus)
    assert not torch.allclose(softplus[0], plain[0])


@CAUSAL
@pytest.mark.parametrize("lengths", [None, [9, 4]], ids=["full", "padded"])
def test_a_learnt_feature_map_gets_the_gradients_of_the_reference(lengths, causal):
    """Of all that is computed: also of rows of padding, which see the keys before it."""
    phi, (Q, K, V) = Learnt(3, 4), leaves(3, 3, 5, N=9)
    values = linear_attention(
        Q, K, V, causal=causal, feature_map=phi,
        key_lengths=None if lengths is None else torch.tensor(lengths),
    )  # fmt: skip
    wanted = []
    for b, length in enumerate(lengths or [9, 9]):
        for h in range(2):
            q, k = phi(Q[b, h]), phi(K[b, h, :length])
            weights = F.pad(q @ k.T, (0, 9 - length))
            weights = weights.tril() if causal else weights
            wanted.append(weights @ V[b, h] / (weights.sum(-1, keepdim=True) + reference.EPS))
    wanted = torch.stack(wanted).view_as(values)
    assert_near(values, wanted, TIGHT)
    inputs, G = (Q, K, V, *phi.parameters()), torch.randn_like(values)
    got = torch.autograd.grad(values, inputs, G)
    assert_all_near(got, torch.autograd.grad(wanted, inputs, G), TIGHT)


# State -------------------------------------------------------------------------------------


@CAUSAL
@pytest.mark.parametrize("N", [1, 63, 64, 65, 130])
def test_running_sums_equal_eqs_10_and_11(N, causal):
    Q, K, V = (x.detach() for x in leaves(3, 3, 4, N=N))
    _, state = linear_attention(Q, K, V, causal=causal, return_state=True)
    phi = reference.elu_plus_one(K)
    assert_near(state.s, phi.mT @ V, TIGHT)
    assert_near(state.z, phi.sum(2), TIGHT)
    S, Z = reference.causal_sums(K[1, 0, :5], V[1, 0, :5])
    for i in range(min(N, 5)):
        upto = [x[:, :, : i + 1] for x in (Q, K, V)]
        state = linear_attention(*upto, causal=causal, return_state=True)[1]
        assert_near(state.s[1, 0], S[i], TIGHT)
        assert_near(state.z[1, 0], Z[i], TIGHT)


@pytest.mark.parametrize("form", [attend_in_steps, attend_in_pieces, prompt_then_steps])
@pytest.mark.parametrize("phi", [*PHIS, F.softplus])
def test_steps_and_pieces_equal_the_whole_values_and_gradients(form, phi):
    """And so do the states that they leave, and the gradients by the state that they begin with."""
    Q, K, V = leaves(5, 5, 7, N=200)
    C = phi(Q).shape[-1]
    s, z = (torch.rand(2, 2, *size, dtype=torch.float64) for size in ((C, 7), (C,)))
    start = State(s.requires_grad_(), z.requires_grad_())
    whole = linear_attention(Q, K, V, causal=True, feature_map=phi, state=start, return_state=True)
    apart = form(Q, K, V, start, feature_map=phi)
    G = [torch.randn_like(x) for x in (whole[0], *whole[1])]
    for values, state in (whole, apart):
        assert_all_near((values, *state), (whole[0], *whole[1]), TIGHT)
    wanted, got = (
        torch.autograd.grad((values, *state), (Q, K, V, *start), G)
        for values, state in (whole, apart)
    )
    assert_all_near(got, wanted, TIGHT)


def test_a_state_stands_for_the_keys_that_came_before():
    Q, K, V = leaves(3, 3, 4, N=90)
    wanted = linear_attention(Q, K, V)
    _, state = linear_attention(Q[:, :, :50], K[:, :, :50], V[:, :, :50], return_state=True)
    got = linear_attention(Q, K[:, :, 50:], V[:, :, 50:], state=state)
    assert_near(got, wanted, TIGHT)


@CAUSAL
def test_padding_does_not_enter_the_state(causal):
    Q, K, V = leaves(3, 3, 4, N=70)
    lengths = torch.tensor([70, 66])
    _, state = linear_attention(Q, K, V, causal=causal, key_lengths=lengths, return_state=True)
    short = [x[1:, :, :66] for x in (Q, K, V)]
    _, wanted = linear_attention(*short, causal=causal, return_state=True)
    assert_near(state.s[1:], wanted.s, TIGHT)
    assert_near(state.z[1:], wanted.z, TIGHT)


@pytest.mark.parametrize("lengths", [None, [4]], ids=["full", "padded"])
@CAUSAL
@pytest.mark.parametrize("phi", [*PHIS, F.softplus])
def test_gradients_are_slopes_of_values_and_of_states(phi, causal, lengths, monkeypatch):
    """From Q, K, V and a state to V' and the next state; in three chunks."""
    monkeypatch.setattr(causal_sums, "WHOLE", 0)
    monkeypatch.setattr(causal_sums, "CHUNK", 2)
    monkeypatch.setattr(causal_sums, "TILE", 2)
    Q, K, V = leaves(2, 2, 1, B=1, N=5)
    C = phi(Q).shape[-1]
    s, z = (torch.rand(1, 2, *size, dtype=torch.float64) + 1 for size in ((C, 1), (C,)))
    lengths = None if lengths is None else torch.tensor(lengths)

    def run(Q, K, V, s, z):
        values, state = linear_attention(
            Q, K, V, causal=causal, feature_map=phi, key_lengths=lengths,
            state=State(s, z), return_state=True,
        )  # fmt: skip
        return values, *state

    assert torch.autograd.gradcheck(run, (Q, K, V, s.requires_grad_(), z.requires_grad_()))


@pytest.mark.parametrize("phi", PHIS)
def test_a_step_leaves_the_state_that_came_as_it_was(phi):
    Q, K, V = (x.detach() for x in leaves(3, 3, 4, N=67))
    _, state = linear_attention(Q, K, V, causal=True, feature_map=phi, return_state=True)
    before = State(*(x.clone() for x in state))
    linear_attention_step(state, Q[:, :, 0], K[:, :, 0], V[:, :, 0], feature_map=phi)
    linear_attention(Q, K, V, causal=True, feature_map=phi, state=state)
    linear_attention(Q, K, V, feature_map=phi, state=state)
    assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))


def test_reading_the_state_without_a_new_key_is_eq_12():
    Q, K, V = (x.detach() for x in leaves(3, 3, 4, N=20))
    _, state = linear_attention(Q, K, V, causal=True, return_state=True)
    q = elu_plus_one(Q[:, :, 7])
    assert_near(read(state, q), linear_attention(Q, K, V)[:, :, 7], TIGHT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_keep_their_sums_in_float32(dtype):
    Q, K, V = (torch.randn(1, 1, 70, d).to(dtype) for d in (3, 3, 4))
    for causal in (False, True):
        values, state = linear_attention(Q, K, V, causal=causal, return_state=True)
        assert (values.dtype, state.s.dtype, state.z.dtype) == (dtype, *[torch.float32] * 2)
    value, state = linear_attention_step(state, Q[:, :, 0], K[:, :, 0], V[:, :, 0])
    assert (value.dtype, state.s.dtype, state.z.dtype) == (dtype, *[torch.float32] * 2)


# The algorithm -----------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("chunk", "tile"), [(64, 64), (64, 512), (16, 32), (16, 96), (1, 1)])
def test_how_sequences_are_cut_does_not_matter(chunk, tile, rows, monkeypatch):
    for name, number in (("WHOLE", 0), ("CHUNK", chunk), ("TILE", tile), ("ROWS", rows)):
        monkeypatch.setattr(causal_sums, name, number)
    for case in (Case(200, 200, True, False), Case(65, 65, True, True)):
        assert_all_near(solve(linear_attention, case, "linear"), expected("linear", case), TIGHT)


@pytest.mark.parametrize("tile", [64, 128, 192, 1024])
def test_several_short_sequences_at_once_are_as_each_alone(tile, monkeypatch):
    Q, K, V = (x.detach() for x in leaves(3, 3, 4, B=5, H=3, N=30))
    wanted = [linear_attention(*(x[b : b + 1] for x in (Q, K, V)), causal=True) for b in range(5)]
    monkeypatch.setattr(causal_sums, "TILE", tile)
    assert_near(linear_attention(Q, K, V, causal=True), torch.cat(wanted), TIGHT)


@given(
    sizes=st.tuples(*(st.integers(1, high) for high in (3, 3, 70, 70, 4, 4))),
    causal=st.booleans(),
    data=st.data(),
)
def test_linear_equals_the_reference_whatever_the_shape(sizes, causal, data):
    torch.manual_seed(0)  # the same numbers whenever an example is tried again
    B, H, N, L, D, M = sizes
    L = N if causal else L
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, L), min_size=B, max_size=B)))
    shapes = ((N, D), (L, D), (L, M))
    inputs = [torch.randn(B, H, *s, dtype=torch.float64, requires_grad=True) for s in shapes]
    values = linear_attention(*inputs, causal=causal, key_lengths=lengths)
    wanted = reference.batched("linear", *inputs, causal=causal, key_lengths=lengths)
    defined = torch.arange(N) < lengths[:, None] if causal else torch.ones(B, N, dtype=torch.bool)
    G = torch.randn_like(values) * defined[:, None, :, None]
    assert_near(values * defined[:, None, :, None], wanted, TIGHT)
    pair = (torch.autograd.grad(x, inputs, G) for x in (values, wanted))
    assert_all_near(*pair, TIGHT)
