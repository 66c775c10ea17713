"""Every mechanism does what the reference says, values and gradients."""

import pytest
import torch
from cases import (
    BOUNDS,
    NAMES,
    SIZES,
    WITH_KEYS,
    Case,
    assert_all_near,
    assert_near,
    expected,
    inputs,
    options,
    solve,
)
from hypothesis import given
from hypothesis import strategies as st

from replication import reference
from replication.attention import lsh_attention, mechanism, softmax_attention

TIGHT = BOUNDS[torch.float64]
BOTH = (False, True)
SQUARE = [Case(N, N, causal, padded) for N in SIZES for causal in BOTH for padded in BOTH]
CROSS = [
    Case(*N_L, False, padded) for N_L in ((1, 65), (64, 1), (7, 64), (65, 2)) for padded in BOTH
]


def label(x):
    if isinstance(x, Case):
        return f"{x.N}x{x.L}{'-causal' * x.causal}{'-padded' * x.padded}"
    return str(x).removeprefix("torch.")


def test_every_mechanism_has_a_reference():
    known = {mechanism(name).reference or name for name in NAMES}
    assert known <= set(reference.REFERENCES)


@pytest.mark.parametrize("dtype", BOUNDS, ids=label)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", SQUARE, ids=label)
def test_values_and_gradients_equal_the_reference(name, case, dtype, device):
    answer = solve(mechanism(name), case, name, dtype, device, **options(name))
    assert {x.dtype for x in answer} == {dtype}
    assert_all_near(answer, expected(name, case), BOUNDS[dtype])


@pytest.mark.parametrize("dtype", BOUNDS, ids=label)
@pytest.mark.parametrize("name", WITH_KEYS)
@pytest.mark.parametrize("case", CROSS, ids=label)
def test_cross_attention_equals_the_reference(name, case, dtype, device):
    answer = solve(mechanism(name), case, name, dtype, device)
    assert_all_near(answer, expected(name, case), BOUNDS[dtype])


@pytest.mark.parametrize("name", WITH_KEYS)
def test_causal_queries_in_padding_see_all_keys_before_it(name):
    """The reference leaves these rows out; no mechanism may let padding in."""
    Q, K, V, _ = inputs(Case(70, 70, True, True))
    values = mechanism(name)(Q, K, V, causal=True, key_lengths=torch.tensor([70, 66]))
    wanted = mechanism(name)(Q[1:, :, 66:], K[1:, :, :66], V[1:, :, :66])
    assert_near(values[1:, :, 66:], wanted, TIGHT)


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("fused", BOTH)
def test_gradients_of_softmax_are_the_slopes_of_its_values(fused, causal):
    Q, K, V = (torch.randn(1, 2, 4, d, dtype=torch.float64, requires_grad=True) for d in (2, 2, 3))
    lengths = torch.tensor([3])
    for padding in (None, lengths):
        assert torch.autograd.gradcheck(
            lambda *x, p=padding: softmax_attention(*x, causal=causal, key_lengths=p, fused=fused),
            (Q, K, V),
        )


@pytest.mark.parametrize("causal", BOTH)
def test_gradients_of_lsh_are_the_slopes_of_its_values(causal):
    Q, V = (torch.randn(1, 2, 9, d, dtype=torch.float64, requires_grad=True) for d in (3, 2))
    assert torch.autograd.gradcheck(
        lambda q, v: lsh_attention(q, v, causal=causal, rounds=2, buckets=4, chunk=2), (Q, V)
    )


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("axis", [0, 1], ids=["batch", "heads"])
@pytest.mark.parametrize("name", NAMES)
def test_batch_entries_and_heads_do_not_mix(name, axis, causal):
    Q, K, V = (torch.randn(3, 3, 130, d, dtype=torch.float64) for d in (5, 5, 7))
    lengths, order = torch.tensor([130, 20, 77]), torch.tensor([2, 0, 1])
    attend = mechanism(name)
    whole = attend(Q, K, V, causal=causal, key_lengths=lengths)
    moved = attend(
        *(x.index_select(axis, order) for x in (Q, K, V)),
        causal=causal,
        key_lengths=lengths if axis else lengths[order],
    )
    assert_near(moved, whole.index_select(axis, order), TIGHT)
    one = attend(
        *(x.narrow(axis, 1, 1) for x in (Q, K, V)),
        causal=causal,
        key_lengths=lengths if axis else lengths[1:2],
    )
    assert_near(one, whole.narrow(axis, 1, 1), TIGHT)


