"""The copy task: repeat a sequence of random symbols (paper, Sec. 4.1.1).

Batches are made on the fly. Each has its own generator, seeded by a hash of the stream's
name, the seed and the step, so that any of them can be had without those before it.

Sequences whose symbols sum to a multiple of their number are kept for evaluation, one in
ten: the last symbol is chosen to make the sum so, or not so, like a check digit. Training
can then never meet a sequence that is evaluated, however short it is, and all symbols but
one of every sequence remain independent and uniform.
"""

import hashlib
from math import comb, log
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Stream = Literal["train", "evaluate"]


class Batch(NamedTuple):
    """What the model is given, what it must predict, and where that counts."""

    inputs: tuple[Int[Tensor, "B _"], ...]
    targets: Int[Tensor, "B N"]
    mask: Bool[Tensor, "B N"]

    def to(self, device: torch.device) -> "Batch":
        moved = tuple(x.to(device, non_blocking=True) for x in self.inputs)
        return Batch(moved, self.targets.to(device), self.mask.to(device))


class Prompt(NamedTuple):
    """Where generation begins: ``given[b, :known[b]]`` is known, up to ``length`` to be found."""

    source: tuple[Int[Tensor, "B _"], ...]
    given: Int[Tensor, "B _"]
    known: Int[Tensor, " B"]
    length: int

    def to(self, device: torch.device) -> "Prompt":
        moved = tuple(x.to(device) for x in self.source)
        return Prompt(moved, self.given.to(device), self.known.to(device), self.length)


def hashed(*key: object) -> int:
    """A seed that depends on ``key`` alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def generator(*key: object) -> torch.Generator:
    return torch.Generator().manual_seed(hashed(*key))


def random_words(
    stream: Stream, lengths: Int[Tensor, " B"], symbols: int, random: torch.Generator
) -> Int[Tensor, "B n"]:
    """Symbols 1 ... ``symbols``, zero from ``lengths`` on, of the stream's part of all words."""
    size = (len(lengths), int(lengths.max()))
    words = torch.randint(1, symbols + 1, size, generator=random)
    words.masked_fill_(torch.arange(size[1]) >= lengths.unsqueeze(1), 0)
    last = (lengths - 1).unsqueeze(1)
    remainder = words.sum(1, keepdim=True) % symbols
    wanted = torch.randint(1, symbols, last.shape, generator=random)
    shift = -remainder if stream == "evaluate" else torch.where(remainder == 0, wanted, 0)
    return words.scatter_(1, last, (words.gather(1, last) - 1 + shift) % symbols + 1)


