"""Sound -> what a model hears: the logarithm of 40 mel filterbanks, every 10 ms, normalised."""

from functools import cache
from math import gcd

import numpy as np
import torch
from jaxtyping import Float
from scipy.signal import resample_poly
from torch import Tensor

from replication.experiments.speech.numbers import FFT, FLOOR, HERTZ, LOWEST, MELS, STEP, WINDOW


def features(samples: np.ndarray, rate: int) -> Float[Tensor, "N 40"]:
    """What a model is given of an utterance, of any rate of samples; several channels are mixed."""
    if samples.ndim == 2:
        samples = samples.mean(1)
    common = gcd(HERTZ, rate)
    if rate != HERTZ:
        samples = resample_poly(samples, HERTZ // common, rate // common)
    return normalised(log_mel(torch.as_tensor(np.ascontiguousarray(samples), dtype=torch.float32)))


def log_mel(wave: Float[Tensor, " S"]) -> Float[Tensor, "N 40"]:
    """The energy in every filter, by windows of 25 ms every 10 ms; the rest of the last is left."""
    if len(wave) < WINDOW:
        raise ValueError(
            f"The sound has {len(wave)} samples, fewer than one window of {WINDOW}. Leave it out."
        )
    windows = wave.unfold(0, WINDOW, STEP) * torch.hann_window(WINDOW)
    power = torch.fft.rfft(windows, FFT).abs().square()
    return (power @ mel_filters()).clamp(min=FLOOR).log()


@cache
def mel_filters() -> Float[Tensor, "bins 40"]:
    """Triangles of height one, equally wide in mel = 1127 ln(1 + f / 700)."""
    ends = 1127 * torch.log1p(torch.tensor([LOWEST, HERTZ / 2], dtype=torch.float64) / 700)
    corners = torch.linspace(*ends.tolist(), MELS + 2, dtype=torch.float64)
    hertz = torch.arange(FFT // 2 + 1, dtype=torch.float64) * HERTZ / FFT
    mel = 1127 * torch.log1p(hertz / 700).unsqueeze(1)
    rising = (mel - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - mel) / (corners[2:] - corners[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


def normalised(x: Float[Tensor, "N 40"]) -> Float[Tensor, "N 40"]:
    """Mean 0 and deviation 1 in every filter, within the utterance."""
    spread = x.std(0, correction=0).clamp(min=1e-3)
    return (x - x.mean(0)) / spread


def stacked(x: Float[Tensor, "N F"], stack: int) -> Float[Tensor, "n sF"]:
    """``stack`` frames side by side as one, without overlap; zeros fill the last one up."""
    x = torch.nn.functional.pad(x, (0, 0, 0, -len(x) % stack))
    return x.unflatten(0, (-1, stack)).flatten(1)
