"""The copy task: repeat a sequence of random symbols (paper, Sec. 4.1.1), and how models do it.

Batches are made on the fly. Each has its own generator, seeded by a hash of the stream's
name, the seed and the step, so that any of them can be had without those before it.

Sequences whose symbols sum to a multiple of their number are kept for evaluation, one in
ten: the last symbol is chosen to make the sum so, or not so, like a check digit. Training
can then never meet a sequence that is evaluated, however short it is, and all symbols but
one of every sequence remain independent and uniform.
"""

from collections.abc import Callable
from math import comb, log
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from replication.experiments.base import one_of
from replication.experiments.copy_task.studies import check_words, word_of, word_sizes
from replication.train import hashed

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


class CopyTask:
    """What both settings share: words, the loss, and how a model is evaluated."""

    setting: str

    def __init__(self, length: int, symbols: int):
        self.length, self.symbols, self.vocabulary = length, symbols, symbols + 1
        self.fewest, self.most = word_sizes(self.setting, length)

    def words(self, stream: Stream, seed: int, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Words [B, n] and their lengths [B]."""
        random = torch.Generator().manual_seed(hashed("copy", stream, seed, step))
        n = torch.full((size,), self.most)
        if self.fewest < self.most:
            n = torch.randint(self.fewest, self.most + 1, (size,), generator=random)
        return random_words(stream, n, self.symbols, random), n

    def batch(self, stream: Stream, seed: int, step: int, size: int) -> Batch:
        return self.lay_out(*self.words(stream, seed, step, size))

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Mean over the predictions that count, in nats; and the share of them that is right."""
        logits, targets = model(*batch.inputs)[batch.mask], batch.targets[batch.mask]
        right = logits.detach().argmax(-1) == targets
        return F.cross_entropy(logits, targets), right.float().mean()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, batch_size: int, batches: int) -> dict[str, float]:
        """On the same words every time, none of which training can draw."""
        model.eval()
        device = next(model.parameters()).device
        loss = right = whole = tokens = 0
        for i in range(batches):
            batch = self.batch("evaluate", 0, i, batch_size).to(device)
            logits = model(*batch.inputs)
            hits = logits.argmax(-1) == batch.targets
            loss += F.cross_entropy(logits[batch.mask], batch.targets[batch.mask], reduction="sum")
            right, tokens = right + hits[batch.mask].sum(), tokens + batch.mask.sum()
            whole += (hits | ~batch.mask).all(1).sum()
        return {
            "eval_loss": (loss / tokens).item(),
            "token_accuracy": (right / tokens).item(),
            "exact_match": (whole / (batches * batch_size)).item(),
        }


