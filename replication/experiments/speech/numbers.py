"""Every number of the speech experiment once, with its source; profiles choose, and say why.

Source: the *paper*, Katharopoulos et al. 2020, Sec. 4.3 and Appendix B. No code of this
experiment was released, and its corpus is not free.
"""

from replication.experiments.base import Origin
from replication.experiments.studies import because

NAME = "speech"

# What a model hears, Sec. 4.3: 40 mel filterbanks; windows and steps as is usual ----------------

HERTZ, MELS = 16_000, 40
WINDOW, STEP, FFT = 400, 160, 512
"""In samples: 25 ms, 10 ms, and the next power of two."""
LOWEST, FLOOR = 20.0, 1e-8
"""The lowest frequency of a filter, and the least energy in one."""
FRAMES_A_SECOND = HERTZ // STEP

# What the rules count by, fixed before any run that they judge. Their words are in claims.yaml ----

FEWEST_SEEDS = 3
"""With two, a 95 % interval is 12.7 standard errors wide to either side, and shows nothing."""
MOST_ERROR = 0.6
"""Two models are compared only if both make fewer errors a phoneme than this, on average: above,
they have hardly begun to learn, and their order says how fast they begin."""

# Published and chosen ---------------------------------------------------------------------------

MODELS = ("softmax", "linear", "lsh", "bilstm")
TABLE_3 = {
    "softmax": (5.12, 2711), "linear": (8.08, 824), "lsh": (9.33, 2250), "bilstm": (10.94, 1047),
}  # fmt: skip
"""Phoneme error rate in % and seconds an epoch, from low errors to high."""
WSJ_HOURS, WSJ_FRAMES, WSJ_LONGEST = 80, 800, 2400
"""The paper's corpus: hours, and frames of an utterance on average and at most."""
OPTIMISERS = {"softmax": "radam", "linear": "radam", "lsh": "radam", "bilstm": "adam"}

ORIGINS = {
    "models": Origin(MODELS), "seeds": Origin(), "cases": Origin(),
    "d_model": Origin(192), "n_heads": Origin(6), "n_layers": Origin(9), "d_ff": Origin(),
    "lstm_layers": Origin(3), "lstm_size": Origin(320), "lsh_rounds": Origin(4),
    "lsh_buckets": Origin(), "lsh_chunk": Origin(), "positions": Origin(), "stack": Origin(1),
    "lr": Origin(1e-4), "lstm_lr": Origin(1e-3), "lr_drop": Origin(0.5), "plateau": Origin(),
    "betas": Origin(), "eps": Origin(), "weight_decay": Origin(), "clip": Origin(),
    "dropout": Origin(), "steps": Origin(), "batch_size": Origin(), "longest": Origin(2400),
    "hide_mels": Origin(), "hide_frames": Origin(), "eval_every": Origin(),
    "eval_batches": Origin(), "tested": Origin(), "beam": Origin(),
}  # fmt: skip
"""What the paper says. d_model: six heads of 32, "as for the image experiments"."""

SPEED = "shortens the run to the time of this profile"
HEADS = "heads of 32 features, as in the paper"
FAST = "fewer updates are made, and a smaller model bears it"

COMMON = {
    **because("enough to see whether a difference is larger than chance", seeds=(0, 1, 2)),
    **because("the whole training part of the Czech corpus", cases=((1500, 0),)),
    **because("four times d_model, as in the authors' other experiments", d_ff=768),
    **because("side by side with the input, as in the authors' other experiments",
              positions="concatenated"),
    **because("as in the authors' other experiments", betas=(0.9, 0.999), eps=1e-8,
              weight_decay=0.01, clip=1.0, dropout=0.1, lsh_buckets=64, lsh_chunk=32),
    **because("evaluations without a lower loss, before the rate is halved", plateau=3),
    **because("parts of the input are hidden (SpecAugment), from all models alike: two bands of "
              "filters and two stretches of time an utterance, at most so wide",
              hide_mels=6, hide_frames=20),
    **because("a usual size", batch_size=16, beam=8),
    **because("about once in two epochs", eval_every=200), **because("all of dev", eval_batches=12),
    **because("all of test", tested=1000), **because("far beyond a plateau", steps=40_000),
}  # fmt: skip
"""What all profiles choose."""

