"""Tokens one after another: steps in place, and frozen layers, are what they stand for."""

import pytest
import torch
from cases import BOUNDS, assert_all_near, assert_near
from torch import nn

from replication import model
from replication.attention import (
    FrozenLayers,
    FrozenStack,
    LayerWeights,
    linear_attention_step,
    mechanism,
    watch_denominators,
)
from replication.attention.compiled import rows_dense
from replication.attention.linear import State

SINGLE = BOUNDS[torch.float32]
KERNELS = pytest.mark.parametrize("kernel", ["compiled", "pytorch"])


def step_in_place(state, q, k, v, kernel="auto"):
    return mechanism("linear").memory.step(state, 0, q, k, v, kernel=kernel)


def token(B, H, D, M):
    return [torch.randn(B, H, d) for d in (D, D, M)]


def empty(B, H, D, M):
    return State(torch.zeros(B, H, D, M), torch.zeros(B, H, D))


@KERNELS
@pytest.mark.parametrize(
    ("B", "H", "D", "M"),
    [(1, 1, 1, 1), (2, 3, 5, 7), (1, 8, 32, 32), (2, 2, 12, 70), (3, 2, 64, 33)],
)
def test_a_step_in_place_is_eqs_18_to_20(B, H, D, M, kernel):
    state, same = empty(B, H, D, M), None
    for _ in range(5):
        q, k, v = token(B, H, D, M)
        got = step_in_place(state, q, k, v, kernel=kernel)
        wanted, same = linear_attention_step(same, *(x.double() for x in (q, k, v)))
        assert_all_near((got, *state), (wanted, *same), SINGLE)


def test_queries_keys_and_values_may_be_parts_of_one_product():
    qkv = torch.randn(2, 3, 4, 16)
    parts, other = qkv.unbind(1), (qkv.movedim(3, 0).contiguous().movedim(0, 3)).unbind(1)
    assert rows_dense(other[0]) is not other[0]
    wanted = step_in_place(empty(2, 4, 16, 16), *(x.contiguous() for x in parts))
    for x in (parts, other):
        assert torch.equal(step_in_place(empty(2, 4, 16, 16), *x), wanted)


def test_threads_do_not_change_a_bit_of_a_step(monkeypatch):
    found = []
    for worth in (1e9, 1):
        torch.manual_seed(0)
        monkeypatch.setattr("replication.attention.compiled.WORTH", worth)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        state = empty(5, 3, 16, 40)
        found.append((step_in_place(state, *token(5, 3, 16, 40)), *state))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@KERNELS
def test_a_step_in_place_shows_its_denominators(kernel):
    x = torch.ones(1, 1, 1)
    with watch_denominators() as seen:
        step_in_place(empty(1, 1, 1, 1), 9 * x, 9 * x, x, kernel=kernel)
    assert (seen.smallest, seen.largest) == pytest.approx((100, 100))


# Frozen layers -----------------------------------------------------------------------------


class Layer(nn.Module):
    """As plain modules."""

    def __init__(self, d, wide):
        super().__init__()
        self.project, self.mix = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.widen, self.narrow = nn.Linear(d, wide), nn.Linear(wide, d)
        self.norm, self.norm_ff = nn.LayerNorm(d), nn.LayerNorm(d)
        for p in self.parameters():
            nn.init.normal_(p, std=0.3)

    def forward(self, x, attend, heads):
        q, k, v = self.project(x).view(len(x), 3, heads, -1).unbind(1)
        x = self.norm(x + self.mix(attend(q, k, v).flatten(1)))
        return self.norm_ff(x + self.narrow(torch.relu(self.widen(x))))

    def weights(self):
        modules = self.project, self.mix, self.norm, self.widen, self.narrow, self.norm_ff
        return LayerWeights(*((m.weight, m.bias) for m in modules))


def mean_of_three(q, k, v):
    return (q + 2 * k + 3 * v).transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize(("d", "wide"), [(16, 48), (32, 64), (64, 16), (80, 144)])
