"""Speech: features, masking, decoding and counting errors."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import signal
from speech_cases import said, small
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from replication.experiments.speech import numbers, studies
from replication.experiments.speech.decoding import (
    collapse,
    error_rate,
    errors,
    greedy,
    prefix_beam,
)
from replication.experiments.speech.features import features, log_mel, mel_filters, stacked
from replication.experiments.speech.models import BidirectionalLSTM, build
from replication.experiments.speech.task import SpeechTask

# Features -----------------------------------------------------------------------------------------


def direct_log_mel(wave: np.ndarray) -> np.ndarray:
    """The definition in loops over frames and filters, by a discrete Fourier sum."""
    n, rows = np.arange(400), []
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / 400)
    hertz = np.arange(257) * 16000 / 512
    wheel = np.exp(-2j * np.pi * np.outer(np.arange(257), n) / 512)
    mel = lambda f: 1127 * np.log(1 + f / 700)  # noqa: E731
    corners = np.linspace(mel(20), mel(8000), 42)
    for start in range(0, len(wave) - 399, 160):
        power = np.abs(wheel @ (wave[start : start + 400] * window)) ** 2
        row = []
        for left, top, right in zip(corners, corners[1:], corners[2:], strict=False):
            m = mel(hertz)
            up, down = (m - left) / (top - left), (right - m) / (right - top)
            row.append(np.log(max(1e-8, (power * np.clip(np.minimum(up, down), 0, None)).sum())))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("samples", [400, 559, 560, 1337])
def test_features_equal_a_direct_computation(samples):
    wave = np.random.default_rng(0).normal(size=samples)
    found = log_mel(torch.tensor(wave, dtype=torch.float32))
    np.testing.assert_allclose(found, direct_log_mel(wave), atol=2e-4)


def test_features_are_the_spectra_of_scipy_in_the_mel_filters_of_the_htk_book():
    """Mel(f) = 2595 log10(1 + f / 700), and triangles in mel between equally wide steps of it."""
    wave = np.random.default_rng(1).normal(size=16000)
    window = signal.get_window("hann", 400)
    _, _, spectra = signal.stft(wave, 16000, window, 400, 240, 512, boundary=None, padded=False)
    power = np.abs(spectra * window.sum()) ** 2
    mel = 2595 * np.log10(1 + np.arange(257) * 16000 / 512 / 700)
    steps = np.linspace(*2595 * np.log10(1 + np.array([20, 8000]) / 700), 42)
    bank = [np.interp(mel, steps[i : i + 3], [0, 1, 0]) for i in range(40)]
    np.testing.assert_allclose(mel_filters().T, bank, atol=1e-5)
    found = log_mel(torch.tensor(wave, dtype=torch.float32))
    np.testing.assert_allclose(found, np.log(bank @ power).T, atol=1e-4)


def test_features_are_those_of_two_libraries_of_the_field():
    """Every sixth filter of three windows, by librosa 0.11.0 (``stft``, without padding) and the
    filters of Kaldi as torchaudio 2.11.0 has them (``get_mel_banks``); neither is installed."""
    wave = np.sin(np.arange(1337) ** 2 % 997)
    expected = [[3.7779, 4.9610, 4.5351, 5.4858, 5.7511, 6.4041, 6.5924],
                [5.2023, 3.5045, 5.2297, 4.4339, 6.0553, 6.4091, 7.4336],
                [2.5500, 6.0461, 4.8786, 5.3618, 3.6540, 6.5059, 7.2339]]  # fmt: skip
    found = log_mel(torch.tensor(wave, dtype=torch.float32))
    np.testing.assert_allclose(found[[0, 2, 5]][:, ::6], expected, atol=2e-4)


def test_a_tone_is_loudest_in_the_filter_at_its_frequency():
    t = np.arange(16000) / 16000
    for hertz in (300, 1000, 4000):
        loudest = log_mel(torch.tensor(np.sin(2 * np.pi * hertz * t)).float()).mean(0).argmax()
        top = 1127 * math.log(1 + hertz / 700)
        centres = np.linspace(*(1127 * math.log(1 + f / 700) for f in (20, 8000)), 42)[1:-1]
        assert loudest == np.abs(centres - top).argmin()


def test_every_filter_hears_something():
    assert (mel_filters().sum(0) > 0).all()


def test_features_are_normalised_whatever_the_rate_and_the_channels():
    wave = np.random.default_rng(0).normal(size=(44100, 2))
    found = features(wave, 44100)
    assert found.shape == (98, 40)
    torch.testing.assert_close(found.mean(0), torch.zeros(40), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std(0, correction=0), torch.ones(40))


def test_silence_has_finite_features_and_a_click_has_none():
    assert torch.isfinite(features(np.zeros(4000), 16000)).all()
    with pytest.raises(ValueError, match="fewer than one window"):
        features(np.zeros(399), 16000)


def test_stacking_keeps_every_frame():
    x = torch.arange(14.0).view(7, 2)
    y = stacked(x, 3)
    assert y.shape == (3, 6)
    assert torch.equal(y.flatten()[:14], x.flatten())
    assert not y.flatten()[14:].any()


# Masking ------------------------------------------------------------------------------------------


def sizes(**more) -> studies.Run:
    return replace(next(studies.resolve("czech", "smoke").runs()), n_layers=2, d_model=16, **more)


@pytest.mark.parametrize("model", numbers.MODELS)
def test_padding_and_batch_mates_change_nothing(model):
    net = build(sizes(lsh_chunk=8, lsh_rounds=2), model, 40, 9, 120, 0.0).eval()
    lengths = [1, 2, 63, 64, 65, 23]
    alone = [torch.randn(1, n, 40) for n in lengths]
    frames = torch.full((len(lengths), 90, 40), 7.0)  # what fills up is loud
    for i, x in enumerate(alone):
        frames[i, : x.shape[1]] = x[0]
    together = net(frames, torch.tensor(lengths))
    for i, x in enumerate(alone):
        own = net(x, torch.tensor([x.shape[1]]))[0]
        torch.testing.assert_close(together[i, : x.shape[1]], own, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", numbers.MODELS)
def test_no_gradient_comes_from_padding(model):
    net = build(sizes(lsh_chunk=8), model, 40, 9, 120, 0.0).eval()
    frames = torch.randn(2, 30, 40, requires_grad=True)
    net(frames, torch.tensor([30, 17]))[1, :17].sum().backward()
    assert frames.grad[1, :17].any()
    assert not frames.grad[1, 17:].any()
    assert not frames.grad[0].any()


def test_the_recurrent_baseline_is_pytorchs_own_on_packed_sequences():
    ours, lengths = BidirectionalLSTM(7, 5, 3, 4), torch.tensor([11, 3, 8])
    theirs = torch.nn.LSTM(7, 5, 3, batch_first=True, bidirectional=True)
    for i, pair in enumerate(zip(ours.forwards, ours.backwards, strict=True)):
        for way, one in zip(("", "_reverse"), pair, strict=True):
            for name, weight in one.named_parameters():
                getattr(theirs, f"{name.removesuffix('0')}{i}{way}").data.copy_(weight)
    frames = torch.randn(3, 11, 7)
    packed = pack_padded_sequence(frames, lengths, batch_first=True, enforce_sorted=False)
    expected = ours.predict(pad_packed_sequence(theirs(packed)[0], batch_first=True)[0])
    for found, wanted, n in zip(ours(frames, lengths), expected, lengths, strict=True):
        torch.testing.assert_close(found[:n], wanted[:n], atol=1e-6, rtol=1e-5)


def test_padding_only_is_refused():
    net = build(sizes(), "linear", 40, 9, 120, 0.0)
    with pytest.raises(ValueError, match="between 1 and"):
        net(torch.randn(2, 8, 40), torch.tensor([8, 0]))
    with pytest.raises(ValueError, match="padding only"):
        SpeechTask(small(), 3, 1000).lay_out([said("empty", 0, "a")])


def test_an_utterance_beyond_the_known_positions_is_refused():
    with pytest.raises(ValueError, match="build the model for a larger length"):
        build(sizes(), "linear", 40, 9, 10, 0.0)(torch.randn(1, 11, 40), torch.tensor([11]))


# Decoding -----------------------------------------------------------------------------------------


def test_a_path_is_collapsed():
    assert collapse([0, 1, 1, 0, 1, 2, 2, 0]) == [1, 1, 2]
    assert collapse([]) == collapse([0, 0]) == []


def test_greedy_does_not_read_padding():
    scores = F.one_hot(torch.tensor([[1, 1, 0, 2, 3]]), 4).float()
    assert greedy(scores, torch.tensor([3])) == [[1]]
    assert greedy(scores, torch.tensor([5])) == [[1, 2, 3]]


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_most_probable_phonemes(seed):
    logs = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)
    total: dict[tuple, float] = {}
    for path in itertools.product(range(3), repeat=5):
        p = math.exp(sum(float(logs[i, c]) for i, c in enumerate(path)))
        total[tuple(collapse(path))] = total.get(tuple(collapse(path)), 0) + p
    best = max(total, key=total.get)
    assert tuple(prefix_beam(logs.numpy(), 1000)) == best
    target = torch.tensor([best])
    loss = F.ctc_loss(logs.unsqueeze(1), target, [5], [len(best)], reduction="sum")
    assert math.exp(-loss) == pytest.approx(total[best], rel=1e-4)


def test_a_beam_adds_paths_up_where_greedy_takes_one():
    logs = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log()
    assert greedy(logs.unsqueeze(0), torch.tensor([2])) == [[]]
    assert prefix_beam(logs.numpy(), 8) == [1]


@pytest.mark.parametrize(
    ("a", "b", "counts"),
    [("abc", "abc", (0, 0, 0)), ("abc", "axc", (1, 0, 0)), ("abc", "ac", (0, 1, 0)),
     ("abc", "abbc", (0, 0, 1)), ("abc", "", (0, 3, 0)), ("a", "bcd", (1, 0, 2))],
)  # fmt: skip
def test_errors_of_cases_made_by_hand(a, b, counts):
    found = errors(a, b)
    assert (found.substitutions, found.deletions, found.insertions) == counts
    assert sum(n for (x, _), n in found.pairs.items() if x) == len(a)
    assert sum(n for (_, y), n in found.pairs.items() if y) == len(b)


def test_the_error_rate_weighs_phonemes_not_utterances():
    assert error_rate([errors("abcdefgh", "abcdefgh"), errors("ab", "")]) == 0.2


def test_an_empty_reference_has_no_error_rate():
    with pytest.raises(ValueError, match="no error rate"):
        errors("", "abc")
