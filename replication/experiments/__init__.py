"""The experiments: one a folder, each with one ``EXPERIMENT``. There is no other list of them."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from replication.experiments.base import Experiment


@cache
def every() -> dict[str, Experiment]:
    """All experiments by name, in the order of their notebooks, those of one by their names."""
    folders = [module.name for module in iter_modules(__path__) if module.ispkg]
    found = [import_module(f"{__name__}.{name}").EXPERIMENT for name in folders]
    return {one.name: one for one in sorted(found, key=lambda one: (one.notebook, one.name))}


def find(name: str) -> Experiment:
    """The experiment of this name, or of the notebook whose number this is."""
    for one in every().values():
        if name in (one.name, one.notebook) or one.notebook.split("_")[0] == name:
            return one
    known = ", ".join(f"{one.notebook[:2]} ({one.name})" for one in every().values())
    raise ValueError(f"There is no experiment {name!r}. Choose one of: {known}.")
