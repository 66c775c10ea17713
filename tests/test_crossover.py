"""``replication crossover``: one question in several runs, in the time given, or a refusal."""

import json
import re
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from replication import store
from replication.cli import parser
from replication.experiments.crossover import rules, run
from replication.experiments.crossover.commands import several_lengths
from replication.experiments.crossover.numbers import OWN, RUNS, asked, resolve
from replication.experiments.crossover.rules import answer, main_crossovers, together
from replication.experiments.crossover.run import RIVALS
from replication.experiments.scaling.contenders import kinds
from replication.experiments.scaling.run import Evidence
from replication.measure.rounds import TooBusyError
from replication.stats import NOUNS
from replication.store import StoreError

MACHINE = {"processor": "Abacus 3", "threads": 1, "cores": 2, "load": [0.5], "device": "cpu"}
SCHEMA = json.loads((Path(run.__file__).parent / "answer.schema.json").read_text())
LENGTHS = (8, 32, 128, 512, 2048)


def rows_of(fused, textbook, memory, lengths=LENGTHS, kernels=("linear",)) -> pd.DataFrame:
    """Linear costs N; its rivals N^2 over their crossover. Three runs of three repeats."""
    where = {"subject": "layer", "direction": "training", "causal": True, "clock": "thread",
             "heads": 8, "head_dim": 64, "dtype": "float32", "batch": 1, "status": "measured",
             "reason": "", "disturbed": False, "wall_ms": 4.0, "wait_ms": 1.0}  # fmt: skip
    costs = dict.fromkeys(kernels) | {"softmax": fused, "softmax-textbook": textbook}
    return pd.DataFrame(
        {"contender": name, "N": N, "run": i % 3, "round": i // 3,
         "time_ms": (N if at is None else N**2 / at) * (1 + i % 3 / 100),
         "peak_bytes": float(N if at is None else N**2 / memory)} | where
        for N in lengths for name, at in costs.items() for i in range(9)
    )  # fmt: skip


def test_what_was_asked_by_the_command_is_measured_again_by_it():
    """Not by a notebook, which refuses such a profile; also if the unit was found in a folder."""
    (own, *_), (noted, *_) = run.units_of(asked(1.0, OWN, 1)), run.units("smoke")
    assert own.remedy == "replication crossover"
    assert noted.remedy == "replication run crossover --profile smoke"
    found = store.Unit("crossover", "run-0", OWN, {}, (), None)
    assert found.remedy == own.remedy


def answered(rows: pd.DataFrame):
    return answer(asked(60.0), Evidence(rows, {"machine": MACHINE}))


# The answer --------------------------------------------------------------------------------


def test_the_paragraph_says_where_what_to_do_and_by_which_kernel():
    text = answered(rows_of(fused=300, textbook=100, memory=50))["paragraph"]
    assert text.startswith(
        "On this machine (Abacus 3, one pinned thread), training one causal attention layer with 8 "
        "heads of 64 in float32, by our kernel: linear attention is faster than fused softmax from"
    )
    assert ". It is faster than textbook softmax from N = 100 on (95 % interval" in text
    assert ". It needs less memory than fused softmax from N = 50 on (counted exactly" in text
    assert "So take fused softmax below N = 300 and linear attention above." in text
    assert "Only our kernel could be asked." in text
    assert "in 3 runs; 0% of 135 repeats were disturbed and made again" in text


def test_the_authors_kernel_has_a_sentence_of_its_own():
    rows = rows_of(300, 100, 50, kernels=("linear", "authors"))
    slow = rows.contender == "authors"
    text = answered(rows.assign(time_ms=rows.time_ms * (1 + slow)))["paragraph"]
    assert "The authors' kernel is faster than fused softmax from N = 60" in text


@pytest.mark.parametrize(
    ("fused", "advice"),
    [
        (4, "So take linear attention at every length, from N = 8 on."),
        (1e6, "So take fused softmax up to N = 2048, as far as both were measured."),
    ],
)
def test_without_a_crossover_the_advice_says_how_far_it_goes(fused, advice):
    assert advice in answered(rows_of(fused, 100, 50))["paragraph"]