@pytest.mark.parametrize("B", [1, 3, 4, 5, 16, 33, 70])
@torch.inference_mode()
def test_frozen_layers_are_eq_1(B, d, wide):
    layers, x = [Layer(d, wide) for _ in range(3)], torch.randn(B, d)
    before, wanted = x.clone(), x.double()
    got = FrozenLayers([each.weights() for each in layers], heads=2).step(
        x, lambda i, q, k, v: (i + 1) * mean_of_three(q, k, v)
    )
    for i, layer in enumerate(layers):
        scaled = lambda *qkv, i=i: (i + 1) * mean_of_three(*qkv)  # noqa: E731
        wanted = layer.double()(wanted, scaled, 2)
    assert_near(got, wanted, SINGLE)
    assert torch.equal(x, before)


def test_frozen_layers_share_rows_over_threads_without_changing_a_bit(monkeypatch):
    frozen, x = FrozenLayers([Layer(32, 64).weights()], heads=2), torch.randn(150, 32)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        found.append(frozen.step(x, lambda _, q, k, v: mean_of_three(q, k, v)))
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_frozen_layers_keep_the_weights_that_they_were_given():
    layer, x = Layer(32, 64), torch.randn(2, 32)
    frozen = FrozenLayers([layer.weights()], heads=2)
    before = frozen.step(x, lambda _, q, k, v: v)
    with torch.no_grad():
        for p in layer.parameters():
            p.zero_()
    assert torch.equal(frozen.step(x, lambda _, q, k, v: v), before)


def test_layers_that_cannot_be_frozen_are_named():
    with pytest.raises(ValueError, match=r"project is torch.float64 on cpu, but frozen layers are"):
        FrozenLayers([Layer(32, 64).double().weights()], heads=2)
    with pytest.raises(ValueError, match=r"project has shape \[60, 20\], but .* multiples of 16"):
        FrozenLayers([Layer(20, 64).weights()], heads=2)


# A stack of the model's layers ---------------------------------------------------------------


