"""Image generation: what is timed, and the rules of C7 to C10 on rows with known answers."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from replication import claims, measure
from replication.data import DataError
from replication.experiments.base import INCONCLUSIVE, NOT_RUN, PARTLY, SUPPORTED
from replication.experiments.images import figures, numbers, rules, run, speed
from replication.experiments.images.studies import STUDIES, resolve
from replication.store import Result, Unit

# Speed -------------------------------------------------------------------------------------------


def test_sampled_places_stand_for_all_bytes():
    for length, count in ((783, 2), (783, 3), (3071, 2), (3071, 12)):
        found = list(speed.places(length, count))
        assert sum(part for _, part in found) == pytest.approx(length)
        for power in (1, 2):
            total = sum(part * place**power for place, part in found)
            assert total == pytest.approx(sum(n**power for n in range(length)), rel=0.003)
        assert 0 <= min(found)[0] <= max(found)[0] < length


def test_a_whole_image_counts_before_the_sum_over_its_samples():
    found = timed({("linear", 1): 1.0, ("softmax", 1): 3.0})
    found = found._replace(rows=pd.concat([found.rows, repeats("linear", 1, 783, 2.0, "whole")]))
    assert rules.times_faster(found, "softmax", 1)["ratio"] == pytest.approx(1.5, rel=0.01)
    assert rules.check_sums(found).off.tolist() == pytest.approx([-0.5], abs=0.01)


def test_the_paper_s_seconds_of_one_image_stand_beside_ours():
    both = {"mnist": fast(400), "cifar10": timed({("softmax-fused", 1): 2.0})}
    found = figures.beside_paper(both).set_index(["Images", "Contender"])
    theirs = found[["Paper, s", "Paper, s, GPU", "Paper, images/s"]]
    assert theirs.loc[("MNIST", figures.label("linear"))].tolist() == [5.5, 7.3, 142.8]
    assert theirs.loc[("MNIST", figures.label("softmax-cache"))].tolist() == [7.4, 10.4, 7.56]
    assert theirs.loc[("CIFAR-10", figures.label("softmax-fused"))].tolist() == ["–"] * 3


def test_a_state_keeps_the_same_bytes_and_a_cache_those_of_the_image():
    of = speed.sizes_of("mnist")
    _, state = speed._byte("linear", speed.new_model("linear", "mnist"), 2)
    _, cache = speed._byte("softmax-cache", speed.new_model("softmax-cache", "mnist"), 2)
    heads, size = of["n_heads"], of["d_model"] // of["n_heads"]
    assert state == 4 * of["n_layers"] * heads * (size * size + size)
    assert cache == 4 * of["n_layers"] * 2 * 783 * of["d_model"]


def test_a_run_times_samples_and_whole_images_and_the_first_counts_and_checks():
    one = numbers.Speed("mnist", "smoke", (1, 2), (), ("linear",), 2, 1, ("linear",), ("linear",),
                        2, 2, 240.0)  # fmt: skip
    first, second = (speed.timed(one, i, torch.device("cpu"), Path()).rows for i in range(2))
    for rows in (first, second):
        samples = rows[rows.what == "sample"]
        assert samples.groupby(["batch", "place"]).size().tolist() == [2] * 4
        assert samples.drop_duplicates(["batch", "place"]).groupby("batch").part.sum().tolist() == (
            pytest.approx([783, 783])
        )
        assert rows[rows.what == "whole"].place.tolist() == [783] * 2
    assert first.what.value_counts()[["bytes", "checked"]].tolist() == [2, 1]
    assert set(second.what) == {"sample", "whole"}
    assert speed.Timed(first, {}).sizes.kept_bytes.gt(0).all()


def test_a_batch_that_does_not_fit_is_left_out_with_a_reason():
    one = speed.new_model("softmax-cache", "mnist")
    why = speed.does_not_fit("softmax-cache", one, 10**6, torch.device("cpu"))
    assert why.startswith("needs about 12")
    assert "GB that are free" in why
    assert speed.does_not_fit("linear", one, 1, torch.device("cpu")) is None


def test_no_two_contenders_look_alike_or_have_one_name():
    names = (*numbers.CONTENDERS, numbers.RIVAL)
    assert len({figures.look(name)[2:5] for name in names}) == len(names)
    assert len({figures.look(name).marker for name in names}) == len(names)
    assert len({figures.label(name) for name in names}) == len(names)


# Rules -------------------------------------------------------------------------------------------


def repeats(name, batch, place, seconds, what="sample", runs=3, part=float("nan")):
    """Rows as if measured, three a run, with 1 % of noise between runs."""
    return pd.DataFrame([
        {"contender": name, "batch": batch, "what": what, "place": place, "part": part, "run": i,
         "round": k, "time_ms": 1e3 * seconds * (1 + 0.01 * (i % 2)), "disturbed": False}
        for i in range(runs) for k in range(3)
    ])  # fmt: skip


def timed(seconds, runs=3, device="cpu"):
    """Of a data set: seconds of an image by contender and batch."""
    rows = [repeats(name, batch, 1, time / 10, runs=runs, part=10.0)
            for (name, batch), time in seconds.items()]  # fmt: skip
    bytes_of = [{"contender": name, "batch": batch, "what": "bytes", "kept_bytes": 1,
                 "peak_bytes": 1} for name, batch in seconds]  # fmt: skip
    rows = pd.concat([*rows, pd.DataFrame(bytes_of)], ignore_index=True)
    return speed.Timed(rows, {"machine": {"device": device}})


def fast(ratio, **how):
    return timed({("linear", 1): 1.0, ("linear", 4): 1.0, ("softmax", 1): 0.25 * ratio,
                  ("softmax-cache", 1): 1.3, ("softmax-cache", 4): 0.9}, **how)  # fmt: skip


def with_whole(found, contender, seconds):
    """The same with one whole image, drawn once, as by full passes."""
    whole = {"contender": contender, "batch": 1, "what": "checked", "time_ms": 1e3 * seconds}
    return found._replace(rows=pd.concat([found.rows, pd.DataFrame([whole])]))


def judged(rule, settings=None, speeds=None, **numbers):
    return rule(run.Evidence(settings or {}, speeds or {}), **numbers)


C8 = {"opponent": "softmax", "mnist": 300.0, "cifar10": 4000.0}


@pytest.mark.parametrize(("ratio", "device", "outcome"), [
    (400, "cpu", PARTLY), (200, "cpu", INCONCLUSIVE), (400, "a GPU", PARTLY)])  # fmt: skip
def test_c8_needs_both_and_a_processor_cannot_refute_it(ratio, device, outcome):
    found = judged(rules.draws_faster, speeds={"mnist": fast(ratio, device=device)}, **C8)
    assert found.outcome == outcome
    assert "CIFAR-10: not run here" in found.evidence
    both = {"mnist": fast(400), "cifar10": fast(4100)}
    assert judged(rules.draws_faster, speeds=both, **C8).outcome == SUPPORTED


@pytest.mark.parametrize(("off", "said"), [
    (0.15, "more than 4,000; the interval begins at 3,5"), (0.01, "more than 4,000)"),
    (-0.2, "more than 4,000)")])  # fmt: skip
def test_c8_says_so_if_it_rests_on_sums_that_elsewhere_erred_by_too_much(off, said):
    """On MNIST one whole image was drawn, as sums on CIFAR-10 are not checked."""
    mnist = fast(400)
    (summed,) = rules.check_sums(with_whole(mnist, "softmax", 1.0)).summed
    both = {"mnist": with_whole(mnist, "softmax", summed / (1 + off)), "cifar10": fast(4100)}
    found = judged(rules.draws_faster, speeds=both, **C8)
    assert found.outcome == SUPPORTED
    assert said in found.evidence
    assert ("sums over sampled bytes err as on MNIST, +15 %" in found.evidence) == (off == 0.15)


def test_c9_asks_of_one_image_and_of_batches():
    found = judged(rules.beats_cache, speeds={"mnist": fast(1)}, opponent="softmax-cache")
    assert found.outcome == PARTLY
    assert found.values["mnist, one image"]["ratio"] == pytest.approx(1.3)
    assert found.values["mnist, in batches"]["ratio"] == pytest.approx(0.9)


def test_ratios_have_three_digits_and_c8_says_at_which_batches():
    both = {"mnist": timed({("linear", 1): 1.0, ("linear", 4): 1.0, ("softmax", 1): 100.0})}
    found = judged(rules.draws_faster, speeds=both, **C8)
    assert (
        "each at its best batch as in the paper, 4 at a time against 1: 400 times" in found.evidence
    )
    assert "both one at a time: 100 times" in found.evidence
    cache = timed({("linear", 1): 1.0, ("softmax-cache", 1): 6.3})
    found = judged(rules.beats_cache, speeds={"mnist": cache}, opponent="softmax-cache")
    assert "6.30 times as many images a second (6.30 to 6.30)" in found.evidence


def test_what_too_few_runs_have_is_not_judged():
    """A busy machine left one contender a single repeat a run."""
    found = fast(1)
    last = (found.rows.contender == "softmax-cache") & (found.rows["round"] > 0)
    found = found._replace(rows=found.rows[~last])
    assert "softmax-cache" not in set(rules.speeds(found).contender)
    assert judged(rules.beats_cache, speeds={"mnist": found}, opponent="softmax-cache").outcome == (
        NOT_RUN
    )


def trained(bits, seeds=3, profile="reference", setting="mnist-14"):
    """Runs as if made: bits at the end by mechanism, in the time that each takes an update."""
    study = replace(STUDIES[profile][setting], device="cpu", seeds=tuple(range(seeds)))
    rows = [
        {"attention": name, "seed": seed, "step": step, "images": 9, "bits_error": 0.1,
         "bits_per_dim": end + 0.01 * seed + (0.5 if step < 100 else 0), "seconds": step * pace}
        for name, (end, pace) in bits.items() for seed in range(seeds) for step in (0, 50, 100)
    ]  # fmt: skip
    return run.Trained(study, pd.DataFrame(), pd.DataFrame(rows), [], {}, None)


C7 = {"dataset": "mnist", "margin": 0.05, "opponents": ["lsh-1", "lsh-4"]}


@pytest.mark.parametrize(("linear", "lsh", "seeds", "outcome"), [
    (2.05, 2.4, 3, SUPPORTED), (2.3, 2.4, 3, PARTLY), (2.3, 2.2, 3, INCONCLUSIVE),
    (2.05, 2.4, 2, INCONCLUSIVE)])  # fmt: skip
def test_c7_asks_for_softmax_and_for_lsh_and_a_reduced_run_refutes_neither(
    linear, lsh, seeds, outcome
):
    one = trained({"softmax": (2.0, 1), "linear": (linear, 1), "lsh-1": (lsh, 1)}, seeds)
    assert judged(rules.on_par, {"mnist-14": one}, **C7).outcome == outcome


def test_c7_tells_how_far_linear_is_from_softmax_where_it_does_not_decide():
    one = trained({"softmax": (2.0, 1), "linear": (2.05, 1), "lsh-1": (2.4, 1)})
    other = trained({"softmax": (1.0, 1), "linear": (1.1, 1)}, 1, setting="mnist-28")
    found = judged(rules.on_par, {"mnist-14": one, "mnist-28": other}, **C7)
    assert found.outcome == SUPPORTED
    assert "28 x 28: softmax 1.000, linear 1.100 (1 seed, linear +10.0 %)" in found.evidence


def test_c10_compares_at_the_time_that_all_reached():
    """Linear makes two updates in the time of one, so softmax stands at its half."""
    one = trained({"softmax": (3.0, 2), "linear": (3.2, 1), "lsh-1": (3.0, 2)}, 3,
                  setting="cifar10-16")  # fmt: skip
    found = judged(rules.lower_in_equal_time, {"cifar10-16": one}, dataset="cifar10",
                   opponent="softmax")  # fmt: skip
    assert found.outcome == SUPPORTED
    assert found.values["mean"] == pytest.approx(-0.3)
    assert "Linear attention made 2.0 times as many updates in that time" in found.evidence


@pytest.mark.parametrize(("profile", "setting", "said"), [
    ("reference", "mnist-14", "reduced models"), ("reference", "mnist-28", "reduced models"),
    ("paper", "mnist-28", "published size")])  # fmt: skip
def test_c7_says_whether_its_models_are_reduced(profile, setting, said):
    one = trained({"softmax": (2.0, 1), "linear": (2.0, 1)}, 1, profile, setting)
    found = judged(rules.on_par, {setting: one}, **C7)
    assert f"Bits per dimension on MNIST, {said}: " in found.evidence


@pytest.mark.parametrize(("profile", "setting", "said"), [
    ("reference", "cifar10-16", "16 x 16, reduced model,"),
    ("paper", "cifar10-32", "32 x 32, published size,")])  # fmt: skip
def test_c10_says_whether_its_model_is_reduced(profile, setting, said):
    one = trained({"softmax": (3.0, 2), "linear": (3.2, 1)}, 3, profile, setting)
    found = judged(rules.lower_in_equal_time, {setting: one}, dataset="cifar10",
                   opponent="softmax")  # fmt: skip
    assert found.evidence.startswith(said)


@pytest.mark.parametrize(("rule", "numbers"), [
    (rules.on_par, C7), (rules.draws_faster, C8), (rules.beats_cache, {"opponent": "softmax"}),
    (rules.lower_in_equal_time, {"dataset": "cifar10", "opponent": "softmax"})])  # fmt: skip
def test_without_rows_a_claim_was_not_run_here(rule, numbers):
    assert judged(rule, **numbers).outcome == NOT_RUN


def test_without_data_the_rest_is_run_and_judged(tmp_path, monkeypatch):
    def nowhere(name, folder):
        raise DataError("MNIST is not here. Ways to have MNIST: ...")

    def made(scratch):
        return Result(fast(400).rows, {"machine": {"device": "cpu"}})

    monkeypatch.setattr(run, "load", nowhere)
    monkeypatch.setattr(measure, "processes", lambda *_: ThreadPoolExecutor(1))
    timing = Unit("images", "speed-mnist", "quick", {"dataset": "mnist"}, (), made)
    kept, missing = run.ensure(resolve("smoke"), [timing], tmp_path)
    assert missing == ["mnist-7: MNIST is not here. Ways to have MNIST: ..."]
    assert [one.unit.name for one in kept] == ["speed-mnist"]
    found = {id: one.outcome for id, one in claims.judge_with("images", run.evidence(kept)).items()}
    assert found == {"C7": NOT_RUN, "C8": PARTLY, "C9": PARTLY, "C10": NOT_RUN}