def test_an_answer_that_want_of_time_has_cut_short_is_none():
    rows = rows_of(1e6, 100, 50)
    late = {"contender": "softmax", "N": 4096, "status": "skipped", "reason": "time: too long"}
    cut = rows.tail(1).assign(**late)
    said = r"No answer: .*Nothing else computes here \(a load of 0.5 on 2 cores\).*--seconds"
    with pytest.raises(TooBusyError, match=said):
        answered(pd.concat([rows, cut], ignore_index=True))


def test_a_kernel_that_want_of_time_has_cut_short_is_not_called_slower():
    rows = rows_of(300, 100, 50, kernels=("linear", "authors"))
    slow = rows.contender == "authors"
    rows = rows.assign(time_ms=rows.time_ms * (1 + 9 * slow))[~slow | (rows.N <= 32)]
    cut = rows.tail(1).assign(contender="authors", N=128, status="skipped", reason="time: too long")
    found = answered(pd.concat([rows, cut], ignore_index=True))
    assert {x["contender"] for x in found["crossovers"] if x["quantity"] == "time_ms"} == {"linear"}
    assert "The time was too short to tell from where on the authors' kernel" in found["paragraph"]
    assert "Left out: the authors' kernel from N = 128 on, for want of time." in found["paragraph"]


def test_beside_other_programs_it_is_not_said_where_nearly_equal_ones_cross():
    busy = {"machine": MACHINE, "beside": 0.5}
    rows = rows_of(4, 4, 4, kernels=("linear", "authors"))
    rows["time_ms"] *= np.where(rows.contender == "authors", 100.0, 1.0)
    found = answer(asked(60.0), Evidence(rows, busy))
    told = {(x["contender"], x["quantity"]) for x in found["crossovers"]}
    assert told == {("linear", "time_ms"), ("linear", "peak_bytes"), ("authors", "peak_bytes")}
    assert [(x["contender"], x["opponent"]) for x in found["withheld"]] == [*product(
        ["authors"], RIVALS)]  # fmt: skip
    said = "not said from where on the authors' kernel is faster than fused softmax and the authors"
    assert said in found["paragraph"]
    jsonschema.validate(found | {"folder": "x"}, SCHEMA)
    with pytest.raises(TooBusyError, match="other programs computed on 50% of all cores"):
        answer(asked(60.0), Evidence(rows_of(300, 100, 50), busy))
    with pytest.raises(TooBusyError, match="No answer: other programs computed"):
        answer(asked(60.0), Evidence(rows_of(1e6, 4, 4), busy))
    on_gpu = {"machine": MACHINE | {"device": "some GPU"}, "beside": 0.5}
    assert answer(asked(60.0), Evidence(rows, on_gpu))["withheld"] == []
    little = {"machine": MACHINE, "beside": 0.1}
    assert answer(asked(60.0), Evidence(rows, little))["withheld"] == []


def test_who_has_too_few_repeats_is_named_and_without_fused_softmax_there_is_no_answer():
    rows = rows_of(300, 100, 50)
    textbook = answered(rows[(rows.contender != "softmax-textbook") | (rows.N < 20)])
    assert (
        "too few repeats to tell from where on it is faster than textbook" in textbook["paragraph"]
    )
    with pytest.raises(TooBusyError, match=r"No answer: .*the time ended before the lengths"):
        answered(rows[(rows.contender != "softmax") | (rows.N < 20)])


def test_json_has_no_infinity():
    found = answered(rows_of(1e6, 100, 50))
    first, second, *_ = json.loads(json.dumps(found, allow_nan=False))["crossovers"]
    assert (first["status"], first["at"]) == ("beyond", None)
    assert (second["status"], second["at"]) == ("crosses", pytest.approx(100, rel=0.01))
    asked_for = [(c["quantity"], c["opponent"]) for c in found["crossovers"]]
    assert asked_for == [*product(NOUNS, RIVALS)]