LAYOUTS = {
    "heads after positions": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "features first": lambda x: x.movedim(-1, 0).contiguous().movedim(0, -1),
    "every other number": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_layout_in_memory_does_not_matter(name, layout, causal):
    case = Case(65, 65, causal, True)
    *leaves, G = (LAYOUTS[layout](x) for x in inputs(case))
    assert not leaves[0].is_contiguous()
    leaves = [x.detach().requires_grad_() for x in leaves]
    values = mechanism(name)(*leaves, causal=causal, key_lengths=case.key_lengths, **options(name))
    G = G.masked_fill(~case.defined(name), 0)
    gradients = torch.autograd.grad(
        values, leaves, LAYOUTS[layout](G), allow_unused=True, materialize_grads=True
    )
    got = (values.masked_fill(~case.defined(name), 0), *gradients)
    assert_all_near(got, solve(mechanism(name), case, name, **options(name)), TIGHT)


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_share_memory_get_the_sum_of_their_gradients(name, causal):
    """x.expand() makes heads and batch entries one; out.sum() gives a gradient without strides."""
    shared = torch.randn(1, 1, 66, 5, dtype=torch.float64, requires_grad=True)
    x = shared.expand(2, 3, -1, -1)
    copy = shared.detach().clone().requires_grad_()
    attend = mechanism(name)
    (got,) = torch.autograd.grad(attend(x, x, x, causal=causal).sum(), shared)
    (one,) = torch.autograd.grad(attend(copy, copy, copy, causal=causal).sum(), copy)
    assert_near(got, 6 * one, TIGHT)


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_is_kept_can_be_walked_twice(name, causal):
    leaves = [torch.randn(1, 2, 130, d, dtype=torch.float64, requires_grad=True) for d in (5, 5, 7)]
    values = mechanism(name)(*leaves, causal=causal)
    used = leaves[::2] if mechanism(name).shared_keys else leaves
    first = torch.autograd.grad(values.square().sum(), used, retain_graph=True)
    second = torch.autograd.grad(values.square().sum(), used)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("causal", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_left_as_they_were_and_gradients_do_not_change_values(name, causal):
    Q, K, V, _ = inputs(case := Case(65, 65, causal, True))
    before = [x.clone() for x in (Q, K, V)]
    lengths = case.key_lengths
    plain = mechanism(name)(Q, K, V, causal=causal, key_lengths=lengths)
    assert all(torch.equal(a, b) for a, b in zip((Q, K, V), before, strict=True))
    leaves = [x.requires_grad_() for x in (Q, K, V)]
    tracked = mechanism(name)(*leaves, causal=causal, key_lengths=lengths)
    assert_near(tracked.detach(), plain, TIGHT)
    with torch.inference_mode():
        assert torch.equal(mechanism(name)(Q, K, V, causal=causal, key_lengths=lengths), plain)


@given(
    sizes=st.tuples(*(st.integers(1, high) for high in (3, 3, 9, 9, 4, 4))),
    causal=st.booleans(),
    fused=st.booleans(),
    data=st.data(),
)
def test_softmax_equals_the_reference_whatever_the_shape(sizes, causal, fused, data):
    torch.manual_seed(0)  # the same numbers whenever an example is tried again
    B, H, N, L, D, M = sizes
    L = N if causal else L
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, L), min_size=B, max_size=B)))
    Q, K, V = (torch.randn(B, H, *s, dtype=torch.float64) for s in ((N, D), (L, D), (L, M)))
    values = softmax_attention(Q, K, V, causal=causal, key_lengths=lengths, fused=fused)
    wanted = reference.batched("softmax", Q, K, V, causal=causal, key_lengths=lengths)
    defined = torch.arange(N) < lengths[:, None] if causal else torch.ones(B, N, dtype=torch.bool)
    assert_near(values.masked_fill(~defined[:, None, :, None], 0), wanted, TIGHT)
