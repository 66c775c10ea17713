"""The compiled kernel computes what the reference says, in all shapes, layouts and threads."""

import pytest
import torch
from cases import BOUNDS, Case, assert_all_near, expected, solve
from hypothesis import given
from hypothesis import strategies as st

from replication import reference
from replication.attention import compiled, linear_attention
from replication.attention.kernels import available_kernel
from replication.attention.linear import State
from replication.measure import peak_bytes

SINGLE, LONG_BOUND = BOUNDS[torch.float32], 1e-6
SIZES = (1, 2, 31, 32, 33, 63, 64, 65, 96, 97, 200)
"""Around the registers, the block and the length up to which a sequence is left whole."""

SMALL = {"WHOLE": 8, "SEGMENT": 2}
"""Blocks of 32 from length 9 on, and sums kept at every second: short sequences have it all."""


@pytest.fixture(autouse=True)
def _compiled_kernel_works():
    assert available_kernel().kernel == "compiled", available_kernel().reason


def by(kernel, **options):
    return lambda *x, **more: linear_attention(*x, kernel=kernel, **options, **more)


def leaves(N, D, M, B=2, H=2, dtype=torch.float32):
    return [torch.randn(B, H, N, d).to(dtype).requires_grad_() for d in (D, D, M)]


def random_state(D, M, B=2, H=2):
    return State(torch.rand(B, H, D, M).requires_grad_(), torch.rand(B, H, D).requires_grad_())


def answer(kernel, inputs, state=None, dtype=None, **options):
    """Values, the state after them, and gradients of a random loss of both."""
    inputs = [x.detach().to(dtype or x.dtype).requires_grad_() for x in (*inputs, *(state or ()))]
    start = State(*inputs[3:]) if state else None
    values, after = linear_attention(
        *inputs[:3], causal=True, kernel=kernel, state=start, return_state=True, **options
    )
    generator = torch.Generator().manual_seed(1)
    G = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in (values, *after)]
    gradients = torch.autograd.grad((values, *after), inputs, G)
    return [x.detach() for x in (values, *after, *gradients)]


# Values and gradients ----------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("N", SIZES)
def test_compiled_sums_equal_eq_9(N, padded):
    case = Case(N, N, True, padded)
    got = solve(by("compiled"), case, "linear", torch.float32)
    assert_all_near(got, expected("linear", case), SINGLE)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("N", [33, 65, 200])
def test_blocks_and_segments_equal_eq_9(N, padded, monkeypatch):
    for name, number in SMALL.items():
        monkeypatch.setattr(compiled, name, number)
    case = Case(N, N, True, padded)
    got = solve(by("compiled"), case, "linear", torch.float32)
    assert_all_near(got, expected("linear", case), SINGLE)


@pytest.mark.parametrize(
    ("D", "M"), [(1, 1), (3, 20), (8, 8), (17, 16), (32, 64), (64, 33), (130, 7)]
)
@pytest.mark.parametrize("N", [1, 20, 40, 64, 100, 600])
def test_heads_of_any_size_equal_double_precision(N, D, M):
    inputs, state, lengths = leaves(N, D, M), random_state(D, M), torch.tensor([N, 1 + N // 3])
    got = answer("compiled", inputs, state, key_lengths=lengths)
    wanted = answer("pytorch", inputs, state, torch.float64, key_lengths=lengths)
    assert_all_near(got, wanted, SINGLE)


@given(
    sizes=st.tuples(*(st.integers(1, high) for high in (3, 3, 150, 40, 40))),
    small=st.booleans(),
    data=st.data(),
)
def test_compiled_equals_the_reference_whatever_the_shape(sizes, small, data):
    torch.manual_seed(0)  # the same numbers whenever an example is tried again
    B, H, N, D, M = sizes
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, N), min_size=B, max_size=B)))
    inputs, state = leaves(N, D, M, B, H), random_state(D, M, B, H)
    with pytest.MonkeyPatch.context() as patch:
        for name, number in SMALL.items() if small else ():
            patch.setattr(compiled, name, number)
        got = answer("compiled", inputs, state, key_lengths=lengths)
    wanted = answer("pytorch", inputs, state, torch.float64, key_lengths=lengths)
    assert_all_near(got, wanted, SINGLE)


def test_compiled_is_precise_at_length_65536():
    """The sums themselves are rounded once a block, 2048 times, and the errors add up."""
    inputs = leaves(65_536, 16, 16, 1, 1)
    single, double = (long_answer(inputs, dtype) for dtype in (torch.float32, torch.float64))
    assert_all_near(single[:4], double[:4], LONG_BOUND)
    assert_all_near(single[4:], double[4:], 4 * LONG_BOUND)


