# make setup: the environment; make quick: the daily round (under 90 s); make test: everything CI checks;
# make demo: the main job on real data.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.complete

.PHONY: setup quick test demo clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt .ci/install.py
	$(PYTHON) -c 'import sys; sys.exit("trainless needs Python 3.11 or newer: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python .ci/install.py
	touch $(STAMP)

quick: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q -m quick

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q

demo: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/trainless demo --out runs/ranked
	OMP_NUM_THREADS=1 $(BIN)/trainless design digits --preset fast --out runs/demo

clean:
	rm -rf .venv runs build dist *.egg-info
