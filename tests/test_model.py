"""Models: their size, their start, what they can see, and that decoding is the same model."""

from dataclasses import replace

import pytest
import torch

from replication.attention import mechanism, mechanisms, trained
from replication.experiments.copy_task.numbers import ORDER
from replication.experiments.copy_task.run import new_model, task_of
from replication.experiments.copy_task.studies import resolve
from replication.experiments.copy_task.task import TASKS

EXACT = ("softmax", "linear")
REMEMBERING = [name for name in trained() if mechanism(name).memory]


def model_of(setting, attention, **overrides):
    """A small model with awkward sizes in float64, and tokens for it."""
    sizes = {"d_model": 24, "n_heads": 3, "n_layers": 2, "d_ff": 20, "lengths": 70} | overrides
    experiment = resolve(setting, "smoke", attentions=attention, seeds=1, batch_size=3, **sizes)
    (run,) = experiment.runs()
    inputs = task_of(run).batch("train", 0, 0, 3).inputs
    return new_model(run).double().eval(), inputs


def test_the_papers_model_has_as_many_parameters_as_the_authors():
    (run,) = resolve("paper", "paper", attentions="linear", seeds=0).runs()
    embedding, layer = 11 * 128, 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 4 * 256
    expected = embedding + 4 * layer + 2 * 256 + 256 * 11 + 11
    assert sum(p.numel() for p in new_model(run).parameters()) == expected == 3_163_787


@pytest.mark.parametrize("setting", TASKS)
def test_all_mechanisms_start_from_the_same_weights(setting):
    models = {name: model_of(setting, name)[0] for name in ORDER}
    softmax, linear, lsh = (dict(m.named_parameters()) for m in models.values())
    assert softmax.keys() == linear.keys() == lsh.keys()
    for name, weights in softmax.items():
        assert torch.equal(weights, linear[name])
        if lsh[name].shape != weights.shape:
            query, _, value = weights.chunk(3)
            weights = torch.cat((query, value))
        assert torch.equal(weights, lsh[name])


def test_another_seed_starts_from_other_weights():
    first, second = resolve("paper", "smoke", attentions="linear", seeds=[0, 1]).runs()
    a, b = new_model(first).predict.weight, new_model(second).predict.weight
    assert not torch.equal(a, b)


@pytest.mark.parametrize("attention", EXACT)
@pytest.mark.parametrize("setting", TASKS)
def test_no_output_depends_on_later_tokens(setting, attention):
    model, (*source, tokens) = model_of(setting, attention)
    before = model(*source, tokens)
    for place in (1, 40, tokens.shape[1] - 1):
        changed = tokens.clone()
        changed[:, place] = changed[:, place] % 10 + 1
        after = model(*source, changed)
        torch.testing.assert_close(after[:, :place], before[:, :place], rtol=0, atol=1e-12)
        assert not torch.allclose(after[:, place:], before[:, place:])


@pytest.mark.parametrize("attention", [*EXACT, "lsh"])
def test_the_decoder_sees_all_of_the_source(attention):
    model, (source, tokens) = model_of("earlier", attention, lengths=12)
    before = model(source, tokens)
    for place in (0, source.shape[1] - 1):
        changed = source.clone()
        changed[:, place] = 5
        assert not torch.allclose(model(changed, tokens)[:, 0], before[:, 0])


@pytest.mark.parametrize("attention", REMEMBERING)
@pytest.mark.parametrize("setting", TASKS)
def test_steps_with_a_memory_equal_the_full_forward(setting, attention):
    model, (*source, tokens) = model_of(setting, attention)
    with torch.inference_mode():
        expected = model(*source, tokens)
        memory = model.begin(*source, batch=len(tokens), length=tokens.shape[1])
        for place in range(tokens.shape[1]):
            logits = model.step(tokens[:, place], place, memory)
            torch.testing.assert_close(logits, expected[:, place], rtol=1e-9, atol=1e-9)


def test_the_memory_of_linear_attention_does_not_grow():
    model, _ = model_of("paper", "linear")
    sizes = {length: model.begin(3, length)[0][0].s.shape for length in (1, 70)}
    assert sizes[1] == sizes[70] == (3, 3, 8, 8)


