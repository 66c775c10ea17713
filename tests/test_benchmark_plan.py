"""What the scaling benchmark decides before it measures, and the numbers that it starts from."""

import numpy as np
import pandas as pd
import pytest
import torch

from replication.benchmark import (
    Budget,
    Cost,
    Group,
    calibrate,
    groups,
    plan,
    predictor,
    skipped_rows,
)
from replication.benchmark.limits import FEWEST_CALLS, FEWEST_ROUNDS
from replication.benchmark.run import allowance
from replication.contenders import Cell, runners
from replication.crossover import rows as crossover_rows
from replication.measure import peak_bytes
from replication.scaling_config import PROFILES, reasons, resolve

CPU = torch.device("cpu")
LAYERS_ONLY = resolve(
    "smoke", contenders="linear, softmax", lengths="8, 16, 64", directions="forward", models=[]
)


def quadratic(name: str, group: Group) -> Cost:
    """A machine on which softmax takes N^2 microseconds and bytes a sample, linear 64 N."""
    each = group.batch * group.N * (group.N if name.startswith("softmax") else 64)
    return Cost(each * 1e-6, float(each))


def planned(scaling=LAYERS_ONLY, **budget) -> pd.DataFrame:
    return plan(scaling, quadratic, Budget(**{"seconds": 1e9, "cell_seconds": 1e9, "bytes": 1e9}
                                           | budget))  # fmt: skip


def test_all_is_planned_when_there_is_enough_of_everything():
    table = planned()
    assert set(table["status"]) == {"planned"}
    assert len(table) == 2 * 3
    assert (table["predicted_seconds"] == table["predicted_call_ms"] / 1e3 * FEWEST_CALLS).all()


def test_the_fewest_rounds_are_enough_for_an_interval_of_the_crossover():
    assert FEWEST_ROUNDS >= crossover_rows.FEWEST_ROUNDS


def test_what_needs_too_much_memory_is_skipped_and_says_so():
    inputs = 4 * 4 * 64 * 16  # four tensors of batch x N = 64 tokens, 2 heads of 8, float32
    table = planned(bytes=inputs + 64 * 16).set_index(["contender", "N"])
    assert table["status"].to_dict() == {
        ("linear", 8): "skipped", ("linear", 16): "skipped", ("linear", 64): "skipped",
        ("softmax", 8): "planned", ("softmax", 16): "planned", ("softmax", 64): "skipped",
    }  # fmt: skip
    assert table.loc[("softmax", 64), "reason"] == (
        "memory: 2.05e-05 GB predicted, 1.74e-05 GB allowed"
    )


def test_a_cell_that_takes_too_long_is_skipped_and_says_so():
    table = planned(cell_seconds=FEWEST_CALLS * 64 * 17e-6).set_index(["contender", "N"])
    assert table["status"]["softmax", 16] == "planned"
    assert table["status"]["softmax", 64] == "skipped"
    assert f"time: {FEWEST_CALLS} calls of 0.0041 s" in table["reason"]["softmax", 64]


def kept(table: pd.DataFrame) -> dict[str, list[int]]:
    """The lengths that are planned, by contender."""
    return table[table["status"] == "planned"].groupby("contender")["N"].agg(list).to_dict()


def test_a_length_is_given_up_by_all_contenders_at_once_the_dearest_first():
    """Softmax takes 8, 16 and 64 units at these lengths, linear attention always 64."""
    unit = FEWEST_CALLS * 64e-6
    two = {"softmax": [8, 16], "linear": [8, 16]}
    assert kept(planned(seconds=unit * (72 + 79))) == {"softmax": [8], "linear": [8]}
    table = planned(seconds=unit * (72 + 80 + 127))
    assert kept(table) == two
    given_up = table[table["status"] == "skipped"].set_index(["contender", "N"])["reason"]
    assert given_up["softmax", 64] == given_up["linear", 64]
    assert f"{unit * 280:.3g} s with its cheaper lengths" in given_up["linear", 64]
    assert kept(planned(seconds=unit * (72 + 80 + 129))) == {n: [8, 16, 64] for n in two}


def test_of_lengths_that_cost_the_same_the_longest_stay():
    table = planned(resolve("smoke", contenders="linear", lengths="8, 16", directions="forward",
                            models=[]), seconds=FEWEST_CALLS * 64e-6 * 65)  # fmt: skip
    assert kept(table) == {"linear": [16]}


def test_no_kind_starves_because_others_are_cheaper():
    """Layers take N seconds, steps of models 50: by price alone one step would be left of eight."""

    def price(_, group: Group) -> Cost:
        return Cost((group.N if group.subject == "layer" else 50) / FEWEST_CALLS, 1.0)

    table = plan(resolve("smoke"), price, Budget(seconds=500.0, cell_seconds=1e9, bytes=1e9))
    left = table[table["status"] == "planned"].groupby(["subject", "direction", "contender"]).size()
    assert len(left) == 4 * 2 + 2 * 2
    assert (left["layer"] >= 2).all()
    assert table.loc[table["status"] == "planned", "predicted_seconds"].sum() <= 500


