"""Each suspect is what it says, their forms compute what ours do, and the rules judge by rows."""

import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from replication import claims, reference, store
from replication.experiments.base import INCONCLUSIVE, NOT, NOT_RUN, PARTLY, SUPPORTED
from replication.experiments.copy_task.task import EarlierCopy, copy
from replication.experiments.crossover.numbers import EARLIER_ENDS, TABLE_1
from replication.experiments.earlier import figures, numbers, rules, run, speed
from replication.experiments.earlier.forms import Disturbed, Promoting, their_attention
from replication.experiments.earlier.numbers import ALL, CONVERGENCE, NONE, SPEED
from replication.model import Sizes

SIZES = Sizes("linear", 32, 2, 4, 48, 12, 9)
TASK = EarlierCopy(9, 10)


def model(*switches, attention="linear"):
    torch.manual_seed(3)
    return Disturbed(SIZES._replace(attention=attention), switches)


def logits(*switches, **options):
    return model(*switches, **options)(*TASK.batch("train", 0, 1, 2).inputs)


# Switches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_without_a_mask_a_place_sees_the_token_that_it_must_predict(attention):
    source, tokens = TASK.batch("train", 0, 1, 2).inputs
    other = tokens.clone()
    other[:, 5] = tokens[:, 5] % 10 + 1  # what place 4 must predict
    for switches, seen in (((), False), (("mask",), True)):
        found = model(*switches, attention=attention)
        before, after = (found(source, x)[:, 4] for x in (tokens, other))
        assert bool((before - after).abs().max() > 1e-4) is seen


def test_a_model_without_a_mask_can_learn_to_read_the_answer_and_not_to_write_it():
    """It is given no source: all that it can copy from is what it must predict."""
    study = numbers.check(profile="smoke", steps=300, lengths=(6,), alone=(6,), suspects="mask")
    one = next(r for r in study.runs() if r.attention == "softmax")
    task = Blind(6, 10)
    outcome = run.train.train(run.new_model(replace(one, lr=3e-3, batch_size=32)), task,
                              replace(one, lr=3e-3, batch_size=32), progress=False)  # fmt: skip
    assert outcome.evaluations[-1]["token_accuracy"] > 0.9
    assert run.free_running(outcome.model, task)[0] < 0.4


class Blind(EarlierCopy):
    """The encoder reads nothing but start symbols."""

    def lay_out(self, words, lengths):
        batch = super().lay_out(words, lengths)
        return batch._replace(inputs=(torch.zeros_like(batch.inputs[0]), batch.inputs[1]))


def test_heads_split_twice_have_eight_features_and_the_same_weights():
    assert model("heads").layers[0].attention.heads == 4
    assert {p.shape for p in model("heads").parameters()} == {p.shape for p in model().parameters()}
    assert not torch.allclose(logits("heads"), logits())


def test_their_second_split_is_a_reordering_of_the_features_of_smaller_heads():
    """Julia counts columns first: of 64 features number h + 8 d is feature d of head h."""
    x = np.arange(64)
    theirs = x.reshape(8, 8, order="F")
    assert [*theirs[3]] == [3 + 8 * d for d in range(8)]
    assert sorted(theirs.ravel()) == [*x]


def test_elu_plus_one_is_in_the_decoder_alone():
    found = model("activation")
    assert {layer.activation for layer in found.layers} != {f.activation for f in found.encoder}
    assert torch.allclose(found.encode(torch.ones(1, 9).long()),
                          model().encode(torch.ones(1, 9).long()))  # fmt: skip


def test_half_of_the_encoder_is_left_out():
    source = TASK.batch("train", 0, 1, 2).inputs[0]
    full = model()
    x = full.embedding(source)
    for layer in full.encoder[:2]:
        x = layer(x)
    assert torch.equal(model("encoder").encode(source), x)


def test_tokens_are_scaled_and_positions_are_trained():
    tokens = torch.tensor([[4, 5, 6]])
    plain, scaled = model().embedding, model("scaled").embedding
    table = plain.table[:3]
    assert torch.allclose(scaled(tokens) - table, (plain(tokens) - table) / 32**0.5, atol=1e-6)
    found = model("positions")
    assert torch.equal(found.embedding(tokens), plain(tokens))
    found(*TASK.batch("train", 0, 1, 2).inputs).sum().backward()
    assert found.embedding.table.grad.abs().sum() > 0
    assert "table" not in dict(model().embedding.named_parameters())