_SMALL = because("three frames side by side as one, so that a sequence is a third as long", stack=3)
CHOICES = {
    "paper": {},
    "reference": {
        **_SMALL, **because(HEADS, n_heads=4), **because("four times d_model", d_ff=512),
        **because(FAST, lr=2e-3, lstm_lr=2e-3),
        **because(SPEED, d_model=128, n_layers=4, steps=3000, longest=1500),
        **because("half the usual size, for twice as many updates in the same time",
                  batch_size=8, eval_batches=24),
        **because("none: so few updates do not yet fit what is heard",
                  hide_mels=0, hide_frames=0),
        **because("about once an epoch", eval_every=150),
        **because("about as many weights as the transformer has", lstm_size=112),
        **because("two evaluations, as fewer are made", plateau=2),
    },
    "quick": {
        **_SMALL, **because(HEADS, n_heads=2), **because("four times d_model", d_ff=256),
        **because(FAST, lr=4e-3, lstm_lr=4e-3),
        **because(SPEED, d_model=64, n_layers=2, steps=300, seeds=(0,), cases=((200, 0),),
                  longest=400, batch_size=4, eval_every=60, eval_batches=5, tested=20,
                  lsh_rounds=1),
        **because("small, as the transformers of this profile are", lstm_layers=2, lstm_size=64),
        **because("none, for few updates", hide_mels=0, hide_frames=0, dropout=0.0),
    },
    "smoke": {
        **_SMALL,
        **because(SPEED, d_model=16, n_heads=2, n_layers=1, d_ff=16, steps=4, seeds=(0,),
                  cases=((12, 0),), longest=300, batch_size=4, eval_every=2, eval_batches=1,
                  tested=4, lsh_rounds=1, lstm_layers=1, lstm_size=8, beam=2),
    },
}  # fmt: skip
"""What a profile chooses beyond that, for the Czech corpus. ``paper`` has the published sizes."""
GROWTH = {
    "paper": {"amount": ((1000, 8), (4000, 8), (16000, 8)), "length": ((4000, 8), (400, 80))},
    "reference": {"amount": ((150, 4), (600, 4), (2400, 4)),
                  "length": ((300, 8), (100, 24), (30, 80))},
    "quick": {"amount": ((40, 2), (160, 2)), "length": ()},
    "smoke": {"amount": ((8, 2),), "length": ()},
}  # fmt: skip
"""Synthetic speech: (utterances, words in each); in ``length`` as many words in all as in the
second of ``amount``. 80 words are about 2,400 frames, as the longest utterance of the paper."""
GROWTH_CHOICES = {
    "paper": {},
    "reference": {
        **because(SPEED, seeds=(0,), steps=600, batch_size=8, tested=60, longest=3500),
        **because("as Czech speech was first trained, and not made anew", lr=1e-3, hide_mels=6,
                  hide_frames=20, eval_every=200, eval_batches=12),
    },
    "quick": because(SPEED, steps=240),
    "smoke": {},
}  # fmt: skip

NOTES = [
    ("corpus", "WSJ, 80 h of read English", "Czech dialogues, 1.7 h, and synthetic English",
     "WSJ is not free"),
    ("phonemes", None, "by espeak-ng, of the text", "needs no dictionary"),
    ("normalisation", None, "within an utterance, in every filter", "needs no speaker labels"),
    ("parts", None, "by whole levels of the game", "no dialogue in two parts"),
    ("LSH rounds", None, "weighted by their partition functions", "as the Reformer defines it"),
]  # fmt: skip
"""Deviations that are not numbers: name, paper, here, reason."""