def test_a_budget_too_small_for_anything_is_told():
    with pytest.raises(ValueError, match=r"nothing can be measured: linear at N = 8.*Allow more"):
        planned(cell_seconds=1e-9)


def test_skipped_cells_have_rows_with_a_reason_and_the_columns_of_all_rows():
    rows = skipped_rows(planned(cell_seconds=FEWEST_CALLS * 64 * 17e-6))
    assert [*rows[0]][-2:] == ["status", "reason"]
    assert {row["status"] for row in rows} == {"skipped"}
    assert all(row["reason"].startswith("time") and np.isnan(row["time_ms"]) for row in rows)


def test_the_authors_kernel_is_left_out_of_other_types_with_a_reason():
    table = planned(resolve("smoke", contenders="linear, authors", dtype="float64", models=[]))
    theirs = table[table["contender"] == "authors"]
    assert theirs["reason"].str.contains("float32 only").all()


def test_costs_grow_by_the_orders_that_are_known():
    sizes = [(8, 1), (8, 16), (32, 4), (128, 1)]
    rows = [
        {"contender": name, **group._asdict(), **quadratic(name, group)._asdict()}
        for name in ("linear", "softmax-textbook")
        for N, batch in sizes
        for group in [groups(LAYERS_ONLY)[0].sized(N, batch)]
    ]
    predict, far = predictor(pd.DataFrame(rows)), groups(LAYERS_ONLY)[0].sized(4096, 3)
    for name in ("linear", "softmax-textbook"):
        assert predict(name, far) == pytest.approx(quadratic(name, far))


def test_calibration_predicts_the_exact_memory_of_longer_sequences():
    scaling = resolve(
        "smoke", contenders="softmax-textbook", directions="training", causal=[False],
        models=[], lengths=1024, calibration="32, 128, 256",
    )  # fmt: skip
    (group,) = groups(scaling)
    call = runners(["softmax-textbook"], _cell(group), CPU)["softmax-textbook"]
    predicted = predictor(calibrate(scaling, CPU))("softmax-textbook", group)
    assert predicted.bytes == pytest.approx(peak_bytes(call), rel=0.02)


def _cell(group: Group) -> Cell:
    return Cell(group.batch, group.heads, group.N, group.head_dim, group.causal, group.direction)


def test_spare_time_is_shared_and_what_was_spent_is_not_spent_again():
    table = planned()
    group = groups(LAYERS_ONLY)[0]
    own = table.loc[table["N"] == group.N, "predicted_seconds"].sum()
    spare = 6.0
    total = table["predicted_seconds"].sum() + spare
    assert allowance(table, group, total) == pytest.approx(own + spare / 3)
    assert allowance(table, group, 0.0) == pytest.approx(own)
    table.loc[table["N"] == 64, ["status", "measured_seconds"]] = "measured", total
    assert allowance(table, group, total) == pytest.approx(own)


# Numbers -----------------------------------------------------------------------------------


def test_every_number_of_a_profile_has_a_reason():
    for profile, scaling in PROFILES.items():
        table = {row["name"]: row["reason"] for row in reasons(profile)}
        assert set(table) == set(vars(scaling)) - {"profile"}
        assert all(table.values())


def test_the_reference_covers_the_paper_s_lengths_and_the_earlier_ones():
    found = {(g.subject, g.N): g.batch for g in groups(PROFILES["reference"])}
    assert {("layer", 2**i) for i in range(3, 17)} <= set(found)
    assert [found["earlier", N] for N in (8, 16, 32, 64)] == [8] * 4
    assert [found["paper", N] for N in (8, 16, 32, 64)] == [64, 64, 32, 16]
    assert [found["layer", N] for N in (8, 512, 4096, 2**16)] == [64, 32, 4, 1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lengths": "0, 8"}, "N = 0 is too small"),
        ({"lengths": ""}, "lengths is empty"),
        ({"contenders": ""}, "contenders is empty"),
        ({"contenders": "linear, magic"}, "contenders='magic' is unknown"),
        ({"contenders": "linear, linear"}, "more than once"),
        ({"dtype": "int8"}, "dtype='int8' is unknown"),
        ({"directions": "sideways"}, "directions='sideways' is unknown"),
        ({"heads": 0}, "heads = 0 is too small"),
        ({"seconds": -1}, "seconds=-1.0 must be positive"),
        ({"magic": 1}, "parameter='magic' is unknown"),
    ],
)
def test_what_cannot_be_measured_is_told(wrong, said):
    with pytest.raises(ValueError, match=said):
        resolve("smoke", **wrong)