def test_disturbed_embeddings_write_token_by_token_what_they_write_at_once():
    found, words = model("scaled", "positions", "heads", "encoder"), [[1, 2, 3, 4, 5, 6, 7]]
    assert copy(found, TASK, words, "memory") == copy(found, TASK, words, "full")


def test_adam_and_batch_are_numbers_of_the_run():
    runs = {(r.suspect, r.attention, r.length): r for r in numbers.STUDIES["paper"].runs()}
    adam, batch = runs["adam", "softmax", 8], runs["batch", "linear", 8]
    assert (adam.optimiser, adam.lr, adam.weight_decay) == ("adam", pytest.approx(1e-4), 0)
    assert (batch.batch_size, batch.lr, batch.optimiser) == (32, 1e-3, "radam")
    assert ("batch", "softmax", 8) not in runs
    assert runs[ALL, "softmax", 64].switches == ("mask", "encoder", "adam", "scaled", "positions")
    assert set(runs[ALL, "linear", 64].switches) == set(CONVERGENCE)


# Their attention --------------------------------------------------------------------------------


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("generic", [False, True])
def test_their_contractions_are_linear_attention_in_values_and_gradients(double, generic):
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    found = their_attention(Q, K, V, double=double, generic=generic)
    assert found.dtype == (torch.float64 if double else torch.float32)
    weight = torch.randn(2, 3, 5, 4)
    gradients = torch.autograd.grad((found * weight).sum(), (Q, K, V))
    doubles = [x.detach().double().requires_grad_() for x in (Q, K, V)]
    expected = torch.stack([
        torch.stack([reference.REFERENCES["linear"](*heads, causal=False)
                     for heads in zip(*sample, strict=True)])
        for sample in zip(*doubles, strict=True)
    ])  # fmt: skip
    right = torch.autograd.grad((expected * weight).sum(), doubles)
    assert torch.allclose(found.double(), expected, atol=1e-5)
    for mine, theirs in zip(gradients, right, strict=True):
        assert torch.allclose(mine.double(), theirs, atol=1e-5)


def test_their_attention_refuses_a_mask():
    x = torch.ones(1, 1, 2, 2)
    with pytest.raises(ValueError, match="knows no causal mask"):
        their_attention(x, x, x, causal=True)


def test_after_the_first_denominator_all_is_double_and_weights_stay_single():
    plain = logits("mask")
    found = model("mask", "double")
    with Promoting():
        made = found(*TASK.batch("train", 0, 1, 2).inputs)
        made.sum().backward()
    assert made.dtype == torch.float64
    assert torch.allclose(made.float(), plain, atol=1e-4)
    assert {p.grad.dtype for p in found.parameters()} == {torch.float32}


def test_a_step_updates_and_makes_a_further_pass_only_where_it_should(monkeypatch):
    passes = []
    forward = Disturbed.forward
    monkeypatch.setattr(Disturbed, "forward", lambda *x: passes.append(1) or forward(*x))
    for name in speed.CONTENDERS:
        step = speed.new_steps(name, numbers.TIMINGS["smoke"], torch.device("cpu"))[16]
        before = len(passes)
        step()
        assert len(passes) - before == (2 if name in ("forwards", "softmax forwards", ALL) else 1)


# Rules ------------------------------------------------------------------------------------------

OWN = {claim.id: claim.numbers for claim in claims.claims() if claim.experiment == "earlier"}


def trained(alone=None, every=0.0, free=1.0, updates=3000):
    """Runs as if made: none ends at 0, all at theirs + ``every``, suspects as ``alone`` says."""
    rows = []
    for length, ends in EARLIER_ENDS.items():
        for attention, end in ends.items():
            losses = {NONE: 0.0, ALL: end + every} | (alone or {})
            rows += [{"suspect": s, "attention": attention, "length": length, "seed": 0,
                      "updates": updates, "batch": 8, "loss": loss, "accuracy": 1.0,
                      "free_symbols": free if s == "mask" else 1.0, "free_words": free}
                     for s, loss in losses.items()]  # fmt: skip
    return pd.DataFrame(rows)


