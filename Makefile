# make setup: the environment; make quick: the daily round (under 90 s); make test: everything CI checks;
# make demo: the main job on real data; make docs: the documentation site; make docs-figures: its figures from the results;
# make lock: pin and hash the environment anew;
# make dist: what a release consists of; make package: the same, and looked at as its users will;
# make matrix: both ends of all ranges of versions (gigabytes).
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.complete

unexport PYTHONDONTWRITEBYTECODE # where it is set, each of many processes would compile the same files again

.PHONY: fuzz setup quick test lint types quick-tests tests demo docs docs-figures lock dist package matrix clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt requirements.lock .ci/install.py
	$(PYTHON) -c 'import sys; sys.exit("trainless needs Python 3.11 or newer: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python .ci/install.py
	touch $(STAMP)

# types and tests side by side: some tests wait for others' processes
quick: $(STAMP)
	@start=$$(date +%s); $(MAKE) --no-print-directory -j 2 lint types quick-tests && echo "make quick: $$(($$(date +%s) - start)) s"

test: $(STAMP)
	@start=$$(date +%s); $(MAKE) --no-print-directory -j 2 lint types tests && echo "make test: $$(($$(date +%s) - start)) s"

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

quick-tests:
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q -m quick

tests:
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q

demo: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/trainless demo --out runs/ranked
	OMP_NUM_THREADS=1 $(BIN)/trainless design digits --preset fast --out runs/demo

# warnings are errors; tutorials are run where they have changed; the pages are in site/, a folder for each version
docs: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.hooks.tutorials
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The pages are in site: $(BIN)/python -m http.server --directory site --bind 127.0.0.1"

# what was measured (benchmarks/results/, results/) into README.md and docs/: pages, single figures and pictures
docs-figures: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.docs_figures

lock:
	$(BIN)/python .ci/lock.py

dist: $(STAMP)
	$(BIN)/python .ci/dist.py $(TAG)

package: dist
	OMP_NUM_THREADS=1 $(BIN)/python .ci/package.py

matrix: $(STAMP)
	$(BIN)/python .ci/matrix.py $(ENDS)

clean:
	rm -rf .venv .matrix runs build dist site *.egg-info

fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run --time $(or $(TIME),60)
