# Everything a newcomer needs: `make demo` and `make test`. The first call makes the environment in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NPM := $(shell command -v npm 2>/dev/null)
ASSETS := src/latentgraph/explorer/assets/explorer.js
MODULES := frontend/node_modules/.ready

.PHONY: demo test lint types docs bench results explorer picture clean

demo: $(READY) explorer  ## train on an embedded data set of 569 patients and write the learned graph
	$(BIN)/latentgraph demo --out demo

test: $(READY) explorer lint types  ## everything that must hold: style, types, tests, docs
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(MAKE) docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
ifdef NPM
	$(MAKE) --no-print-directory $(MODULES)
	cd frontend && npm run --silent check
endif

types: $(READY)
	$(BIN)/mypy

docs: $(READY)  ## build the documentation in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b doctest docs docs/_build/doctest
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(READY)  ## measure everything (25 minutes and a table of a million rows; leave the machine alone); renew the pages
	$(BIN)/latentgraph bench --out results
	$(BIN)/python -m latentgraph.bench.docs results docs

results: $(READY)  ## renew the tables in docs/ from the results files that `latentgraph reproduce` has written
	$(BIN)/python -m latentgraph.experiments.docs results docs
	$(BIN)/python -m latentgraph.experiments.goals_figure results docs/_static
	$(BIN)/python -m latentgraph.experiments.accuracy_figure results docs/_static

ifdef NPM
explorer: $(ASSETS)  ## build the front end of the explorer

$(ASSETS): $(MODULES) $(wildcard frontend/src/*) frontend/build.mjs
	cd frontend && npm run --silent build

$(MODULES): frontend/package.json frontend/package-lock.json
	cd frontend && npm ci --silent
	touch $@
else
explorer:
	@echo "There is no npm: the explorer is not built. Install Node.js (18 or later) to have it; all else works."
endif

picture: $(READY) explorer  ## take the picture of the explorer for the README, from the demo (needs Chromium)
	$(BIN)/python frontend/picture.py docs/_static/explorer.png

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) docs/_build demo frontend/node_modules src/latentgraph/explorer/assets .mypy_cache .pytest_cache .ruff_cache