def test_all_lengths_are_those_of_the_crossover_and_the_benchmark_s_beyond():
    short = Evidence(rows_of(300, 100, 50, (8, 32, 128)), {})
    long = Evidence(rows_of(300, 100, 50, (128, 512, 2048)), {})
    rows = together(short, long)
    assert rows.groupby(["contender", "N"]).size().eq(9).all()
    assert main_crossovers(rows)["time_ms"]["softmax"].at == pytest.approx(300, rel=0.01)
    assert main_crossovers(rows, "authors") == {"time_ms": {}, "peak_bytes": {}}
    table = rules.overview(rows, long)
    assert table["Less time from"].tolist()[1].startswith("300")


def asked_for(*words: str):
    return several_lengths(parser().parse_args(["crossover", *words]))


def test_every_two_of_those_that_are_compared_are_told_the_one_that_grows_less_first():
    scaling = asked_for("--compare", "softmax-textbook", "softmax", "linear")
    assert scaling.contenders == ("softmax-textbook", "softmax", "linear")
    found = answer(scaling, Evidence(rows_of(300, 100, 50), {"machine": MACHINE}))
    pairs = [(c["contender"], c["opponent"]) for c in found["crossovers"]][:3]
    assert pairs == [("linear", "softmax"), ("linear", "softmax-textbook"),
                     ("softmax", "softmax-textbook")]  # fmt: skip
    assert "fused softmax is faster than textbook softmax at every length" in found["paragraph"]
    assert "linear attention is faster than textbook softmax from N = 100" in found["paragraph"]
    jsonschema.validate(found | {"folder": "x"}, SCHEMA)


def test_a_mechanism_is_known_by_its_own_name_and_a_batch_holds_at_every_length():
    scaling = asked_for("--compare", "linear,lsh", "--batch", "3", "--lengths", "8,64")
    assert scaling.contenders == ("linear", "lsh-4")
    assert [group.batch for group in kinds(scaling)[0]] == [3, 3]


# The command -------------------------------------------------------------------------------


def typed(*words: str) -> int:
    """As the command, but errors come out."""
    options = parser().parse_args(["crossover", *words])
    return options.run(options)


@pytest.fixture
def inline(monkeypatch, in_this_process):
    """Measured in this process by made-up runs; ``state`` says what they do."""
    state = {"made": []}

    def measured(scaling, i, seconds, _, models=None):
        state["made"].append((i, seconds))
        if i == state.get("busy"):
            raise TooBusyError("No answer, this machine is too busy to measure on.")
        rows = rows_of(300, 100, 50, scaling.lengths)
        one = rows[rows.run == i % rows.run.nunique()]
        return store.Result(one.assign(run=i), {"machine": MACHINE})

    monkeypatch.setattr(run, "measure_run", measured)
    monkeypatch.setattr(run, "load", lambda scaling: None)
    monkeypatch.setattr(run, "_of_others", lambda: 0.0)
    return state


