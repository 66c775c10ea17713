"""Generation: a trained model copies token by token, with a memory or without.

With its memory a linear model is an RNN, Eqs. (16)-(20), and a softmax model has a cache of
keys and values. Without, the whole sequence is computed again for every token. The tokens
are the same.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from replication.tasks import EarlierCopy, PaperCopy, Prompt

Task = PaperCopy | EarlierCopy


@torch.inference_mode()
def copy(model: nn.Module, task: Task, words: list[list], form: str = "memory") -> list:
    """The model's copies of ``words``, most likely token after most likely token.

    ``form`` is "memory", one token a step, or "full", a forward pass a token. Words may be of
    a length that training did not show; whether the model copies them is another question.
    """
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown. Choose one of: {', '.join(FORMS)}.")
    model.eval()
    prompt = task.prompt(words).to(next(model.parameters()).device)
    return task.answers(_generate(prompt, FORMS[form](model, prompt)), words)


def copy_text(model: nn.Module, task: Task, text: str, form: str = "memory") -> str:
    """The model's copy of a sequence like "3 1 4 1 5"."""
    parts = text.replace(",", " ").split()
    word = [int(part) if part.isdecimal() else part for part in parts]
    return " ".join(map(str, copy(model, task, [word], form)[0]))


def exact_match(model: nn.Module, task: Task, count: int = 100, form: str = "memory") -> float:
    """The share of ``count`` words, never seen in training, that the model copies without error."""
    drawn = zip(*(x.tolist() for x in task.words("evaluate", 0, 0, count)), strict=True)
    words = [word[:n] for word, n in drawn]
    copies = copy(model, task, words, form)
    return sum(a == b for a, b in zip(copies, words, strict=True)) / count


Next = Callable[[Int[Tensor, "B n"]], Float[Tensor, "B V"]]


def _generate(prompt: Prompt, logits_after: Next) -> Int[Tensor, "B N"]:
    """Fill ``prompt.length`` places, keeping what the prompt knows."""
    given, known = prompt.given, prompt.known
    tokens = given.new_zeros(len(given), prompt.length)
    tokens[:, 0] = given[:, 0]
    for place in range(1, prompt.length):
        best = logits_after(tokens[:, :place]).argmax(-1)
        if place < given.shape[1]:
            best = torch.where(place < known, given[:, place], best)
        tokens[:, place] = best
    return tokens


def _with_memory(model: nn.Module, prompt: Prompt) -> Next:
    memory = model.begin(*prompt.source, batch=len(prompt.given), length=prompt.length)
    return lambda tokens: model.step(tokens[:, -1], tokens.shape[1] - 1, memory)


def _by_full_forward(model: nn.Module, prompt: Prompt) -> Next:
    return lambda tokens: model(*prompt.source, tokens)[:, -1]


FORMS = {"memory": _with_memory, "full": _by_full_forward}
