"""The rules of paper/claims.yaml on made-up rows: each yields each of the four outcomes."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from replication import claims, experiments, store
from replication.claims import FILE, NOT_RUN, judge, parse
from replication.experiments.base import OUTCOMES, Verdict
from replication.experiments.scaling.run import Evidence as Decoding
from replication.experiments.scaling.run import Evidence as Scaling

SUPPORTED, PARTLY, NOT, INCONCLUSIVE = OUTCOMES
TEXT = FILE.read_text()
CLAIMS = {claim.id: claim for claim in parse(TEXT)}
PUBLISHED = 2000
LENGTHS = (256, 512, 1024, 2048, 4096)


# Made-up rows ---------------------------------------------------------------------------------


def trained(losses: dict[str, list[float]], accuracy: float = 1.0, updates: int = PUBLISHED):
    """Runs that ended at these losses, one a seed; those of linear with this accuracy."""
    return pd.DataFrame(
        {
            "length": 32, "attention": name, "seed": seed, "stopped": False, "final_loss": loss,
            "token_accuracy": accuracy if name == "linear" else 1.0, "exact_match": 1.0,
            "updates_to_99": 500, "above_lowest": 0.0, "updates": updates, "spikes": 0,
            "grad_norm": 1.0, "grad_norm_99": 1.0, "grad_norm_max": 1.0,
            "smallest_denominator": 1.0, "seconds": 1.0,
        }
        for name, values in losses.items() for seed, loss in enumerate(values)
    )  # fmt: skip


def timed(costs: dict[str, callable], lengths=LENGTHS, subject="layer", noise=0.01, memory=None):
    """Runs of a benchmark in which a contender takes costs[name](N) milliseconds."""
    rng, direction = np.random.default_rng(0), "training" if subject == "layer" else "step"
    rows = [
        {
            "contender": name, "subject": subject, "direction": direction, "causal": True,
            "clock": "thread", "heads": 8, "head_dim": 64, "N": N, "run": i % 3, "round": i,
            "status": "measured", "disturbed": False, "batch": 1,
            "time_ms": cost(N) * np.exp(noise * rng.standard_normal()),
            "peak_bytes": (memory or costs)[name](N) * 1000,
        }
        for name, cost in costs.items() for N in lengths for i in range(9)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    others = table.assign(time_ms=1.0, peak_bytes=1.0)  # of these no claim speaks
    aside = [others.assign(causal=False), others.assign(direction="forward")]
    return pd.concat([table, *(aside if subject == "layer" else [])], ignore_index=True)


def tokens(growth: float, lengths=(64, 256, 1024), noise=0.01, bytes_of=lambda N: 1000):
    """One more token takes ``growth`` times as long at the last length as at the first."""
    rng = np.random.default_rng(0)
    times = dict(zip(lengths, np.linspace(1, growth, len(lengths)), strict=True))
    return pd.DataFrame(
        {"contender": "linear", "N": N, "run": i % 3, "round": i, "disturbed": False,
         "state_bytes": bytes_of(N),
         "time_ms": time * np.exp(noise * rng.standard_normal())}
        for N, time in times.items() for i in range(9)
    )  # fmt: skip


def verdict(id: str, runs=None, setting="paper", scaling=None, decoding=None):
    """Of these rows alone; other experiments have none."""
    study = SimpleNamespace(published_updates=PUBLISHED)
    settings = {setting: SimpleNamespace(runs=runs, study=study)}
    evidence = {
        "copy_task": SimpleNamespace(settings=settings, wide=None, rates=None),
        "scaling": None if scaling is None else Scaling(scaling, {}),
        "decoding": None if decoding is None else Decoding(decoding, {}),
    }
    return judge([CLAIMS[id]], evidence)[id]


# Outcomes -------------------------------------------------------------------------------------


SAME = {"linear": [0.0011, 0.0012, 0.0011], "softmax": [0.001, 0.001, 0.0011]}
WIDE = {"linear": [0.001, 0.001, 0.08], "softmax": [0.001, 0.001, 0.002]}
WORSE = {"linear": [0.5, 0.51, 0.52], "softmax": [0.001, 0.001, 0.002]}


@pytest.mark.parametrize(
    ("runs", "outcome", "failure"),
    [
        (trained(SAME), SUPPORTED, NOT),
        (trained(SAME, accuracy=0.5), PARTLY, SUPPORTED),
        (trained(WORSE, accuracy=0.5), NOT, SUPPORTED),
        (trained(WORSE, accuracy=0.5, updates=10), INCONCLUSIVE, INCONCLUSIVE),
        (trained(WIDE), PARTLY, INCONCLUSIVE),
        (trained({name: values[:2] for name, values in SAME.items()}), INCONCLUSIVE, INCONCLUSIVE),
    ],
)
def test_convergence_and_its_failure(runs, outcome, failure):
    assert verdict("C1", runs).outcome == outcome
    assert verdict("E1", runs, setting="earlier").outcome == failure


def test_failing_at_one_of_two_lengths_is_partly_failing():
    two = pd.concat([trained(SAME), trained(WORSE, accuracy=0.5).assign(length=64)])
    assert verdict("E1", two, setting="earlier").outcome == PARTLY


def lsh(values):
    return {"linear": [0.10, 0.11, 0.12], "lsh": values}


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        (trained(lsh([0.5, 0.6, 0.55])), SUPPORTED),
        (trained(lsh([0.01, 0.02, 0.01])), NOT),
        (trained(lsh([0.01, 0.02, 0.01]), updates=10), INCONCLUSIVE),
        (trained(lsh([0.02, 0.9, 0.05])), INCONCLUSIVE),
        (trained(lsh([0.5, 0.6])), INCONCLUSIVE),
        (trained({"linear": [0.1, 0.1, 0.1]}), INCONCLUSIVE),
        (
            pd.concat([trained(lsh([0.5, 0.6, 0.55])),
                       trained(lsh([0.02, 0.9, 0.05])).assign(length=64)]),
            PARTLY,
        ),
    ],
)  # fmt: skip
def test_a_lower_loss_than_lsh(runs, outcome):
    assert verdict("C5", runs).outcome == outcome


def line(N):
    return 0.01 * N


def square(N):
    return 4e-5 * N**2


def power(exponent):
    return lambda N: 0.01 * N**exponent


@pytest.mark.parametrize(
    ("scaling", "outcome"),
    [
        (timed({"linear": line, "softmax-textbook": square}), SUPPORTED),
        (timed({"linear": line, "softmax-textbook": power(1.2)}), PARTLY),
        (timed({"linear": line}), INCONCLUSIVE),
        (
            timed({"linear": power(1.5), "softmax-textbook": square},
                  memory={"linear": line, "softmax-textbook": square}),
            PARTLY,
        ),
        (timed({"linear": power(1.5), "softmax-textbook": square}), NOT),
        (timed({"linear": line, "softmax-textbook": square}, noise=0.5), INCONCLUSIVE),
        (timed({"linear": line, "softmax-textbook": square}, lengths=(8, 512, 1024)), INCONCLUSIVE),
    ],
)  # fmt: skip
def test_linear_growth(scaling, outcome):
    assert verdict("C2", scaling=scaling).outcome == outcome


@pytest.mark.parametrize("id", ["C3", "C6", "X1"])
@pytest.mark.parametrize(
    ("cost", "lengths", "outcome"),
    [
        (square, (512, 1024, 4096), SUPPORTED),
        (lambda N: 1e-5 * N**2, (512, 2048, 4096), PARTLY),
        (lambda N: 1e-6 * N**2, (512, 1024, 4096), NOT),
        (line, (1024,), INCONCLUSIVE),
        (square, (64, 128, 256), INCONCLUSIVE),
    ],
)
def test_faster(id, cost, lengths, outcome):
    opponent = CLAIMS[id].numbers["opponent"]
    found = verdict(id, scaling=timed({"linear": line, opponent: cost}, lengths, noise=0.03))
    assert found.outcome == outcome


def test_where_the_opponent_is_faster_that_is_said():
    costs = {"linear": line, "softmax-textbook": lambda N: 1e-5 * N**2}
    found = verdict("C3", scaling=timed(costs, (512, 2048, 4096), noise=0.03))
    assert "it is the faster at N = 512" in found.evidence
    assert "not shown" not in found.evidence


def test_an_opponent_that_was_not_measured_is_inconclusive():
    found = verdict("C3", scaling=timed({"linear": line}))
    assert found.outcome == INCONCLUSIVE
    assert "textbook softmax have no length from 512 on in common" in found.evidence


STEPS = (64, 256, 1024, 4096, 16384)


@pytest.mark.parametrize(
    ("crossing", "lengths", "noise", "outcome"),
    [
        (3000, STEPS, 0.01, SUPPORTED),
        (200, STEPS, 0.01, NOT),
        (1574, STEPS, 0.03, PARTLY),
        (3000, STEPS[:3], 0.01, INCONCLUSIVE),
        (3000, STEPS[:1], 0.01, INCONCLUSIVE),
    ],
)
def test_the_earlier_crossover(crossing, lengths, noise, outcome):
    costs = {"linear": line, "softmax-textbook": lambda N: 0.01 * N**2 / crossing}
    rows = timed(costs, lengths, subject="earlier", noise=noise)
    assert verdict("E2", scaling=rows).outcome == outcome


@pytest.mark.parametrize(
    ("decoding", "outcome"),
    [
        (tokens(1.05), SUPPORTED),
        (tokens(2.0), PARTLY),
        (tokens(1.0, bytes_of=lambda N: N), PARTLY),
        (tokens(2.0, bytes_of=lambda N: N), NOT),
        (tokens(1.0, lengths=(64, 128)), INCONCLUSIVE),
        (tokens(1.25, noise=0.1, bytes_of=lambda N: N), INCONCLUSIVE),
    ],
)
def test_constant_cost_a_token(decoding, outcome):
    assert verdict("C4", decoding=decoding).outcome == outcome


def test_what_slows_a_whole_round_is_no_growth_of_a_token():
    rows = tokens(1.05)
    slow = rows["round"].map(lambda i: 1 + 3 * (i % 2))
    assert verdict("C4", decoding=rows.assign(time_ms=rows.time_ms * slow)).outcome == SUPPORTED


# The file -------------------------------------------------------------------------------------


def test_evidence_is_one_sentence_or_more_with_the_numbers_of_the_rows():
    found = verdict("C3", scaling=timed({"linear": line, "softmax-textbook": square}, noise=0.0))
    assert found.evidence == (
        "Textbook softmax takes 2.0 times as long as our kernel at N = 512 (95 % interval 2.0 to "
        "2.0) and 16 times at N = 4096 (16 to 16). The authors' library is not installed, so that "
        "only our kernel is judged."
    )


def test_the_authors_kernel_is_judged_beside_ours_and_does_not_decide():
    costs = {"linear": line, "authors": lambda N: 3 * line(N), "softmax-textbook": square}
    found = verdict("C3", scaling=timed(costs, noise=0.0))
    assert found.outcome == SUPPORTED
    assert "By the authors' kernel it is partly supported." in found.evidence
    assert {kernel: found.values[kernel]["outcome"] for kernel in ("linear", "authors")} == {
        "linear": SUPPORTED, "authors": PARTLY
    }  # fmt: skip


def test_whoever_was_refused_an_answer_gets_no_verdict():
    rows = timed({"linear": line, "softmax-textbook": square})
    found = claims.judge_with("scaling", Scaling(rows, {"profile": "smoke"}))
    assert {one.outcome for one in found.values()} == {INCONCLUSIVE}


def test_every_rule_of_an_experiment_judges_a_claim():
    rules = {(one.name, test) for one in experiments.every().values() for test in one.rules}
    assert {(claim.experiment, claim.test) for claim in CLAIMS.values()} == rules


def test_a_claim_whose_experiment_left_no_rows_was_not_run_here():
    found = judge(list(CLAIMS.values()), {"decoding": Decoding(tokens(1.05), {})})
    assert found.pop("C4").outcome == SUPPORTED
    assert {one.outcome for one in found.values()} == {NOT_RUN}


def test_a_notebook_shows_the_verdicts_on_its_own_claims():
    found = claims.judge_with("decoding", Decoding(tokens(2.0), {}))
    assert {id: one.outcome for id, one in found.items()} == {"C4": PARTLY}


def test_verdicts_come_back_as_they_were_saved_and_not_by_other_rules(tmp_path):
    found = {id: Verdict(NOT, "Seen.", {"x": 1.5}) for id in CLAIMS}
    path = claims.save(tmp_path, "smoke", found, crossovers={"softmax": "from N = 7 on"})
    back = claims.load("smoke", tmp_path)
    assert back["crossovers"] == {"softmax": "from N = 7 on"}
    assert {id: one["outcome"] for id, one in back["claims"].items()} == dict.fromkeys(CLAIMS, NOT)
    assert claims.load("smoke", tmp_path / "elsewhere") is None
    content = json.loads(path.read_text())
    content["claims"]["C3"]["rule"] = "Supported if so."
    path.write_text(json.dumps(content))
    with pytest.raises(store.StoreError, match="were reached by other rules"):
        claims.load("smoke", tmp_path)


def test_rules_have_their_numbers_filled_in():
    assert "within 0.15 of 1" in CLAIMS["C2"].rule
    assert not [claim.id for claim in CLAIMS.values() if "{" in claim.rule]


def changed(**entries):
    return yaml.safe_dump([yaml.safe_load(TEXT)[0] | entries])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no list of claims"),
        (yaml.safe_dump([{"id": "C1"}]), "'C1' lacks by, claim"),
        (changed(surplus=1), "unknown entries: surplus"),
        (changed(test="guess"), "test='guess' is unknown. Choose one of: converges"),
        (changed(test="faster"), "test='faster' is unknown"),
        (changed(experiment="guess"), "experiment='guess' is unknown"),
        (yaml.safe_dump(2 * yaml.safe_load(TEXT)), "ids holds 'C1' more than once"),
    ],
)
def test_a_broken_file_is_told(text, said):
    with pytest.raises(ValueError, match=said):
        parse(text)


# What notebooks show --------------------------------------------------------------------------


def test_a_rule_is_shown_an_outcome_a_line_and_its_history_folded():
    shown = claims.rules_in_words([CLAIMS["C8"]])
    rule, _, history = shown.partition("<details>")
    assert rule.startswith(f"**C8, {CLAIMS['C8'].title}** ({CLAIMS['C8'].where}): Linear attention")
    cases = [line for line in rule.splitlines() if "**" in line][1:]
    assert [line.split("**")[1].lower() for line in cases] == [
        "supported", "partly supported", "not supported", "else inconclusive",
    ]  # fmt: skip
    assert "All times were sums" in history
    assert "All times were sums" not in rule


def test_no_word_of_a_rule_is_lost_and_common_rules_stand_once():
    shown = claims.rules_in_words(CLAIMS.values())
    letters = "".join(filter(str.isalnum, shown))
    for claim in CLAIMS.values():
        assert shown.count(f"**{claim.id}, {claim.title}**") == 1
        for part in claims.HISTORY.split(claim.rule):  # the rule, and its history
            assert "".join(filter(str.isalnum, part)) in letters
    assert shown.count("The outcome is that of our kernel") == 1
    assert claims.rules_in_words([]) == ""


def test_evidence_is_split_between_sentences_and_outside_of_brackets():
    seen = "A is 2 (1 to 3) (claimed: 2; it errs by 1 %); B is 3.5 (3 to 4). C takes 4."
    shown = claims.in_full({"C8": Verdict(SUPPORTED, seen, {})}, "quick")
    assert f"profile quick: {SUPPORTED}.** {CLAIMS['C8'].claim}" in shown
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [
        "- A is 2 (1 to 3) (claimed: 2; it errs by 1 %)", "- B is 3.5 (3 to 4).", "- C takes 4.",
    ]  # fmt: skip
    assert (
        claims.in_short({"C8": Verdict(NOT, seen, {})}) == f"- C8, {CLAIMS['C8'].title}: **{NOT}**"
    )


def made_on(system: str, commit: str, started: str) -> dict:
    machine = {"processor": "X", "cores": 2, "system": system, "device": "cpu"}
    return {"commit": commit, "started": started, "machine": machine}


def test_the_first_words_name_profile_commits_and_every_machine():
    late, early = made_on("Linux-6", "b", "2026-02"), made_on("Linux-6", "a", "2026-01")
    assert claims.origin("quick", [late]) == (
        "**Shown is profile quick**, measured at commit `b` on X (2 cores, Linux-6)."
    )
    assert claims.origin("smoke", []) == "Of profile smoke there are no rows here."
    both = claims.origin("reference", [late, early])
    assert "at 2 commits, the last of them `b` on X (2 cores, Linux-6)." in both
    assert both.endswith("Run unchanged, this notebook measures profile `quick`.")
    other = claims.origin("quick", [early, made_on("Linux-7", "a", "")])
    assert "X (2 cores, Linux-7) and X (2 cores, Linux-6)" in other
