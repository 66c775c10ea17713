"""Words to be copied: whether they can be, and how they are made to fit; errors in words."""

from itertools import cycle, islice


def word_sizes(setting: str, length: int) -> tuple[int, int]:
    """The fewest and most symbols of a word: 32 to 62 at length 128, as in the authors' code."""
    if setting == "paper":
        return length // 4, (length - 1) // 2 - 1
    return length - 2, length - 2


def fitted(text: str, setting: str, length: int, symbols: int) -> str:
    """A sequence, cut or repeated to a length that the model is trained for."""
    fewest, most = word_sizes(setting, length)
    word = word_of(text)
    word = list(islice(cycle(word), min(max(len(word), fewest), most)))
    check_words([word], symbols, fewest, most)
    return " ".join(map(str, word))


def word_of(text: str) -> list[int | str]:
    """The symbols of a sequence like "3 1 4" or "3, 1, 4"."""
    parts = str(text).replace(",", " ").split()
    return [int(part) if part.isdecimal() else part for part in parts]


def check_words(words: list[list], symbols: int, fewest: int, most: int) -> None:
    """Every word has ``fewest`` to ``most`` symbols out of 1 ... ``symbols``."""
    if not words:
        raise ValueError("There is no sequence to copy. Give at least one.")
    for word in words:
        if strange := sorted({str(s) for s in word if s not in range(1, symbols + 1)}):
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
