"""Studies and their runs, and what is timed: numbers by profile, checked before use."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from replication.experiments import studies
from replication.experiments.base import PROFILES, one_of
from replication.experiments.speech import numbers
from replication.store import Unit


@dataclass(frozen=True, kw_only=True)
class Numbers(studies.Numbers):
    setting: str
    lstm_layers: int
    lstm_size: int
    lsh_rounds: int
    lsh_buckets: int
    lsh_chunk: int
    positions: str
    stack: int
    plateau: int
    longest: int
    hide_mels: int
    hide_frames: int
    tested: int
    beam: int


@dataclass(frozen=True, kw_only=True)
class Run(Numbers):
    model: str
    seed: int
    optimiser: str
    utterances: int
    words: int
    """In each utterance of synthetic speech; 0: Czech speech."""

    lr_drop_after = 0
    """The rate falls on a plateau, not at a step."""

    @property
    def name(self) -> str:
        case = f"{self.utterances}x{self.words}" if self.words else f"{self.utterances}"
        return f"{self.setting}-{case}-{self.model}-seed{self.seed}"


WHICH = ["setting", "utterances", "words", "model", "seed"]
"""The columns that say which run a row is from."""
EVALUATION = ["step", "eval_loss", "error_rate"]


def run_of(unit: Unit) -> Run:
    """The run of a unit, whether of its training or of its errors."""
    return studies.run_of(Run, unit.numbers.get("run", unit.numbers))


def sources(setting: str, profile: str) -> studies.Sources:
    choices = studies.OURS | numbers.COMMON | numbers.CHOICES[profile]
    if setting != "czech":
        choices, cases = choices | numbers.GROWTH_CHOICES[profile], numbers.GROWTH[profile][setting]
        choices |= studies.because("how much is heard, and how long", cases=cases)
    origins = numbers.ORIGINS | studies.OUR_OWN
    return studies.Sources(origins, choices, ("paper", "here"), numbers.NOTES)


@dataclass(frozen=True, kw_only=True)
class Study(Numbers, studies.Study):
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    cases: tuple[tuple[int, int], ...]
    lstm_lr: float

    @property
    def sources(self) -> studies.Sources:
        return sources(self.setting, self.profile)

    def runs(self) -> Iterator[Run]:
        """Of longer utterances fewer make a batch, so that an update hears as many words."""
        for (utterances, words), seed, model in product(self.cases, self.seeds, self.models):
            size = max(1, self.batch_size * self.cases[0][1] // words) if words else self.batch_size
            yield self.one(Run, model=model, seed=seed, utterances=utterances, words=words,
                           batch_size=size,
                           lr=self.lstm_lr if model == "bilstm" else self.lr,
                           optimiser=numbers.OPTIMISERS[model])  # fmt: skip


SETTINGS = ("czech", "amount", "length")
"""Czech speech, which decides; synthetic speech of growing amount, and of growing length."""
STUDIES = {
    key: Study(setting=key[0], profile=key[1], **sources(*key).values())
    for key in product(SETTINGS, PROFILES)
}


def resolve(setting: str = "czech", profile: str = "quick", **overrides: Any) -> Study:
    """The profile with some values overridden, all checked before anything is computed."""
    one_of("setting", setting, SETTINGS)
    one_of("profile", profile, PROFILES)
    base = STUDIES[setting, profile]
    study = studies.overridden(base, set(base.sources.origins) - {"cases"}, overrides)
    check(study)
    return studies.on_device(study)


def check(study: Study) -> None:
    least = {"lstm_layers": 1, "lstm_size": 1, "stack": 1, "tested": 1, "beam": 1, "longest": 10}
    studies.check(study, ("models", "seeds"), **least)
    for model in study.models:
        one_of("model", model, numbers.MODELS)


CONTENDERS = ("linear", "softmax-textbook", "softmax", "lsh", "bilstm")
"""softmax-textbook is what the paper had; softmax is PyTorch's fused kernel."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long a model of published size takes for an utterance, and how much memory."""

    profile: str
    contenders: tuple[str, ...] = CONTENDERS
    lengths: tuple[int, ...]
    runs: int
    """In processes of their own, an hour or a minute apart."""
    repeats: int
    """Undisturbed ones of a short call, in a run; a long call has the fewest."""
    seconds: float
    """What a run may take."""
    batch_size: int = 1
    phonemes: int = 45
    """Classes: about as many as either language has, and the blank."""
    frames_a_phoneme: int = 8
    """Fewer than the 11 of the Czech corpus: CTC is not made cheaper than it is in fast speech."""
    d_model: int = 192
    n_heads: int = 6
    n_layers: int = 9
    d_ff: int = 768
    lstm_layers: int = 3
    lstm_size: int = 320
    lsh_rounds: int = 4
    lsh_buckets: int = 64
    lsh_chunk: int = 32
    positions: str = "concatenated"


TIMINGS = {
    "paper": Timing(profile="paper", lengths=(50, 100, 200, 400, 800, 1600, 2400, 4800, 9600),
                    runs=6, repeats=6, seconds=7200.0),
    "reference": Timing(profile="reference", lengths=(50, 100, 200, 400, 800, 1600, 2400),
                        runs=4, repeats=4, seconds=300.0),
    "quick": Timing(profile="quick", lengths=(100, 800), runs=1, repeats=3, seconds=40.0),
    "smoke": Timing(profile="smoke", lengths=(32, 64), runs=1, repeats=2, seconds=20.0, n_layers=1,
                    d_model=32, n_heads=2, d_ff=32, lstm_layers=1, lstm_size=8),
}  # fmt: skip