def long_answer(inputs, dtype):
    """Values, gradients by Q, K and V, and the state."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    values, state = linear_attention(*leaves, causal=True, return_state=True)
    G = torch.randn(values.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    return [x.detach() for x in (values, *torch.autograd.grad(values, leaves, G), *state)]


def test_phi_keeps_its_digits_where_it_is_small():
    """One key: the state after it is phi(k) and phi(k) v."""
    x = torch.linspace(-86, 20, 10_001)
    ones = torch.ones(1, 1, 1, 1)
    for part in x.split(200):
        k = part.view(1, 1, 1, -1)
        _, state = linear_attention(k, k, ones, causal=True, return_state=True, kernel="compiled")
        exact = reference.elu_plus_one(part.double())
        assert ((state.z.flatten() - exact).abs() <= 2e-6 * exact).all()
        near = part.abs() < 8
        assert ((state.z.flatten() - exact).abs() <= 4e-7 * exact)[near].all()


# Layouts, NaN, memory, threads --------------------------------------------------------------


LAYOUTS = {
    "heads after positions": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "features first": lambda x: x.movedim(-1, 0).contiguous().movedim(0, -1),
    "a part of larger rows": lambda x: torch.cat((x, x, x), -1)[..., : x.shape[-1]],
    "every other position": lambda x: x.repeat_interleave(2, 2)[:, :, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("N", [40, 130])
def test_strides_do_not_change_a_bit(layout, N):
    inputs = [x.detach() for x in leaves(N, 12, 16)]
    moved = [LAYOUTS[layout](x) for x in inputs]
    assert not moved[0].is_contiguous()
    same = zip(answer("compiled", moved), answer("compiled", inputs), strict=True)
    assert all(torch.equal(a, b) for a, b in same)


def test_heads_that_share_memory_get_the_sum_of_their_gradients():
    shared = torch.randn(1, 1, 66, 5, requires_grad=True)
    copies = [shared.detach().repeat(2, 3, 1, 1).requires_grad_() for _ in "QKV"]
    x = shared.expand(2, 3, -1, -1)
    (got,) = torch.autograd.grad(by("compiled")(x, x, x, causal=True).sum(), shared)
    each = torch.autograd.grad(by("pytorch")(*copies, causal=True).sum(), copies)
    assert_all_near([got], [sum(each).sum((0, 1), keepdim=True)], SINGLE)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", range(3), ids="QKV")
@pytest.mark.parametrize("N", [40, 130])
def test_bad_numbers_reach_the_rows_that_they_reach_by_pytorch(N, which, bad):
    inputs = [x.detach() for x in leaves(N, 5, 7)]
    inputs[which][1, 0, 33, 2] = bad
    ours, theirs = (by(name)(*inputs, causal=True) for name in ("compiled", "pytorch"))
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert_all_near([ours.nan_to_num()], [theirs.nan_to_num()], SINGLE)


def test_a_nan_of_any_bits_stays_one():
    Q, K, V = (x.detach() for x in leaves(40, 5, 7))
    Q[0, 0, 3, 1] = torch.tensor(0x7FC00FFF, dtype=torch.int32).view(torch.float32)
    assert linear_attention(Q, K, V, causal=True, kernel="compiled")[0, 0, 3].isnan().all()


def test_padding_is_never_read():
    Q, K, V = (x.detach() for x in leaves(130, 5, 7))
    lengths = torch.tensor([130, 70])
    clean = answer("compiled", (Q, K, V), key_lengths=lengths)
    K[1, :, 70:], V[1, :, 70:] = torch.nan, torch.inf
    dirty = answer("compiled", (Q, K, V), key_lengths=lengths)
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))
    assert (dirty[4][1, :, 70:] == 0).all()
    assert (dirty[5][1, :, 70:] == 0).all()


@pytest.mark.parametrize("D", [32, 64])
def test_memory_is_not_above_that_of_pytorch_s_kernel_and_grows_with_length(D):
    def peak(kernel, N):
        Q, K, V, G = (torch.randn(2, 8, N, D, requires_grad=True) for _ in "QKVG")
        attend = by(kernel)
        return peak_bytes(
            lambda: torch.autograd.grad(attend(Q, K, V, causal=True), (Q, K, V), G.detach())
        )

    ours = [peak("compiled", N) for N in (1024, 2048, 4096)]
    assert ours[2] - ours[1] == 2 * (ours[1] - ours[0])
    assert ours[2] <= 1.1 * peak("pytorch", 4096)


@pytest.fixture
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("N", [40, 300])
def test_the_number_of_threads_does_not_change_a_bit(N, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH", 1)
    inputs, found = leaves(N, 16, 16, 3, 5), []
    for threads in (1, 2, 3, 16):
        torch.set_num_threads(threads)
        found.append(answer("compiled", inputs))
    assert all(torch.equal(a, b) for one in found[1:] for a, b in zip(found[0], one, strict=True))


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (7, 2), (40, 3), (2, 16)])
def test_every_sequence_is_computed_once_whoever_takes_it(count, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    seen = []

    def run(part, room):
        seen.extend(range(*part))
        return True

    assert compiled.share(run, count, 10**12, (8,), torch.zeros(1))
    assert sorted(seen) == list(range(count))


def test_an_error_in_a_thread_is_not_lost(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def run(part, room):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compiled.share(run, 8, 10**12, (8,), torch.zeros(1))


OUTER = pytest.mark.parametrize("outer", [torch.sum, lambda x: x.square().sum()])


def gradient_of_gradient(inputs, which, outer, **options):
    values = linear_attention(*inputs, **options)
    gradient = torch.autograd.grad(outer(values), inputs, create_graph=True)[which]
    return torch.autograd.grad(gradient.square().sum(), inputs, allow_unused=True)


@OUTER
@pytest.mark.parametrize("which", range(3), ids="QKV")
@pytest.mark.parametrize("kernel", ["compiled", "pytorch"])
def test_a_second_derivative_of_causal_attention_is_refused(kernel, which, outer):
    """Also where the incoming gradient is constant, as that of a sum."""
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient_of_gradient(leaves(5, 3, 4), which, outer, causal=True, kernel=kernel)


@OUTER
def test_a_second_derivative_without_causality_is_right_or_refused(outer):
    """The gradient by V contains phi itself, those by Q and K its derivative."""
    inputs = leaves(5, 3, 4, 1, 1, torch.float64)
    for which in (0, 1):
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient_of_gradient(inputs, which, outer)
    values = reference.linear_attention(*(x[0, 0] for x in inputs))
    (gradient,) = torch.autograd.grad(outer(values), inputs[2], create_graph=True)
    wanted = torch.autograd.grad(gradient.square().sum(), inputs[:2])
    assert_all_near(gradient_of_gradient(inputs, 2, outer)[:2], wanted, BOUNDS[torch.float64])
