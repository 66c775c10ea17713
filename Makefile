# Each target sets up .venv by itself. Needed: Python >= 3.11 with its venv module, and make.

# The newest Python that will do; `make PYTHON=/path/to/python3` names another one.
ifndef PYTHON
PYTHON := $(firstword $(foreach python, python3.13 python3.12 python3.11 python3, \
	$(shell $(python) -c 'import sys; sys.version_info < (3, 11) or print("$(python)")' \
	2>/dev/null)) python3)
endif

# Further arguments for the tool that a target runs: make bench ARGS="--help"
ARGS ?=

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup lint test test-cluster test-browser test-load test-readme lab report reference notebooks bench peers clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup: ## set up or repair .venv and do nothing else
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here." \
		"Install Python 3.11 or newer, or say where it is: make PYTHON=/path/to/python3.11"; \
		exit 1; } >&2
	@$(PYTHON) tools/bootstrap.py

lint: setup ## check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

test: lint ## check style and format, then run all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-cluster: setup ## run a sweep through a real Slurm on this machine (Debian, root)
	$(BIN)/pip install --quiet -c constraints.txt snakemake-executor-plugin-slurm
	$(BIN)/python tests/cluster/run.py $(ARGS)

test-browser: setup ## run every notebook in JupyterLab, in a real Chromium: minutes
	$(BIN)/pip install --quiet -c constraints.txt selenium
	$(BIN)/python tests/browser/run.py $(ARGS)

test-load: setup ## ask for the crossover beside 0, 1, 2 and 4 busy programs: twelve minutes
	$(BIN)/python tests/load/run.py

test-readme: ## run every command of the README in a fresh clone of the last commit: half an hour
	$(PYTHON) tests/readme/run.py

lab: setup ## open the notebooks in JupyterLab
	OMP_WAIT_POLICY=passive JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks $(ARGS)

report: setup ## run what is missing, then build/quick/report.pdf: minutes (ARGS="--profile smoke": three)
	$(BIN)/replication report $(ARGS)

reference: setup ## the same in the profile that the published results are of: about 19 hours
	$(BIN)/replication report --profile reference $(ARGS)

notebooks: setup ## execute the committed notebooks on the rows of the reference run (ARGS="03 05": these)
	$(BIN)/python tools/notebooks.py $(ARGS)

bench: setup ## time the attention mechanisms
	$(BIN)/replication bench attention $(ARGS)

peers: setup ## build the authors' library, to compare with (C++ compiler, several minutes)
	@$(BIN)/python tools/peers.py

clean: ## remove .venv and caches; results and figures stay
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
