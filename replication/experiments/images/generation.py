"""Generation: a model draws images byte by byte, with a memory or without.

With its memory a linear model is an RNN, Eqs. (16)-(20), and a softmax model has a cache of keys
and values. Without, all that is drawn is computed again for every byte. From the same seed all ways
draw the same image, for the random numbers of a byte depend on its place alone; so what was
interrupted is resumed by giving it as the prompt.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from replication.attention import FrozenStack
from replication.experiments.images.likelihood import draw

Step = Callable[[Int[Tensor, " B"], int], Float[Tensor, "B P"]]
"""What the model says of the byte after this one, at this position."""


def generate(
    model: nn.Module, prompt: Int[Tensor, "B n"] | UInt8[Tensor, "B n"], temperature: float = 1.0,
    seed: int = 0, *, form: str = "auto", length: int | None = None,
) -> UInt8[Tensor, "B L"]:  # fmt: skip
    """The images that begin with ``prompt``, at least one byte of each, as sequences.

    ``form`` is "memory", one byte a step; "full", a forward pass a byte; or "auto": with a memory
    if the mechanism has one. The prompt is kept as it is.
    """
    for values in drawing(model, prompt, temperature, seed, form=form, length=length):  # noqa: B007
        pass
    return values


def drawing(
    model: nn.Module, prompt: Tensor, temperature: float = 1.0, seed: int = 0, *,
    form: str = "auto", length: int | None = None,
) -> Iterator[UInt8[Tensor, "B L"]]:  # fmt: skip
    """The same, to be watched: the image after every byte, zero where nothing is drawn yet."""
    length = model.sizes.length + 1 if length is None else length
    _check(model, prompt, temperature, form, length)
    model.eval()
    device, (batch, given) = next(model.parameters()).device, prompt.shape
    values = torch.zeros(batch, length, dtype=torch.uint8, device=device)
    values[:, :given] = prompt.to(device)
    outputs_after = FORMS[form](model, batch, length)
    random = torch.Generator().manual_seed(seed)
    if given == length:
        yield values
    for place in range(1, length):
        numbers = torch.rand(batch, 2, generator=random, dtype=torch.float64)
        with torch.inference_mode():  # not around the yield: what follows it is the caller's
            outputs = outputs_after(values, place, place >= given)
            if place >= given:
                values[:, place] = draw(outputs, numbers.to(device), temperature).to(torch.uint8)
        if place >= given:
            yield values


def has_memory(model: nn.Module) -> bool:
    return model.layers[0].attention.card.memory is not None


def stepper(model: nn.Module, memory: list) -> Step:
    """``model.step`` with its weights as they are now, compiled where that is possible."""
    layers = FrozenStack(model.layers)

    def step(token: Tensor, position: int) -> Tensor:
        x = layers.step(model.embedding.step(token, position), position, memory)
        return model.predict.forward(model.norm.forward(x))

    return step


def _with_memory(model: nn.Module, batch: int, length: int) -> Callable:
    step = stepper(model, model.begin(batch, length - 1))
    return lambda values, place, _: step(values[:, place - 1].long(), place - 1)


def _by_full_passes(model: nn.Module, batch: int, length: int) -> Callable:
    return lambda values, place, due: model(values[:, :place].long())[:, -1] if due else None


def _either(model: nn.Module, batch: int, length: int) -> Callable:
    return (_with_memory if has_memory(model) else _by_full_passes)(model, batch, length)


FORMS = {"auto": _either, "memory": _with_memory, "full": _by_full_passes}


def _check(model: nn.Module, prompt: Tensor, temperature: float, form: str, length: int) -> None:
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown. Choose one of: {', '.join(FORMS)}.")
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be positive; 1 draws as the loss says.")
    if prompt.ndim != 2 or not 1 <= prompt.shape[1] <= length:
        raise ValueError(
            f"prompt has the shape {list(prompt.shape)}, but must be [images, bytes] with 1 to "
            f"{length} bytes: the first byte of an image is never predicted, so it must be given."
        )
    if not 2 <= length <= model.sizes.length + 1:
        raise ValueError(
            f"length={length} does not fit: the model knows {model.sizes.length} positions, so it "
            f"draws images of 2 to {model.sizes.length + 1} bytes. Build it for a larger length."
        )
    if prompt.numel() and (prompt.min() < 0 or prompt.max() > 255):
        raise ValueError("prompt holds values outside of 0 ... 255. Give bytes.")