def stack(attention, **changes):
    sizes = {"attention": attention, "d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64}
    return [model.Layer(model.Sizes(**{**sizes, **changes}), i, causal=True) for i in range(2)]


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("changes", [{}, {"activation": "elu_plus_one"}, {"d_model": 24}], ids=str)
@torch.inference_mode()
def test_a_frozen_stack_writes_what_its_layers_write(attention, changes):
    layers = stack(attention, **changes)
    frozen = FrozenStack(layers)
    assert (frozen.reason is None) == (not changes)
    x = torch.randn(6, 3, layers[0].norm.normalized_shape[0])
    memories = [layer.begin(3, 6, None) for layer in layers]
    rows = [frozen.step(y, i, memories) for i, y in enumerate(x)]
    whole = x.transpose(0, 1)
    for layer in layers:
        whole = layer(whole)
    assert_near(torch.stack(rows, 1), whole, SINGLE)


@pytest.mark.parametrize(
    ("state", "token", "said"),
    [
        (None, [[1.0], torch.ones(1, 1, 2), torch.ones(1, 1, 2)], "q is a list"),
        (None, [torch.ones(1, 1, 2), None, torch.ones(1, 1, 2)], "k is a NoneType"),
        (None, [torch.ones(1, 1, 2).int()] * 3, "Convert it by q.float"),
        (None, [torch.ones(1, 1, 2) * 1j] * 3, "Convert it by q.float"),
        (None, [torch.ones(1, 1, 2, device="meta"), *[torch.ones(1, 1, 2)] * 2], "devices"),
        ((torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2)), [torch.ones(1, 1, 2)] * 3, "is a tuple"),
        (State(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2).double()), [torch.ones(1, 1, 2)] * 3,
         "z of torch.float64"),
        (State(torch.ones(1, 1, 2, 2), [1.0, 2.0]), [torch.ones(1, 1, 2)] * 3, "z is a list"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unhooked")
def test_what_a_step_cannot_take_is_told_in_words(state, token, said):
    with pytest.raises((TypeError, ValueError), match=said):
        linear_attention_step(state, *token)


@pytest.mark.usefixtures("unhooked")
def test_a_step_refuses_similarities_that_are_negative():
    q, k, v = torch.ones(1, 1, 2), -torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    with pytest.raises(ValueError, match="must not be negative"):
        linear_attention_step(None, q, k, v, feature_map=lambda x: x)


# The memory of a model, written by its address only where that is safe ------------------------


def memory_of(B, H=2, D=16, dtype=torch.float32):
    return mechanism("linear").memory, State(
        torch.zeros(B, H, D, D, dtype=dtype), torch.zeros(B, H, D, dtype=dtype)
    )


def test_a_larger_batch_than_the_memory_s_is_an_error_and_a_smaller_one_is_broadcast(unhooked):
    memory, kept = memory_of(1)
    with pytest.raises(RuntimeError, match="shape"):
        memory.step(kept, 0, *token(3, 2, 16, 16))
    memory, kept = memory_of(3)
    q, k, v = token(1, 2, 16, 16)
    memory.step(kept, 0, q, k, v)
    wanted = linear_attention_step(None, q, k, v)[1]
    assert_all_near(kept, (x.expand_as(y) for x, y in zip(wanted, kept, strict=True)), SINGLE)


@pytest.mark.parametrize("start", [0, 1])
def test_a_memory_with_gaps_is_gone_on_from(start):
    memory, whole = memory_of(6)
    every = State(whole.s[start::2], whole.z[start::2])
    q, k, v = token(3, 2, 16, 16)
    got, (wanted, after) = memory.step(every, 0, q, k, v), linear_attention_step(None, q, k, v)
    assert_all_near((got, *every), (wanted, *after), SINGLE)
    assert not whole.s[1 - start :: 2].any()


def test_a_memory_of_another_type_is_refused_and_a_half_one_is_summed_in_single(unhooked):
    memory, kept = memory_of(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="dtype"):
        memory.step(kept, 0, *token(2, 2, 16, 16))
    q, k, v = (x.bfloat16() for x in token(2, 2, 16, 16))
    for kept in (memory.begin(q, 2, 2, 9, 16), memory.gather(q.unsqueeze(2), v.unsqueeze(2))):
        assert {x.dtype for x in kept} == {torch.float32}
        assert memory.step(kept, 0, q, k, v).dtype == memory.look(kept, q, 1).dtype == v.dtype


def test_gradients_pass_through_a_step_where_they_are_asked_for():
    memory, kept = memory_of(2)
    q, k, v = (x.requires_grad_() for x in token(2, 2, 16, 16))
    memory.step(kept, 0, q, k, v).square().sum().backward()
    wanted = [x.grad.clone() for x in (q, k, v)]
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    linear_attention_step(None, q, k, v)[0].square().sum().backward()
    assert_all_near(wanted, [x.grad for x in (q, k, v)], SINGLE)


def test_a_memory_begun_in_inference_mode_stays_there():
    with torch.inference_mode():
        memory, kept = memory_of(1)
    with pytest.raises(RuntimeError, match="inference tensor"):
        memory.step(kept, 0, *token(1, 2, 16, 16))


def test_a_kernel_that_is_asked_for_writes_tokens_too(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "replication.attention.linear.compiled_step",
        lambda s, z, q, k, v: calls.append(1) or (v.clone(), q[..., :1]),
    )
    for kernel, wanted in (("pytorch", 0), ("compiled", 1)):
        sizes = model.Sizes("linear", 32, 2, 1, 64, 11, 20, options={"kernel": kernel})
        one = model.DecoderOnly(sizes).eval()
        with torch.inference_mode():
            one.step(torch.zeros(2, dtype=torch.long), 0, one.begin(2, 5))
        assert len(calls) == wanted


@torch.inference_mode()
def test_autocast_does_not_reach_frozen_layers():
    sizes = model.Sizes("softmax", 32, 2, 64, 64)
    layers = [model.Layer(sizes, i, causal=True).eval() for i in range(2)]
    x, found = torch.randn(3, 32), []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            memories = [layer.begin(3, 4, None) for layer in layers]
            found.append(FrozenStack(layers).step(x, 0, memories))
    assert_near(found[1], found[0], 0.1)
