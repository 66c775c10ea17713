"""Fixtures of all tests, and a header that says which comparisons can run here."""

from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

import jaxtyping
import pytest
import torch
from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("same-every-time")


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    from replication.measure import halves  # not above: shapes are checked in what is imported here

    halves.mend()


def pytest_report_header() -> list[str]:
    try:
        found = version("pytorch-fast-transformers")
        peers = f"authors' library {found}: oracle tests run"
    except PackageNotFoundError:
        peers = "authors' library absent: oracle tests skipped; install by make peers"
    cuda = "CUDA absent: its tests skipped; they need an NVIDIA GPU"
    if torch.cuda.is_available():
        cuda = f"CUDA on {torch.cuda.get_device_name()}: its tests run"
    return [peers, cuda]


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


@pytest.fixture(params=["cpu", "cuda"])
def device(request) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    return torch.device(request.param)


@pytest.fixture
def unhooked():
    """Shape types are not checked, as outside of tests: what do the words of the errors say?"""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def in_this_process(monkeypatch):
    """What measures starts no processes: their calls are made here."""

    def submit(call, *arguments):
        return SimpleNamespace(result=lambda timeout=None: call(*arguments))

    pool = nullcontext(SimpleNamespace(submit=submit))
    monkeypatch.setattr("replication.measure.processes", lambda *_: pool)


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """A notebook with all that a report may hold, executed once; not to be changed."""
    from report_cases import executed, notebook

    return executed(notebook(), tmp_path_factory.mktemp("report"))