class PaperCopy:
    """[w, 0, w] as one sequence; the separator and the copy are to be predicted.

    As in the authors' code: w has n symbols, n uniform from length // 4 to
    (length - 1) // 2 - 1 (32 to 62 at length 128), zeros fill up, and the loss counts n + 1
    predictions a sequence. Since it does not count those before the separator is due, 0 is
    always the right answer there and a perfect model reaches a loss of zero.
    """

    shortest: ClassVar[int] = 8
    separator: ClassVar[int] = 0

    def __init__(self, length: int, symbols: int):
        self.length, self.symbols, self.vocabulary = length, symbols, symbols + 1
        self.fewest, self.most = length // 4, (length - 1) // 2 - 1

    def batch(self, stream: Stream, seed: int, step: int, size: int) -> Batch:
        return self.lay_out(*self.words(stream, seed, step, size))

    def words(self, stream: Stream, seed: int, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Words [B, n] and their lengths [B]."""
        random = generator("copy", stream, seed, step)
        n = torch.randint(self.fewest, self.most + 1, (size,), generator=random)
        return random_words(stream, n, self.symbols, random), n

    def lay_out(self, words: Int[Tensor, "B n"], lengths: Int[Tensor, " B"]) -> Batch:
        place, n = torch.arange(self.length), lengths.unsqueeze(1)
        index = torch.where(place <= n, place, place - n - 1)
        x = words.gather(1, index.clamp(max=words.shape[1] - 1))
        x.masked_fill_((place == n) | (place > 2 * n), self.separator)
        targets = torch.cat((x[:, 1:], torch.zeros_like(x[:, :1])), 1)
        return Batch((x,), targets, (place >= n - 1) & (place < 2 * n))

    def prompt(self, words: list[list]) -> Prompt:
        """Begin with [w, 0]; words may be of different lengths."""
        self.check(words)
        width = max(map(len, words)) + 1
        given = torch.tensor([word + [self.separator] * (width - len(word)) for word in words])
        known = torch.tensor([len(word) + 1 for word in words])
        return Prompt((), given, known, 2 * width - 1)

    def answers(self, tokens: Int[Tensor, "B N"], words: list[list[int]]) -> list[list[int]]:
        """The copies in the generated ``tokens``."""
        rows = zip(tokens.tolist(), map(len, words), strict=True)
        return [row[n + 1 : 2 * n + 1] for row, n in rows]

    def check(self, words: list[list]) -> None:
        check_words(words, self.symbols, 1, (self.length - 1) // 2)


class EarlierCopy:
    """Encoder and decoder, start and end symbols, one fixed length (Do & Bergner 2022).

    The encoder reads [start, w, end], ``length`` tokens in all; the decoder is given
    [start, w] and must predict [w, end]: ``length`` - 2 symbols and the end.
    """

    shortest: ClassVar[int] = 4

    def __init__(self, length: int, symbols: int):
        self.length, self.symbols, self.vocabulary = length, symbols, symbols + 2
        self.start, self.end = 0, symbols + 1
        self.fewest = self.most = length - 2

    def batch(self, stream: Stream, seed: int, step: int, size: int) -> Batch:
        return self.lay_out(*self.words(stream, seed, step, size))

    def words(self, stream: Stream, seed: int, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Words [B, n] and their lengths [B], which are all the same."""
        n = torch.full((size,), self.most)
        return random_words(stream, n, self.symbols, generator("copy", stream, seed, step)), n

    def lay_out(self, words: Int[Tensor, "B n"], lengths: Int[Tensor, " B"]) -> Batch:
        start, end = words.new_full((len(words), 1), self.start), torch.full_like(words, self.end)
        x = torch.cat((start, words, end[:, :1]), 1)
        targets = x[:, 1:]
        return Batch((x, x[:, :-1]), targets, torch.ones_like(targets, dtype=torch.bool))

    def prompt(self, words: list[list]) -> Prompt:
        """The encoder is given the words, the decoder the start symbol."""
        self.check(words)
        one = torch.ones(len(words), dtype=torch.int64)
        (source, tokens), *_ = self.lay_out(torch.tensor(words), self.most * one)
        return Prompt((source,), tokens[:, :1], one, self.length)

    def answers(self, tokens: Int[Tensor, "B N"], words: list[list[int]]) -> list[list[int]]:
        """The copies in the generated ``tokens``, up to their end symbols."""
        rows = [row[1:] for row in tokens.tolist()]
        return [row[: row.index(self.end)] if self.end in row else row for row in rows]

    def check(self, words: list[list]) -> None:
        check_words(words, self.symbols, self.fewest, self.most)

    def levels(self) -> dict[str, float]:
        """Mean loss per predicted token, in nats, of two ways of not having learnt to copy.

        "frequencies": every token is predicted by its frequency among the targets, m / (m + 1)
        for the m symbols together and 1 / (m + 1) for the end.
        "bag": the end is foreseen, being always at the same place, and costs nothing; every
        symbol is predicted by its share c / m of this sequence, but not by its place. The mean
        of -log(c / m) is log m - E[sum of c log c] / m, where c is binomial. Here symbols are
        taken as independent; that a tenth of the words is held out changes this very little.
        """
        m, p = self.most, 1 / self.symbols
        frequencies = -(m * log(m * p / (m + 1)) + log(1 / (m + 1))) / (m + 1)
        chances = (comb(m, c) * p**c * (1 - p) ** (m - c) * c * log(c) for c in range(1, m + 1))
        bag = log(m) - self.symbols * sum(chances) / m
        return {"frequencies": frequencies, "bag": bag * m / (m + 1)}


def check_words(words: list[list], symbols: int, fewest: int, most: int) -> None:
    """Every word has ``fewest`` to ``most`` symbols out of 1 ... ``symbols``."""
    if not words:
        raise ValueError("There is no sequence to copy. Give at least one.")
    for word in words:
        strange = sorted({str(s) for s in word if s not in range(1, symbols + 1)})
        if strange:
            raise ValueError(
                f"The model does not know {', '.join(strange)}. It has learnt the symbols 1 to "
                f"{symbols}: use these."
            )
        if not fewest <= len(word) <= most:
            wanted = f"exactly {most}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(
                f"The sequence has {len(word)} symbols, but this model takes {wanted}. Change it, "
                "or train a model for another length."
            )