@pytest.mark.parametrize("attention", [*EXACT, "lsh"])
def test_patterns_are_the_weights_that_attention_uses(attention):
    model, (tokens,) = model_of("paper", attention)
    attend = model.layers[0].attention
    x = model.embedding(tokens)
    pattern, (_, _, v) = model.patterns(tokens)[0], attend.queries_keys_values(x)
    assert (pattern >= 0).all()
    assert (pattern.triu(1) == 0).all()
    torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]), rtol=0, atol=1e-5)
    mixed = attend.mix((pattern @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixed, attend(x), rtol=1e-5, atol=1e-6)


def test_cross_patterns_cover_the_source():
    model, (source, tokens) = model_of("earlier", "linear")
    patterns = model.patterns(source, tokens)
    assert patterns[1].shape == (3, 3, tokens.shape[1], source.shape[1])
    torch.testing.assert_close(
        patterns[1].sum(-1), torch.ones(3, 3, 69).double(), rtol=0, atol=1e-5
    )


def test_lsh_has_no_memory_and_says_so():
    model, _ = model_of("paper", "lsh")
    with pytest.raises(
        ValueError, match=r'"lsh" attention needs the whole sequence.*full forward.*linear'
    ):
        model.begin(1, 10)


def test_lsh_hashes_anew_in_training_and_alike_in_evaluation():
    model, (tokens,) = model_of("paper", "lsh", dropout=0)
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


class Gains(torch.nn.Module):
    """A mechanism's own parameters: one gain a head."""

    def __init__(self, n_heads, size, length):
        super().__init__()
        self.gains = torch.nn.Parameter(torch.randn(n_heads, 1, 1))
        self.sizes = n_heads, size, length


def gained(Q, K, V, *, causal=False, key_lengths=None, own):
    return own.gains * mechanism("linear")(Q, K, V, causal=causal, key_lengths=key_lengths)


@pytest.fixture
def toy(monkeypatch):
    """A mechanism that owns parameters, known for the length of a test."""
    card = replace(mechanism("linear"), name="toy", attend=gained, parameters=Gains, memory=None)
    monkeypatch.setitem(mechanisms(), "toy", card)


@pytest.mark.parametrize("setting", TASKS)
def test_a_mechanism_may_own_parameters_and_all_others_start_alike(toy, setting):
    model, inputs = model_of(setting, "toy")
    plain, _ = model_of(setting, "linear")
    own = {name: value for name, value in model.named_parameters() if "own" in name}
    assert len(own) == 2 * (1 if setting == "paper" else 3)
    for name, value in plain.named_parameters():
        assert torch.equal(value, model.get_parameter(name)), name
    firsts = [value.flatten()[0].item() for value in own.values()]
    assert len(set(firsts)) == len(firsts), "layers drew the same numbers"
    assert model.layers[0].attention.own["own"].sizes == (3, 8, 70)
    model(*inputs).square().sum().backward()
    assert all((value.grad != 0).any() for value in own.values())


def test_too_long_a_sequence_is_refused():
    model, _ = model_of("paper", "linear")
    with pytest.raises(ValueError, match="knows 70 positions, but came 71 tokens"):
        model(torch.ones(1, 71, dtype=torch.int64))


def test_softmax_is_pytorchs_transformer_encoder():
    """Same weights, same output: post-norm, relu, causal mask."""
    model, (tokens,) = model_of("paper", "softmax")
    x = model.embedding(tokens)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 20, 0.0, batch_first=True).double()
    ours = model.layers[0]
    pairs = [
        (layer.self_attn.in_proj_weight, ours.attention.project.weight),
        (layer.self_attn.in_proj_bias, ours.attention.project.bias),
        (layer.self_attn.out_proj.weight, ours.attention.mix.weight),
        (layer.self_attn.out_proj.bias, ours.attention.mix.bias),
        (layer.linear1.weight, ours.widen.weight),
        (layer.linear1.bias, ours.widen.bias),
        (layer.linear2.weight, ours.narrow.weight),
        (layer.linear2.bias, ours.narrow.bias),
    ]
    with torch.no_grad():
        for theirs, own in pairs:
            theirs.copy_(own)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(70, dtype=x.dtype)
        torch.testing.assert_close(ours(x), layer(x, mask), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("attention", "theirs"), [("linear", "causal-linear"), ("softmax", "full")]
)
def test_the_papers_model_is_that_of_the_authors_library(attention, theirs):
    pytest.importorskip("fast_transformers", reason="authors' library absent: make peers")
    from fast_transformers.builders import TransformerEncoderBuilder
    from fast_transformers.masking import TriangularCausalMask

    model, (tokens,) = model_of("paper", attention)
    model = model.float()
    peer = TransformerEncoderBuilder.from_kwargs(
        n_layers=2, n_heads=3, query_dimensions=8, value_dimensions=8, feed_forward_dimensions=20,
        attention_type=theirs, activation="relu", dropout=0.0, attention_dropout=0.0,
    ).get()  # fmt: skip
    peer.load_state_dict(dict(_for_the_authors_library(model)))
    x = model.embedding(tokens)
    expected = peer.eval()(x, attn_mask=TriangularCausalMask(70))
    torch.testing.assert_close(model(tokens), model.predict(expected), rtol=1e-4, atol=1e-5)


def _for_the_authors_library(model):
    """Our weights under the names of pytorch-fast-transformers."""
    for kind in ("weight", "bias"):
        yield f"norm.{kind}", getattr(model.norm, kind)
        for i, layer in enumerate(model.layers):
            parts = getattr(layer.attention.project, kind).chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                yield f"layers.{i}.attention.{name}_projection.{kind}", part
            yield f"layers.{i}.attention.out_projection.{kind}", getattr(layer.attention.mix, kind)
            names = {"linear1": "widen", "linear2": "narrow", "norm1": "norm", "norm2": "norm_ff"}
            for theirs, ours in names.items():
                yield f"layers.{i}.{theirs}.{kind}", getattr(getattr(layer, ours), kind)
