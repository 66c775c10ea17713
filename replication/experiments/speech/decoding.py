"""From posteriors over time to phonemes: greedy, and by prefix beam search; and errors counted."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import jiwer
import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

BLANK = 0
"""The class that stands for no phoneme (Graves et al. 2006)."""


def collapse(path: Sequence[int]) -> list[int]:
    """What a path of classes says: what repeats is said once, and blanks are not."""
    changes = [label for i, label in enumerate(path) if i == 0 or label != path[i - 1]]
    return [int(label) for label in changes if label != BLANK]


def greedy(scores: Float[Tensor, "B N V"], lengths: Int[Tensor, " B"]) -> list[list[int]]:
    """The most probable path of every utterance; what is beyond its length does not count."""
    paths = scores.argmax(-1).tolist()
    return [collapse(path[:n]) for path, n in zip(paths, lengths.tolist(), strict=True)]


def prefix_beam(logs: Float[np.ndarray, "N V"], width: int, least: float = -7.0) -> list[int]:
    """The most probable phonemes, all their paths added up, among ``width`` kept at every frame.

    Of a prefix two things are known: the log probability of its paths that end in a blank, and of
    those that do not (Hannun et al. 2014). Classes below ``least`` are not tried.
    """
    beam = {(): (0.0, -math.inf)}
    for frame in logs:
        found = defaultdict(lambda: (-math.inf, -math.inf))
        likely = np.flatnonzero(frame > min(least, frame.max())).tolist() or [int(frame.argmax())]
        for prefix, (blank, label) in beam.items():
            both = _add(blank, label)
            for c in likely:
                p = float(frame[c])
                if c == BLANK:
                    _join(found, prefix, both + p, -math.inf)
                elif prefix and c == prefix[-1]:
                    _join(found, prefix, -math.inf, label + p)
                    _join(found, (*prefix, c), -math.inf, blank + p)
                else:
                    _join(found, (*prefix, c), -math.inf, both + p)
        best = sorted(found.items(), key=lambda one: (-_add(*one[1]), one[0]))
        beam = dict(best[:width])
    return list(next(iter(beam)))


def _join(found: dict, prefix: tuple, blank: float, label: float) -> None:
    old = found[prefix]
    found[prefix] = (_add(old[0], blank), _add(old[1], label))


def _add(a: float, b: float) -> float:
    """log(exp a + exp b)"""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


class Errors(NamedTuple):
    """Of one utterance; ``pairs`` counts (said, heard), where nothing is the empty word."""

    phonemes: int
    substitutions: int
    deletions: int
    insertions: int
    pairs: Counter

    @property
    def total(self) -> int:
        return self.substitutions + self.deletions + self.insertions


def errors(said: Sequence[object], heard: Sequence[object]) -> Errors:
    """The fewest substitutions, deletions and insertions that turn one into the other."""
    if not said:
        raise ValueError("An utterance without phonemes has no error rate. Leave it out.")
    said, heard = [str(x) for x in said], [str(x) for x in heard]
    found = jiwer.process_words(" ".join(said), " ".join(heard))
    pairs = Counter()
    for part in found.alignments[0]:
        a = said[part.ref_start_idx : part.ref_end_idx]
        b = heard[part.hyp_start_idx : part.hyp_end_idx]
        size = max(len(a), len(b))
        pairs.update(zip(a + [""] * (size - len(a)), b + [""] * (size - len(b)), strict=True))
    return Errors(len(said), found.substitutions, found.deletions, found.insertions, pairs)


def error_rate(found: Sequence[Errors]) -> float:
    """Errors a phoneme, all utterances together; may exceed one."""
    return sum(one.total for one in found) / sum(one.phonemes for one in found)
