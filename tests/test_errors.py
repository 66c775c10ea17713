"""What cannot be done is refused, in words that say what came and what to do."""

import math
import re

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from cases import NAMES, WITH_KEYS

from replication.attention import (
    linear_attention,
    linear_attention_step,
    lsh_attention,
    mechanism,
)
from replication.attention.linear import State

pytestmark = pytest.mark.usefixtures("unhooked")

B, H, N, D, M = 2, 3, 6, 4, 5
Q, K, V = torch.randn(B, H, N, D), torch.randn(B, H, N, D), torch.randn(B, H, N, M)


def refuses(error, *words):
    """The error's message holds these words, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(word) for word in words))


def test_shape_types_are_checked_while_testing():
    """Here they are switched off; on, the hook speaks before the mechanism does."""
    jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(jaxtyping.TypeCheckError, match="typechecking parameter 'V'"):
        linear_attention(Q, K, V[:, :, 1:])
    jaxtyping.config.update("jaxtyping_disable", True)
    with refuses(ValueError, "Every key needs its value"):
        linear_attention(Q, K, V[:, :, 1:])


INPUTS = {
    "three axes": (Q, K, V[0], ValueError, "V has shape [3, 6, 5]", "unflatten"),
    "a list": (Q, K, [1.0], TypeError, "V is a list, not a tensor", "torch.Tensor"),
    "no tensor": (None, K, V, TypeError, "Q is a NoneType", "torch.Tensor"),
    "whole numbers": (Q, K, V.long(), TypeError, "V is of type torch.int64", "V.float()"),
    "complex": (Q, K, V.cfloat(), TypeError, "V is of type torch.complex64", "V.float()"),
    "no batch": (Q[:0], K[:0], V[:0], ValueError, "Q has shape [0, 3, 6, 4]", "empty", "out"),
    "no values": (Q, K, V[..., :0], ValueError, "V has shape [2, 3, 6, 0]", "empty"),
    "types": (Q, K, V.double(), TypeError, "Q torch.float32", "V torch.float64", "to one"),
    "devices": (Q, K, V.to("meta"), ValueError, "Q cpu", "V meta", "Move them to one"),
    "batch": (Q, K, V[:1], ValueError, "Batch and heads differ", "V [1, 3, 6, 5]", "equal"),
    "heads": (Q, K, V[:, :1], ValueError, "Batch and heads differ", "V [2, 1, 6, 5]", "equal"),
}
CROSS = {
    "sizes": (Q[..., 1:], K, V, ValueError, "Q [2, 3, 6, 3], K [2, 3, 6, 4]", "to one D"),
    "lengths": (Q, K, V[:, :, 1:], ValueError, "needs its value", "K [2, 3, 6, 4], V [2, 3, 5, 5]"),
}


@pytest.mark.parametrize("what", INPUTS)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_inputs_are_refused(name, what):
    q, k, v, error, *words = INPUTS[what]
    with refuses(error, *words):
        mechanism(name)(q, k, v)


@pytest.mark.parametrize("what", CROSS)
@pytest.mark.parametrize("name", WITH_KEYS)
def test_queries_keys_and_values_that_do_not_fit_are_refused(name, what):
    q, k, v, error, *words = CROSS[what]
    with refuses(error, *words):
        mechanism(name)(q, k, v)


@pytest.mark.parametrize("name", WITH_KEYS)
def test_causal_cross_attention_is_refused(name):
    mechanism(name)(Q[:, :, 1:], K, V)
    words = ("as many queries as keys", "Q [2, 3, 5, 4], K [2, 3, 6, 4]", "causal=False", "state=")
    with refuses(ValueError, *words):
        mechanism(name)(Q[:, :, 1:], K, V, causal=True)


LENGTHS = {
    "too few": (torch.tensor([6]), "shape [1]", "one whole number per batch entry: 2"),
    "two axes": (torch.tensor([[6, 6]]), "shape [1, 2]", "one whole number"),
    "no whole numbers": (torch.tensor([6.0, 6.0]), "torch.float32", "one whole number"),
    "a mask": (torch.tensor([True, True]), "torch.bool", "one whole number"),
    "nothing": (torch.tensor([0, 6]), "from 0 to 6", "between 1 and the number of keys, 6"),
    "too long": (torch.tensor([7, 6]), "from 6 to 7", "between 1 and the number of keys, 6"),
}


@pytest.mark.parametrize("what", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_key_lengths_are_refused(name, what):
    lengths, *words = LENGTHS[what]
    with refuses(ValueError, "key_lengths", *words):
        mechanism(name)(Q, K, V, key_lengths=lengths)


@pytest.mark.parametrize("name", NAMES)
def test_options_of_others_are_refused(name):
    with pytest.raises(TypeError, match="temperature"):
        mechanism(name)(Q, K, V, temperature=1.0)


# Linear attention --------------------------------------------------------------------------


def fewer_positions(x):
    return x[:, :, 1:]


def to_double(x):
    return x.double()


def logarithm(x):
    return x.log()


def to_number(x):
    return 1.0


MAPS = {
    "no function": ("elu", TypeError, "feature_map is 'elu'", "function"),
    "positions": (fewer_positions, ValueError, "fewer_positions turned [2, 3, 6, 4] into "
                  "[2, 3, 5, 4]", "last axis alone"),
    "no tensor": (to_number, ValueError, "to_number turned [2, 3, 6, 4] into float"),
    "type": (to_double, TypeError, "to_double turned torch.float32 into torch.float64", "Keep"),
    "NaN": (logarithm, ValueError, "logarithm made NaN or infinity out of finite", "defined there"),
}  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("what", MAPS)
def test_wrong_feature_maps_are_refused(what, causal):
    phi, error, *words = MAPS[what]
    with refuses(error, *words):
        linear_attention(Q, K, V, causal=causal, feature_map=phi)


@pytest.mark.parametrize("causal", [False, True])
def test_a_negative_similarity_is_refused(causal):
    ones = torch.ones(B, H, N, D)
    with refuses(ValueError, "denominator of -", "negative", "Sec. 3.2", "elu_plus_one"):
        linear_attention(ones, -ones, V, causal=causal, feature_map=F.tanh)


def a_state(C=D, *, dtype=torch.float32, device="cpu"):
    return State(*(torch.ones(B, H, *s, dtype=dtype, device=device) for s in ((C, M), (C,))))


STATES = {
    "size": (a_state(D + 1), "[2, 3, 5, 5] and [2, 3, 5]", "need [2, 3, 4, 5] and [2, 3, 4]"),
    "batch": (State(*(x[:1] for x in a_state())), "[1, 3, 4, 5]", "Use the state that the same"),
    "type": (a_state(dtype=torch.float64), "torch.float64", "need torch.float32", "Convert"),
    "device": (a_state(device="meta"), "on meta", "inputs on cpu", "Convert the state"),
}


@pytest.mark.parametrize("what", STATES)
def test_a_state_of_another_problem_is_refused(what):
    state, *words = STATES[what]
    for causal in (False, True):
        with refuses(ValueError, "The state", *words):
            linear_attention(Q, K, V, causal=causal, state=state)
    with refuses(ValueError, "The state", *words):
        linear_attention_step(state, Q[:, :, 0], K[:, :, 0], V[:, :, 0])


def test_half_types_need_a_state_in_float32():
    with refuses(ValueError, "torch.float16", "torch.float16 inputs", "need torch.float32"):
        linear_attention(Q.half(), K.half(), V.half(), state=a_state(dtype=torch.float16))


def test_a_step_takes_one_token():
    with refuses(ValueError, "one token", "q has shape [2, 3, 6, 4]", "Use linear_attention"):
        linear_attention_step(None, Q, K, V)


# LSH attention -----------------------------------------------------------------------------


def test_lsh_refuses_cross_attention():
    with refuses(ValueError, "Q is [2, 3, 6, 4] and V [2, 3, 5, 5]", "cannot do cross attention"):
        lsh_attention(Q, V[:, :, 1:])


SETTINGS = [
    ({"rounds": 0}, "rounds=0 is too small. Choose at least 1."),
    ({"buckets": 0}, "buckets=0 is too small. Choose at least 2."),
    ({"chunk": 0}, "chunk=0 is too small. Choose at least 1."),
    ({"buckets": 7}, "buckets=7 is odd"),
]


@pytest.mark.parametrize(("options", "words"), SETTINGS, ids=str)
def test_lsh_refuses_settings_without_meaning(options, words):
    with refuses(ValueError, words):
        lsh_attention(Q, V, **options)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_right_is_not_refused(name):
    """Lists of lengths too, when shapes are not checked; so the refusals above mean something."""
    assert mechanism(name)(Q, K, V, key_lengths=[6, 3]).shape == (B, H, N, M)
    assert math.isfinite(mechanism(name)(Q, K, V, causal=True).sum())


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(1, 3, 4), torch.zeros(2, 3, 5)),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), torch.zeros(2, 1, 5)),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4).double(), torch.zeros(2, 3, 5)),
    ],
    ids=["batch", "heads", "type"],
)
def test_a_step_whose_parts_do_not_belong_together_is_told(unhooked, q, k, v):
    with pytest.raises(ValueError, match="do not belong together"):
        linear_attention_step(None, q, k, v)


def test_a_state_in_the_wrong_place_is_told(unhooked):
    x = torch.zeros(2, 3, 4)
    _, state = linear_attention_step(None, x, x, x)
    with pytest.raises(TypeError, match="The state comes first"):
        linear_attention_step(x, x, x, state)


STATE = State(torch.rand(B, H, D, M), torch.rand(B, H, D))


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (State(STATE.s, STATE.z.double()), ValueError, "z of torch.float64"),
        (State(STATE.s, STATE.z.half()), ValueError, "z of torch.float16"),
        (State(STATE.s, STATE.z.to("meta")), ValueError, "on meta"),
        (tuple(STATE), TypeError, "The state is a tuple"),
        (State(STATE.s, [1.0]), TypeError, "z is a list"),
    ],
    ids=["float64", "half", "elsewhere", "tuple", "list"],
)
def test_a_state_whose_parts_do_not_belong_together_is_refused(causal, state, error, words):
    """An address of another type was read as float32; one of another device crashed."""
    with refuses(error, words):
        linear_attention(Q, K, V, causal=causal, state=state)


@pytest.mark.parametrize("lengths", ["abc", [None], [10**30] * 2, [1.0, 2.0], [1 + 2j] * 2])
def test_key_lengths_of_another_kind_are_refused_in_our_words(lengths):
    with pytest.raises((TypeError, ValueError), match="one whole number per batch entry: 2"):
        linear_attention(Q, K, V, key_lengths=lengths)


def test_a_mask_must_be_asked_for_by_true_or_false():
    with refuses(TypeError, "causal is 'no'", "True or False"):
        linear_attention(Q, K, V, causal="no")


@pytest.mark.parametrize(
    ("feature_map", "words"),
    [(lambda x: x.exp().sum(-1), "may change the last axis alone"), (torch.log, "NaN or infinity"),
     (lambda x: x.exp().double(), "Keep it"), ("elu", "Pass a function")],
)  # fmt: skip
def test_a_step_asks_the_same_of_a_feature_map_as_a_whole_sequence(feature_map, words):
    with pytest.raises((TypeError, ValueError), match=words):
        linear_attention_step(None, Q[:, :, 0], K[:, :, 0], V[:, :, 0], feature_map=feature_map)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_sums_stay_in_float32_under_autocast(causal):
    exact, state = linear_attention(Q, K, V, causal=causal, return_state=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, cast = linear_attention(Q, K, V, causal=causal, return_state=True)
        stepped, _ = linear_attention_step(cast, Q[:, :, 0], K[:, :, 0], V[:, :, 0])
    assert cast.s.dtype == cast.z.dtype == torch.float32
    torch.testing.assert_close((found, *cast), (exact, *state))
    torch.testing.assert_close(
        stepped, linear_attention_step(state, Q[:, :, 0], K[:, :, 0], V[:, :, 0])[0]
    )
