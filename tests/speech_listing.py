"""How ``czech.csv`` was made: every utterance with phonemes, its part, and hashes of both."""

from collections import Counter
from pathlib import Path

from replication.experiments.speech import espeak
from replication.experiments.speech.corpus import digest, sounds, texts

SHARES = {"test": 0.1, "dev": 0.1}
"""Of all sound, by whole levels of the game; the rest is for training."""


def listed(root: Path) -> list[dict[str, str]]:
    """The rows of ``czech.csv``: every sound that has phonemes, its part, and hashes of both."""
    import soundfile

    written, rows, seconds = texts(root), [], Counter()
    for name, path in sounds(root).items():
        spoken = espeak.phonemes(written.get(name, ""), "cs")
        if spoken:
            rows.append({"id": name, "split": "", "sound": digest(path.read_bytes()),
                         "phonemes": digest(" ".join(spoken).encode())})  # fmt: skip
            seconds[level_of(name)] += soundfile.info(path).duration
    part_of = split(seconds)
    return [row | {"split": part_of[level_of(row["id"])]} for row in rows]


def split(seconds: dict[str, float]) -> dict[str, str]:
    """Levels, in the order of a hash, to test until that has its share, then dev, then train."""
    parts, left = {}, {name: share * sum(seconds.values()) for name, share in SHARES.items()}
    for level in sorted(seconds, key=lambda level: digest(level.encode())):
        part = next((name for name, rest in left.items() if rest > 0), "train")
        parts[level] = part
        left[part] = left.get(part, 0) - seconds[level]
    return parts


def level_of(name: str) -> str:
    return name.split("/")[0]