class PaperCopy(CopyTask):
    """[w, 0, w] as one sequence; the separator and the copy are to be predicted.

    As in the authors' code: w has n symbols, n uniform from length // 4 to
    (length - 1) // 2 - 1 (32 to 62 at length 128), zeros fill up, and the loss counts n + 1
    predictions a sequence. Since it does not count those before the separator is due, 0 is
    always the right answer there and a perfect model reaches a loss of zero.
    """

    setting = "paper"

    def lay_out(self, words: Int[Tensor, "B n"], lengths: Int[Tensor, " B"]) -> Batch:
        place, n = torch.arange(self.length), lengths.unsqueeze(1)
        index = torch.where(place <= n, place, place - n - 1)
        x = words.gather(1, index.clamp(max=words.shape[1] - 1))
        x.masked_fill_((place == n) | (place > 2 * n), 0)
        targets = torch.cat((x[:, 1:], torch.zeros_like(x[:, :1])), 1)
        return Batch((x,), targets, (place >= n - 1) & (place < 2 * n))

    def due(self, n: int) -> dict[int, int]:
        """By query, the key that holds the symbol to be written next."""
        return {n + i: i for i in range(n)}

    def prompt(self, words: list[list]) -> Prompt:
        """Begin with [w, 0]; words may be of different lengths, also of untrained ones."""
        check_words(words, self.symbols, 1, (self.length - 1) // 2)
        width = max(map(len, words)) + 1
        given = torch.tensor([word + [0] * (width - len(word)) for word in words])
        known = torch.tensor([len(word) + 1 for word in words])
        return Prompt((), given, known, 2 * width - 1)

    def answers(self, tokens: Int[Tensor, "B N"], words: list[list[int]]) -> list[list[int]]:
        """The copies in the generated ``tokens``."""
        rows = zip(tokens.tolist(), map(len, words), strict=True)
        return [row[n + 1 : 2 * n + 1] for row, n in rows]


class EarlierCopy(CopyTask):
    """Encoder and decoder, start and end symbols, one fixed length (Do & Bergner 2022).

    The encoder reads [start, w, end], ``length`` tokens in all; the decoder is given
    [start, w] and must predict [w, end]: ``length`` - 2 symbols and the end.
    """

    setting = "earlier"

    def __init__(self, length: int, symbols: int):
        super().__init__(length, symbols)
        self.vocabulary, self.start, self.end = symbols + 2, 0, symbols + 1

    def lay_out(self, words: Int[Tensor, "B n"], lengths: Int[Tensor, " B"]) -> Batch:
        x = F.pad(F.pad(words, (1, 0), value=self.start), (0, 1), value=self.end)
        targets = x[:, 1:]
        return Batch((x, x[:, :-1]), targets, torch.ones_like(targets, dtype=torch.bool))

    def due(self, n: int) -> dict[int, int]:
        """By query of the decoder, the key of the encoder that holds what is to be written."""
        return {i: i + 1 for i in range(n)}

    def prompt(self, words: list[list]) -> Prompt:
        """The encoder is given the words, the decoder the start symbol."""
        check_words(words, self.symbols, self.fewest, self.most)
        one = torch.ones(len(words), dtype=torch.int64)
        (source, tokens), *_ = self.lay_out(torch.tensor(words), self.most * one)
        return Prompt((source,), tokens[:, :1], one, self.length)

    def answers(self, tokens: Int[Tensor, "B N"], words: list[list[int]]) -> list[list[int]]:
        """The copies in the generated ``tokens``, up to their end symbols."""
        rows = [row[1:] for row in tokens.tolist()]
        return [row[: row.index(self.end)] if self.end in row else row for row in rows]

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


TASKS = {"paper": PaperCopy, "earlier": EarlierCopy}
"""The copy task in the paper's setting and in that of the earlier replication."""


# Generation -----------------------------------------------------------------------------------


@torch.inference_mode()
def copy(model: nn.Module, task: CopyTask, words: list[list], form: str = "memory") -> list:
    """The model's copies of ``words``, most likely token after most likely token.

    ``form`` is "memory", one token a step: a linear model is then an RNN, Eqs. (16)-(20), a
    softmax model has a cache; or "full", a forward pass a token. The tokens are the same.
    """
    one_of("form", form, FORMS)
    model.eval()
    prompt = task.prompt(words).to(next(model.parameters()).device)
    logits_after, given = FORMS[form](model, prompt), prompt.given
    tokens = given.new_zeros(len(given), prompt.length)
    tokens[:, 0] = given[:, 0]
    for place in range(1, prompt.length):
        best = logits_after(tokens[:, :place]).argmax(-1)
        if place < given.shape[1]:
            best = torch.where(place < prompt.known, given[:, place], best)
        tokens[:, place] = best
    return task.answers(tokens, words)


Next = Callable[[Int[Tensor, "B n"]], Float[Tensor, "B V"]]


def _with_memory(model: nn.Module, prompt: Prompt) -> Next:
    memory = model.begin(*prompt.source, batch=len(prompt.given), length=prompt.length)
    return lambda tokens: model.step(tokens[:, -1], tokens.shape[1] - 1, memory)


def _by_full_forward(model: nn.Module, prompt: Prompt) -> Next:
    return lambda tokens: model(*prompt.source, tokens)[:, -1]


FORMS = {"memory": _with_memory, "full": _by_full_forward}


def copy_text(model: nn.Module, task: CopyTask, text: str, form: str = "memory") -> str:
    """The model's copy of a sequence like "3 1 4 1 5"."""
    return " ".join(map(str, copy(model, task, [word_of(text)], form)[0]))


def exact_match(model: nn.Module, task: CopyTask, count: int = 100, form: str = "memory") -> float:
    """The share of ``count`` words, never seen in training, that the model copies without error."""
    drawn = zip(*(x.tolist() for x in task.words("evaluate", 0, 0, count)), strict=True)
    words = [word[:n] for word, n in drawn]
    copies = copy(model, task, words, form)
    return sum(a == b for a, b in zip(copies, words, strict=True)) / count
