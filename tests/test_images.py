"""Image generation: the likelihood, drawing in all ways, training that resumes, the rules."""

import math
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from replication import data, measure, train
from replication.attention import contenders
from replication.data import DataError
from replication.experiments import images
from replication.experiments.images import likelihood, run, task
from replication.experiments.images.generation import drawing, generate
from replication.experiments.images.studies import STUDIES, resolve
from replication.model import Sizes

ALL = torch.arange(256)


def mixtures(*shape, scale=3.0, seed=0):
    random = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, 30, generator=random, dtype=torch.float64)


# The likelihood ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 1, 3, 10])
def test_the_probabilities_of_256_bytes_sum_to_1(scale):
    outputs = mixtures(7, 1, scale=scale).expand(7, 256, 30)
    total = likelihood.log_probability(outputs, ALL.expand(7, 256)).exp().sum(-1)
    assert torch.allclose(total, torch.ones(7, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_log_probability_is_that_of_the_definition_in_double_precision():
    outputs = mixtures(5, 256, scale=1.0)
    found = likelihood.log_probability(outputs, ALL.expand(5, 256)).exp()
    direct = likelihood.direct_probability(outputs, ALL.expand(5, 256))
    assert torch.allclose(found, direct, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mean", [-1e4, -1.0, 0.0, 1e4])
@pytest.mark.parametrize("log_scale", [-1e3, -7.0, 0.0, 60.0])
def test_value_and_gradient_are_finite_at_the_extremes(dtype, mean, log_scale):
    outputs = torch.zeros(256, 30, dtype=dtype)
    outputs[:, 10:20], outputs[:, 20:] = mean, log_scale
    outputs.requires_grad_()
    found = likelihood.log_probability(outputs, ALL)
    found.sum().backward()
    assert found.isfinite().all()
    assert outputs.grad.isfinite().all()


def test_a_byte_is_drawn_with_the_probability_that_the_loss_gives_it():
    """Uniform numbers on a fine grid: shares must be the masses, up to a grid step a bin."""
    outputs, n = mixtures(1, scale=1.0)[:, [0, 10, 20]], 200_000
    grid = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    numbers = torch.stack((torch.full_like(grid, 0.5), grid), 1)
    drawn = likelihood.draw(outputs.expand(n, 3), numbers)
    shares = torch.bincount(drawn, minlength=256) / n
    masses = likelihood.log_probability(outputs.expand(256, 3), ALL).exp()
    assert (shares - masses).abs().max() < 2.5 / n
    theirs = torch.nn.functional.elu(torch.tensor(1.5)) + 1.0001  # the authors' scale at s = 1.5
    assert abs(theirs - math.exp(1.5)) > 1.9


def test_components_are_chosen_by_their_weights():
    outputs = torch.zeros(4, 30, dtype=torch.float64)
    outputs[:, 2:10], outputs[:, 1], outputs[:, 10], outputs[:, 11] = -1e9, math.log(3), -0.5, 0.5
    outputs[:, 20:] = -7
    numbers = torch.tensor([[0.1, 0.5], [0.24, 0.5], [0.26, 0.5], [0.99, 0.5]])
    assert likelihood.draw(outputs, numbers.double()).tolist() == [64, 64, 191, 191]


# Drawing -----------------------------------------------------------------------------------------


def model(attention, length=30, d=32, dtype=torch.float64, **options):
    torch.manual_seed(3)
    sizes = Sizes(attention, d, 2, 2, 64, 256, length, 0.0, "relu", "concatenated", options)
    return task.PixelModel(sizes, 10).to(dtype).eval()


@pytest.mark.parametrize("attention", ["linear", "softmax", "softmax-textbook"])
@pytest.mark.parametrize("given", [1, 15, 31])
def test_all_ways_draw_the_same_image_also_from_a_given_half(attention, given):
    one, prompt = model(attention), torch.randint(256, (3, given))
    step, full = (generate(one, prompt, 0.9, seed=5, form=form) for form in ("memory", "full"))
    assert torch.equal(step, full)
    assert torch.equal(step[:, :given], prompt.to(torch.uint8))
    assert step.shape == (3, 31)


def test_generate_is_offered_by_the_room_which_needs_no_pytorch_until_then():
    line = "from replication.experiments import images; import sys; print('torch' in sys.modules); "
    line += "from replication.experiments.images import generate; print(generate.__module__)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", generate.__module__]
    with pytest.raises(AttributeError, match=r"images' has no attribute 'generated'"):
        images.generated  # noqa: B018


def test_lsh_draws_by_full_passes_and_says_that_it_has_no_memory():
    one, prompt = model("lsh", rounds=1, chunk=5), torch.zeros(2, 1, dtype=torch.int64)
    assert generate(one, prompt).shape == (2, 31)
    with pytest.raises(ValueError, match=r"has no memory to go on"):
        generate(one, prompt, form="memory")


def test_what_was_interrupted_is_resumed_to_the_same_image():
    one, prompt = model("linear"), torch.zeros(2, 1, dtype=torch.int64)
    whole, parts = generate(one, prompt, seed=7), drawing(one, prompt, seed=7)
    half = [next(parts).clone() for _ in range(12)][-1][:, :13]
    assert torch.equal(generate(one, half, seed=7), whole)
    assert not torch.equal(generate(one, half, seed=8), whole)


def test_an_image_does_not_depend_on_a_shorter_length():
    one, prompt = model("linear"), torch.zeros(2, 1, dtype=torch.int64)
    assert torch.equal(generate(one, prompt, length=9), generate(one, prompt)[:, :9])


@pytest.mark.parametrize(("attention", "flat"), [("linear", True), ("softmax", False)])
def test_memory_is_flat_in_the_number_of_pixels_for_linear_alone(attention, flat):
    one, prompt = model(attention, 60, dtype=torch.float32), torch.zeros(4, 1, dtype=torch.int64)
    few, many = (measure.peak_bytes(partial(generate, one, prompt, length=n)) for n in (10, 50))
    assert (many - few < 1000) == flat  # the image itself, or the cache as well: some 80,000


@pytest.mark.parametrize(("change", "words"), [
    ({"temperature": 0.0}, "temperature=0.0 must be positive"),
    ({"form": "magic"}, "form='magic' is unknown"),
    ({"length": 99}, "length=99 does not fit: the model knows 30 positions"),
    ({"prompt": torch.zeros(2, 0, dtype=torch.int64)}, "must be given"),
    ({"prompt": torch.full((2, 1), 256)}, "outside of 0 ... 255"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_words(change, words):
    given = {"prompt": torch.zeros(2, 1, dtype=torch.int64)} | change
    with pytest.raises(ValueError, match=words):
        generate(model("linear"), **given)


# Images as sequences -----------------------------------------------------------------------------


def test_smaller_images_are_rounded_means_of_blocks():
    images = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    found = task.sequences(images, 2).reshape(2, 2, 2, 3).numpy()
    mean = images.reshape(2, 2, 2, 2, 2, 3).mean((2, 4))
    assert np.abs(found - mean).max() <= 0.5
    assert torch.equal(task.sequences(images, 4), torch.from_numpy(images.reshape(2, -1)))
    with pytest.raises(ValueError, match=r"side=3 does not divide 4"):
        task.sequences(images, 3)


@pytest.fixture(scope="module")
def digits():
    try:
        return task.ImageTask(data.load("mnist"), 7)
    except DataError as error:
        pytest.skip(f"MNIST cannot be had here: {error}")


def test_an_epoch_shows_every_image_once_in_an_order_of_its_seed(digits):
    size = 6000
    epoch = torch.cat([digits.batch("train", 1, i, size).values for i in range(1, 11)])
    rows = {bytes(x) for x in epoch.numpy()}
    assert rows == {bytes(x) for x in digits.train.numpy()}
    again, other = (digits.batch("train", seed, 11, size).values for seed in (1, 2))
    assert not torch.equal(again, epoch[:size])
    assert not torch.equal(again, other)


# Training ----------------------------------------------------------------------------------------


def small(attention="linear", **change):
    study = replace(STUDIES["smoke"]["mnist-7"], device="cpu", **change)
    return next(r for r in study.runs() if r.attention == attention)


def test_an_interrupted_run_ends_with_the_same_bits(digits, tmp_path):
    torch.set_num_threads(small().threads)  # PyTorch's products depend on it
    whole = run.train_run(small(), digits)
    checkpoint = tmp_path / "run.pt"
    interrupted = train.Training(run.new_model(small()), digits, small())
    interrupted.evaluate()
    for _ in range(4):
        interrupted.advance()
    interrupted.save(checkpoint)
    resumed = run.train_run(small(), digits, checkpoint)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert whole.evaluations == resumed.evaluations


def test_mechanisms_of_one_seed_start_from_the_same_weights():
    first, other = (run.new_model(small(name)) for name in ("linear", "softmax"))
    assert all(map(torch.equal, first.parameters(), other.parameters()))


def test_half_a_bit_a_byte_is_learnt_soon(digits):
    outcome = run.train_run(small(steps=60, eval_every=60, batch_size=16), digits)
    bits = [row["bits_per_dim"] for row in outcome.evaluations]
    assert bits[-1] < bits[0] - 0.5


def test_images_drawn_by_one_mechanism_do_not_hang_on_another():
    """Their numbers and their code are those of their own model alone."""
    study = STUDIES["smoke"]["mnist-7"]
    drawn = {unit.numbers["run"]["attention"]: unit for unit in run.samples_units(study)}
    assert set(drawn) == set(study.attentions)
    fewer = replace(study, attentions=study.attentions[:1])
    (alone,) = run.samples_units(fewer)
    assert alone == drawn[study.attentions[0]]
    lsh = contenders()["lsh-1"].mechanism.attend
    assert [name for name, unit in drawn.items() if lsh in unit.code] == ["lsh-1"]


def test_wrong_numbers_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match=r"d_model=30 cannot be split over n_heads=4"):
        resolve("quick", d_model=30, n_heads=4)
    with pytest.raises(ValueError, match=r"setting='mnist-9' is unknown"):
        resolve("quick", "mnist-9")
    with pytest.raises(ValueError, match=r"attention='magic' is unknown"):
        resolve("quick", attentions="magic")


@pytest.mark.parametrize("profile", STUDIES)
def test_every_profile_says_why_it_deviates(profile):
    for study in resolve(profile).values():
        rows = study.deviations()
        assert all(row["reason"] not in ("", "–") for row in rows)