def timed(device="cpu", **factors):
    """Steps as if timed: softmax takes its published time, linear that times the factors."""
    theirs = dict(zip(TABLE_1["N"], TABLE_1["softmax"], strict=True))
    rows = [
        {"contender": name, "N": N, "run": i, "round": k, "disturbed": False,
         "time_ms": theirs[N] * (1 + 0.01 * i) * factors.get(name, 1.0)}
        for name in speed.CONTENDERS for N in theirs for i in range(5) for k in range(2)
    ]  # fmt: skip
    facts = {"machine": {"device": device}}
    return SimpleNamespace(runs=trained().iloc[:0], times=pd.DataFrame(rows), facts=facts)


def e3(runs):
    evidence = SimpleNamespace(runs=runs, times=pd.DataFrame(), facts={})
    return rules.explains_convergence(evidence, **OWN["E3"])


@pytest.mark.parametrize(("every", "updates", "outcome"), [
    (0.1, 3000, SUPPORTED), (1.0, 3000, NOT), (1.0, 450, INCONCLUSIVE)])  # fmt: skip
def test_e3_asks_whether_losses_end_where_theirs_do(every, updates, outcome):
    assert e3(trained(every=every, updates=updates)).outcome == outcome


def test_e3_is_partly_supported_where_some_curves_agree():
    runs = trained()
    runs.loc[(runs.suspect == ALL) & (runs.attention == "softmax"), "loss"] = 0.0
    assert e3(runs).outcome == PARTLY


def test_e3_does_not_ask_of_curves_that_agree_with_no_switch_on():
    """Theirs of linear attention end at 0 for N = 8 and 32, as ours do in any case."""
    found = e3(trained(every=-3.0))
    agree = [loss for ends in EARLIER_ENDS.values() for loss in ends.values() if loss <= 0.23]
    assert (found.outcome, found.values["asked"]) == (NOT, 8 - len(agree))
    assert len(agree) == 2


def test_a_suspect_explains_by_the_way_it_goes_and_misleads_by_what_it_borrows():
    found = e3(trained({"adam": 1.5, "heads": 0.4, "scaled": 0.01, "mask": 0.0}, free=0.3))
    said = {name: one["verdict"] for name, one in found.values["suspects"].items()}
    assert said == {"mask": "misleads", "adam": "explains", "heads": "contributes",
                    "scaled": "does not"}  # fmt: skip
    assert (
        "“no causal mask in the decoder” misleads, by a low loss that is no copy" in found.evidence
    )


@pytest.mark.parametrize(("share", "said"), [
    (None, "–"), (-0.001, "0 % of the way"), (0.07, "+7 % of the way"),
    (-0.5, "\u221250 % of the way")])  # fmt: skip
def test_a_part_of_the_way_that_rounds_to_0_has_no_sign(share, said):
    assert rules._way(share) == said


def test_symbols_that_a_half_learnt_model_loses_are_not_borrowed():
    runs = trained({"mask": 0.0}, free=0.3)
    runs.loc[runs.suspect == "mask", "accuracy"] = 0.8
    assert e3(runs).values["suspects"]["mask"]["verdict"] == "does not"


@pytest.mark.parametrize(("factor", "device", "outcome"), [
    (14, "cpu", SUPPORTED), (2, "cpu", INCONCLUSIVE), (2, "a card", NOT),
    (90, "cpu", NOT)])  # fmt: skip
def test_e4_asks_for_their_ratio_and_a_processor_refutes_none_that_is_larger(
    factor, device, outcome
):
    evidence = timed(device=device, **{ALL: factor})
    assert rules.explains_speed(evidence, **OWN["E4"]).outcome == outcome


def test_a_factor_that_softmax_has_too_is_none():
    times = timed(forwards=1.5, batch=4.0, **{"softmax forwards": 1.5}).times
    found = rules.speed_verdicts(rules.factors(times), explains=0.5, contributes=0.1)
    assert found["forwards"]["factors"] == pytest.approx(dict.fromkeys(TABLE_1["N"], 1.0))
    assert {name: one["verdict"] for name, one in found.items()} == {
        "double": "does not", "generic": "does not", "forwards": "does not", "heads": "does not",
        "batch": "explains",
    }  # fmt: skip


