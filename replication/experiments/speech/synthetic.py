"""Synthetic English speech of any amount, whose phonemes are known exactly.

Sentences are random words of a short list, read by several voices at several rates. The noise of
espeak-ng runs on from one utterance to the next, so a corpus is made whole, in a process of its
own: the same numbers give the same sound.
"""

import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from replication.experiments.speech import espeak
from replication.experiments.speech.corpus import Corpus, Utterance
from replication.experiments.speech.features import features
from replication.train import hashed

VOICES = tuple(f"en-us{of}" for of in ("", "+m1", "+m3", "+m5", "+m7", "+m8", "+f1", "+f4"))
"""Others (f2, f3, f5) sound otherwise in every process."""
RATES, PITCHES = (130, 150, 170, 190), (35, 50, 65)
"""Words a minute, and the voice's height from 0 to 99."""
_TEXT = """
about above after again air all almost along also always animal another answer any around ask
away back because been before began being below between big book both boy bring built but call
came change children city close come could country cut day different does done down draw each
earth eat end enough even every example eye face family far father feet few find first five
follow food form found four from give good great group grow hand hard head hear help here high
home house idea important keep kind know land large last later learn leave left letter life
light line list little live long look made make many may mean might mile more most mother
mountain move much must name near need never next night number often old once only open other
our over own page paper part people picture place plant play point question quick read really
right river run said same saw school sea second see sentence set should show side small some
something song soon sound spell start state still stop story study such sun take talk tell than
that their them then there these they thing think this those thought three through time together
took tree try turn two under until very walk want watch water way well went were what when where
which while white who why will with without woman word work world would write year you young
your
"""
WORDS = tuple(_TEXT.split())


def synthetic(utterances: int, words: int, tested: int) -> Corpus:
    """So many to train on, and ``tested`` for dev and for test, of ``words`` words each."""
    numbers = {"test": tested, "dev": tested, "train": utterances}
    found = _alone(_every, numbers, words)
    parts = {name: [one._replace(features=torch.from_numpy(one.features)) for one in part]
             for name, part in found.items()}  # fmt: skip
    return Corpus(parts, {"used": sum(numbers.values())})


def sound(which: int, words: int) -> tuple[np.ndarray, int]:
    """Of utterance ``which`` of the test part: samples, and how many of them make a second."""
    return _alone(_sound, which, words)


def _alone(call: Callable, *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        return own.submit(call, *arguments).result()


def _every(numbers: dict[str, int], words: int) -> dict[str, list[Utterance]]:
    """In a new process. Arrays travel between processes; tensors would share memory for it."""
    torch.set_num_threads(1)
    return {part: [_utterance(part, i, words) for i in range(number)]
            for part, number in numbers.items()}  # fmt: skip


def _sound(which: int, words: int) -> tuple[np.ndarray, int]:
    for i in range(which):
        _utterance("test", i, words)
    return _spoken("test", which, words)[0]


def _utterance(part: str, i: int, words: int) -> Utterance:
    heard, text, voice = _spoken(part, i, words)
    return Utterance(f"{part}/{i}", features(*heard).numpy(), espeak.phonemes(text, voice))


def _spoken(part: str, i: int, words: int) -> tuple[tuple[np.ndarray, int], str, str]:
    """Sound, text and voice. They depend on the part and the number alone, but for the noise."""
    draw = random.Random(hashed("synthetic", part, i, words))
    text = " ".join(draw.choices(WORDS, k=words))
    voice, rate, pitch = draw.choice(VOICES), draw.choice(RATES), draw.choice(PITCHES)
    return espeak.speak(text, voice, rate, pitch), text, voice
