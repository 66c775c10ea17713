"""Speech: tables and figures show the rows that they receive."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import soundfile

from replication.experiments.speech import figures, numbers, rules
from replication.experiments.speech.evidence import Evidence, evidence

MS = {"linear": 0.5, "softmax-textbook": 1.0, "softmax": 0.75, "lsh": 1.5, "bilstm": 0.25}
"""For a frame of training; hearing takes a fifth of it."""


def times() -> pd.DataFrame:
    rows = [{"contender": name, "direction": way, "N": N, "run": run, "round": i,
             "time_ms": N * ms * share, "disturbed": False, "peak_bytes": 1.0}
            for name, ms in MS.items() for way, share in (("train", 1), ("infer", 0.2))
            for N in (100, 800) for run in range(3) for i in range(4)]  # fmt: skip
    return pd.DataFrame(rows)


def trained(setting: str = "czech", utterances: int = 9, words: int = 0, **rates: float) -> list:
    """Three seeds of each model, whose mean error rate is this, and by beam half of it."""
    return [{"setting": setting, "utterances": utterances, "words": words, "model": name,
             "seed": seed, "test_error": rate + 0.01 * seed - 0.01, "beam_error": rate / 2}
            for name, rate in rates.items() for seed in range(3)]  # fmt: skip


def found() -> Evidence:
    runs = trained(linear=0.5, bilstm=0.4) + trained("amount", 9, 4, linear=0.9, lsh=0.9)
    return evidence([])._replace(runs=pd.DataFrame(runs), times=times())


# Tables -------------------------------------------------------------------------------------------


def test_table_3_has_the_paper_s_numbers_beside_czech_errors_and_times_of_textbook_softmax():
    table = rules.table_3(found(), 800)
    assert list(table.index) == list(numbers.TABLE_3)
    assert list(table.paper_error) == [5.12, 8.08, 9.33, 10.94]
    assert list(table.paper_seconds) == [2711, 824, 2250, 1047]
    assert list(table.seeds) == [0, 3, 0, 3]
    np.testing.assert_allclose(table.error, [np.nan, 50, np.nan, 40])
    np.testing.assert_allclose(table.beam_error, [np.nan, 25, np.nan, 20])
    np.testing.assert_allclose(table.seconds, [28_800, 14_400, 43_200, 7_200])
    np.testing.assert_allclose(table.real_time_factor, [0.02, 0.01, 0.03, 0.005])


def test_table_3_has_what_there_is():
    only_times = rules.table_3(found()._replace(runs=evidence([]).runs), 800)
    assert only_times.error.isna().all()
    assert only_times.seconds.notna().all()
    only_errors = rules.table_3(found()._replace(times=evidence([]).times), 800)
    assert only_errors.seconds.isna().all()
    assert only_errors.error["linear"] == pytest.approx(50)
    elsewhere = rules.table_3(found(), 500)
    assert elsewhere.seconds.isna().all()


def test_the_overview_says_what_is_missing_and_how_many_times_as_long():
    table = rules.overview(found()).set_index("Model")
    assert list(table.loc["Linear"]) == [
        "8.08", "50.0 (3)", "25.0", "824 (1.00 times)", "14400 (1.00 times)", "0.010",
    ]  # fmt: skip
    assert list(table.loc["Softmax"]) == [
        "5.12", "–", "–", "2711 (3.29 times)", "28800 (2.00 times)", "0.020",
    ]  # fmt: skip
    assert list(table.index) == ["Softmax", "Linear", "LSH", "Bi-LSTM"]


def test_by_length_has_seconds_an_epoch_and_real_time_factors():
    table = rules.by_length(times())
    assert list(table.columns) == list(MS)
    for N in (100, 800):  # as times are in proportion to the length
        np.testing.assert_allclose(table.loc[("s an epoch", N)], [28_800 * x for x in MS.values()])
        np.testing.assert_allclose(
            table.loc[("real-time factor", N)], [0.02 * x for x in MS.values()]
        )
    at_800 = rules.table_3(found(), 800)
    assert at_800.seconds["linear"] == pytest.approx(table.loc[("s an epoch", 800), "linear"])
    assert rules.by_length(evidence([]).times).empty


# Figures ------------------------------------------------------------------------------------------


def lines(axes) -> dict[str, list]:
    drawn = (line for line in axes.get_lines() if not line.get_label().startswith("_"))
    return {line.get_label(): np.round(line.get_xydata(), 6).tolist() for line in drawn}


def test_growth_has_a_panel_a_setting_and_a_point_a_size():
    runs = trained("amount", 10, 4, linear=0.9, bilstm=0.8) + trained("amount", 40, 4, linear=0.6)
    for case, rate in (((30, 8), 0.5), ((10, 24), 0.4), ((3, 80), 0.3)):
        runs += trained("length", *case, linear=rate, bilstm=rate / 2)
    figure = figures.growth(pd.DataFrame(runs))
    amount, length = figure.axes
    assert lines(amount) == {"linear": [[40, 90], [160, 60]], "Bi-LSTM": [[40, 80]]}
    assert lines(length) == {"linear": [[8, 50], [24, 40], [80, 30]],
                             "Bi-LSTM": [[8, 25], [24, 20], [80, 15]]}  # fmt: skip
    assert [text.get_text() for text in length.get_xticklabels()] == ["8", "24", "80"]
    assert length.get_xlabel() == "words an utterance"
    figure.canvas.draw()
    assert len(figures.growth(pd.DataFrame(trained("amount", 10, 4, linear=1))).axes) == 1


def test_the_alignment_names_phonemes_where_they_are_first_said():
    likely = np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.2, 0.8, 0], [0.9, 0.1, 0], [0.2, 0, 0.8],
                       [0.4, 0.32, 0.28]])  # fmt: skip
    figure = figures.alignment(
        {"linear": likely, "bilstm": likely[:, [0, 2, 1]]}, ["", "a", "b"], 0.03
    )
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["linear", "Bi-LSTM"]
    named = [[(text.get_text(), *np.round(text.xy, 3).tolist()) for text in axes.texts]
             for axes in figure.axes]  # fmt: skip
    assert named[0] == [("a", 0.045, 0.9), ("b", 0.135, 0.8)]
    assert named[1] == [("b", 0.045, 0.9), ("a", 0.135, 0.8)]
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 2]
    figure.canvas.draw()


def test_of_a_long_utterance_the_beginning_is_drawn():
    likely = np.tile([[0.9, 0.1], [0.1, 0.9]], (200, 1))
    (axes,) = figures.alignment({"linear": likely}, ["", "a"], 0.03).axes
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [100]
    assert len(axes.texts) == 50


def test_what_was_heard_stands_below_what_was_said():
    heard = {"linear": ["b", "c"], "softmax": ["a", "b", "d", "c"], "lsh": []}
    heard["bilstm"] = ["a", "bb", "c", "e"]
    assert figures.beside(["a", "b", "c"], heard).splitlines() == [
        "said            a b    c",
        "linear          · b    c",
        "softmax, fused  a b(d) c",
        "LSH             · ·    ·",
        "Bi-LSTM         a bb   c(e)",
    ]
    assert figures.beside(["a"] * 30, {"linear": ["a"] * 30}).count("said") == 2


def test_bars_say_how_much_more_often_linear_attention_misses_a_phoneme():
    counts = [("linear", "a", "a", 6), ("linear", "a", "", 4), ("softmax", "a", "a", 9),
              ("softmax", "a", "b", 1), ("linear", "b", "b", 1), ("softmax", "b", "c", 1),
              ("linear", "", "b", 7)]  # fmt: skip
    pairs = pd.DataFrame(counts, columns=["model", "said", "heard", "count"])
    (axes,) = figures.by_phoneme(pairs).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([30, -100])


def test_curves_have_a_panel_a_study_of_most_utterances():
    columns = ["setting", "utterances", "step", "error_rate", "model", "seed"]
    sizes = (("czech", 9), ("amount", 5), ("amount", 20))
    rows = [(*size, step, 1 / step, "linear", 0) for size in sizes for step in (1, 2)]
    rows = pd.DataFrame(rows, columns=columns)
    titles = [axes.get_title() for axes in figures.curves(rows).axes]
    assert titles == ["czech, 9 utterances", "amount, 20 utterances"]


def test_an_unlikely_phoneme_is_neither_drawn_nor_named():
    likely = np.array([[0.7, 0.2, 0.1], [0.28, 0.29, 0.05]])
    (axes,) = figures.alignment({"linear": likely}, ["", "a", "b"], 0.03).axes
    assert len(axes.get_lines()) == 1
    assert not axes.texts


# Sound --------------------------------------------------------------------------------------------


def test_the_player_holds_the_first_seconds_in_a_small_form():
    wave = 0.3 * np.random.default_rng(0).normal(size=10 * 22050)
    found = figures.player(wave, 22050)
    heard, rate = soundfile.read(BytesIO(found.data))
    assert rate == 22050
    assert 3.0 <= len(heard) / rate < 3.2
    page = found._repr_html_()
    assert 'src="data:audio/mpeg;base64,' in page
    assert len(page) < 60_000