def test_a_factor_of_one_leaves_their_crossover_and_a_larger_one_moves_it():
    found = rules.factors(timed(batch=3.0, generic=2.0).times)
    assert rules.without(found, "heads").at == pytest.approx(3148.7, abs=0.1)
    assert rules.without(found, "batch").at < rules.without(found, "generic").at < 1600
    evidence = timed(batch=3.0, generic=2.0, **{ALL: 6.0})
    verdict = rules.moves_the_crossover(evidence, **OWN["E5"])
    assert verdict.outcome == SUPPORTED
    assert verdict.values["most"] == "batch"
    assert rules.moves_the_crossover(timed(), **OWN["E5"]).outcome == NOT


def test_our_steps_cross_where_theirs_do_if_they_take_their_times():
    times = timed().times
    theirs = dict(zip(TABLE_1["N"], TABLE_1["linear"], strict=True))
    is_batch = times.contender == "batch"
    times.loc[is_batch, "time_ms"] = times.N.map(theirs) * (1 + 0.01 * times["run"])
    found = rules.crossing_table(times).set_index("Suspect")
    assert found.loc[SPEED["batch"].words, "Our steps with it"] == "3149† (2402–4558)"
    assert found.loc["none", "Their times without it"] == "3149† (2402–4558)"


def test_every_suspect_of_the_reference_run_has_a_crossover():
    kept = [store.load(unit, current=False) for unit in speed.speed_units("reference", "cpu")]
    found = rules.crossing_table(run.evidence(kept).times).iloc[:, 1:]
    assert found.map(lambda text: bool(re.match(r"\d+†? \(", text))).all(axis=None), found


def test_what_their_card_needs_at_least_is_less_than_what_they_measured():
    card = rules.on_their_card()
    assert (card.batch < rules.published()).all()
    assert (card.alone <= card.batch).all()
    assert card.batch[64] == pytest.approx(13.5, abs=0.1)


def test_without_rows_the_claims_were_not_run_here():
    found = claims.judge_with("earlier", run.evidence([]))
    assert {one.outcome for one in found.values()} == {NOT_RUN}


# Units ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    study = numbers.check(profile="smoke", lengths=(8,), suspects="none, mask, all")
    folder = tmp_path_factory.mktemp("results")
    units = [*run.units_of(study), *speed.speed_units("smoke", "cpu")]
    return run.evidence(store.ensure_all(units, folder))


def test_units_give_rows_that_rules_and_figures_take(evidence):
    assert len(evidence.runs) == 6
    assert evidence.runs.free_symbols.between(0, 1).all()
    assert set(evidence.times.contender) == set(speed.CONTENDERS)
    for verdict in claims.judge_with("earlier", evidence).values():
        assert verdict.outcome in (INCONCLUSIVE, PARTLY)
    assert len(figures.suspects(evidence.runs).axes) == 2
    assert len(figures.theirs_and_ours(evidence.evaluations).axes) == 1
    assert [axes.get_title() for axes in figures.waterfall(evidence.times).axes] == [
        f"N = {N}" for N in TABLE_1["N"]
    ]
    labels = figures.waterfall(evidence.times).axes[0].get_yticklabels()
    assert not any("\n" in label.get_text() for label in labels)
    table = rules.overview(evidence, OWN["E3"], OWN["E4"])
    assert len(table) == 1 + len(SPEED)
    assert len(rules.crossing_table(evidence.times)) == 2 + len(SPEED)


def test_bars_of_the_waterfall_join_and_end_at_what_was_measured(evidence):
    found = rules.factors(evidence.times)
    bars = figures._bars(found[found.N == 16].set_index("suspect").factor, 16)
    chain = [bars[name] for name in ("ours", "mask", *SPEED, "together")]
    for (_, end), (start, _) in pairwise(chain):
        assert start == pytest.approx(end)
    assert chain[-1][1] == pytest.approx(bars[ALL][1])


@pytest.mark.parametrize(("given", "words"), [
    ({"suspects": "nobody"}, "suspect='nobody' is unknown. Choose one of: none, mask"),
    ({"lengths": [2]}, "length=2 is too small. Choose at least 4"),
    ({"profile": "huge"}, "profile='huge' is unknown"),
    ({"colour": "red"}, "parameter='colour' is unknown"),
    ({"seeds": []}, "seeds is empty"),
    ({"steps": 0}, "steps=0 is too small")])  # fmt: skip
def test_what_cannot_be_run_is_told_before_anything_is(given, words):
    with pytest.raises(ValueError, match=words):
        numbers.check(**given)
