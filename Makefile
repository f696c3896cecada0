# Everything a newcomer needs: `make demo` and `make test`. The first call makes the environment in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types docs bench clean

demo: $(READY)  ## train on an embedded data set of 569 patients and write the learned graph
	$(BIN)/latentgraph demo --out demo

test: $(READY) lint types  ## everything that must hold: style, types, tests, docs
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(MAKE) docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

docs: $(READY)  ## build the documentation in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b doctest docs docs/_build/doctest
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(READY)  ## measure everything (25 minutes; leave the machine alone) and renew the tables of docs/speed.md
	$(BIN)/latentgraph bench --out results
	$(BIN)/python -m latentgraph.bench.docs results docs/speed.md

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) docs/_build demo .mypy_cache .pytest_cache .ruff_cache
