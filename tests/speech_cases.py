"""A corpus of noise, so that tests of speech need neither network nor espeak-ng."""

import torch

from replication.experiments.speech.corpus import Corpus, Utterance


def said(id: str, frames: int, phonemes: str) -> Utterance:
    return Utterance(id, torch.randn(frames, 40), tuple(phonemes))


def small(train=(), dev=(), test=()) -> Corpus:
    some = [said(f"t{i}", n, "abcab") for i, n in enumerate((40, 31, 63, 22, 18, 55))]
    few = [said("d", 33, "abc"), said("e", 24, "cab")]
    return Corpus({"train": list(train) or some, "dev": list(dev) or few,
                   "test": list(test) or few}, {"used": 10})  # fmt: skip