def test_crossover_keeps_every_run_and_shares_the_time_that_is_left(tmp_path, capsys, inline):
    assert typed("--seconds", "30", "--out", str(tmp_path), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert found["setting"] == {"mode": "training", "causal": True, "heads": 8, "head_dim": 64,
                                "dtype": "float32", "threads": 1}  # fmt: skip
    assert len(list((tmp_path / "crossover").glob("run-*.csv"))) == RUNS == found["runs"]
    assert [i for i, _ in inline["made"]] == [*range(RUNS)]
    assert 1 <= inline["made"][0][1] < 0.75 * 30 / RUNS, "less where loading is slow"
    assert 3 * inline["made"][0][1] < inline["made"][-1][1] <= 30, "the last has all that is left"


def test_another_question_does_not_touch_what_is_there(tmp_path, inline):
    typed("--out", str(tmp_path / OWN))
    folder = tmp_path / OWN / "crossover"
    before = {path: path.read_bytes() for path in folder.glob("*.csv")}
    for other in (["--lengths", "8,32"], ["--tokens", "2048"], ["--threads", "2"]):
        typed("--out", str(tmp_path / OWN), *other)
    assert {path: path.read_bytes() for path in before} == before
    assert len(list(folder.glob("run-*.csv"))) == 4 * RUNS
    assert len(run.others(tmp_path)) == 4


def test_what_other_programs_compute_is_counted_and_what_this_one_does_is_not():
    def seen(busy: bool) -> float:
        begin, before = time.monotonic(), run._of_others()
        while time.monotonic() < begin + 1:
            busy or time.sleep(0.05)
        return run._of_others() - before

    idle, own = seen(False), seen(True)
    spin = "import time\nend = time.time() + 8\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as other:
        time.sleep(0.5)
        beside = seen(False)
        other.kill()
    assert own < idle + 0.6
    assert beside > 0.4, "at least, where others have the cores as well"


def test_the_last_good_unit_stays_until_a_better_one_is_whole(tmp_path, inline):
    typed("--out", str(tmp_path))
    folder = tmp_path / "crossover"
    before = {path: path.read_bytes() for path in folder.glob("run-*.csv")}
    inline["busy"] = 0
    with pytest.raises(TooBusyError, match="too busy to measure on"):
        typed("--out", str(tmp_path))
    assert {path: path.read_bytes() for path in folder.glob("run-*.csv")} == before
    assert all(store.is_current(unit, tmp_path) for unit in run.units_of(asked(60.0)))


def test_saved_runs_that_are_not_there_are_told_with_what_measures_them(tmp_path):
    with pytest.raises(StoreError, match=r"(?s)No results at.*run crossover --profile smoke"):
        run.ensure(resolve("smoke"), tmp_path, "saved")
    with pytest.raises(StoreError, match=r"(?s)No results at.*\n    replication crossover"):
        run.ensure(asked(60.0), tmp_path, "saved")


def test_the_defaults_in_the_help_are_those_that_are_used(capsys):
    with pytest.raises(SystemExit):
        typed("--help")
    text = capsys.readouterr().out
    said, used = " ".join(text.split()), asked(60.0)
    assert f"of the layer; default: {used.heads} " in said
    assert f"size of a head; default: {used.head_dim} " in said
    assert f"default: {used.lengths[0]} to {used.lengths[-1]}, doubling" in said
    assert said.count("default: ") == len(re.findall(r"^  --[a-z]", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dtype", "int8"], "dtype='int8' is unknown"),
        (["--mode", "sideways"], "mode='sideways' is unknown"),
        (["--heads", "0"], "heads=0 is too small"),
        (["--lengths", "0,8"], "N=0 is too small"),
        (["--lengths", "64"], "a crossover lies between two"),
        (["--seconds", "0"], "must be positive"),
        (["--threads", "0"], "threads=0 is too small"),
        (["--device", "meta"], "device='meta' is unknown"),
        (["--device", ""], "device='' is unknown"),
        (["--out", "/proc/nothing"], "cannot be written"),
        (["--threads", "100000"], "are too many"),
        (["--out", ""], "can be no folder"),
        (["--head-dim", "100000000"], "GB of memory"),
        (["--compare", "linear"], "names 1 of at least 2"),
        (["--compare", "linear", "linear"], "more than once"),
        (["--compare", "linear", "flash"], "'flash' is unknown"),
        (["--compare", "linear", "lsh-4", "--threads", "2"], "one thread alone"),
        (["--batch", "0"], "batch=0 is too small"),
        (["--batch", "2", "--tokens", "64"], "contradict each other"),
        (["--batch", "1000000000"], "needs at least"),
        (["--mode", "generation", "--no-causal"], "sees no later one"),
        (["--mode", "generation", "--dtype", "bfloat16"], "a state adds up"),
    ],
)
def test_a_wrong_command_is_explained_before_anything_runs(words, said, inline):
    start = time.perf_counter()
    with pytest.raises((ValueError, StoreError), match=said):
        typed(*words)
    assert not inline["made"]
    assert time.perf_counter() - start < 20
