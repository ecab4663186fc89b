# Short names for the commands of README and CONTRIBUTING.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PIP := $(PY) -m pip --disable-pip-version-check --no-input
PARALLEL ?= -n auto --dist worksteal
CODE := $(wildcard spacy_sapbert training tests benchmarks docs setup.py)

# keep bytecode outside of the sources, because project.yml compares all files in the source folders
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache

.DEFAULT_GOAL := help
.PHONY: help run test test-ci test-all test-milvus lint format docs docs-pages bench clean install

help:
	@echo "make run     link the example notes: a table here, JSON Lines and an HTML page in artifacts/demo"
	@echo "make test    run the unit tests    make lint   check style and types"
	@echo "make test-ci   run the unit tests, and the tests that start processes, servers and whole workflows"
	@echo "make test-all  run all tests, also those that read corpora and ontologies in \$$SPACY_SAPBERT_DATA"
	@echo "make docs    build the documentation into artifacts/docs, where a broken link is an error"
	@echo "make bench DATA=FOLDER  measure the figures    make clean  remove what these commands made (never training/)"

run: $(STAMP)
	$(PY) -m spacy_sapbert demo

test: $(STAMP)
	$(PY) -m pytest $(PARALLEL) -m "unit and not data"

# the unit tests, and the tests that start processes, servers and whole workflows, without the longest ones (nightly)
test-ci: $(STAMP)
	$(PY) -m pytest $(PARALLEL) -m "not data and not nightly" --durations=25

# all tests, also those that read the corpora in $SPACY_SAPBERT_DATA
test-all: $(STAMP)
	$(PY) -m pytest $(PARALLEL)

# the engine for Milvus on a real server of Milvus; PyPI has one for Linux on x86-64
test-milvus: $(STAMP)
	$(PY) -m pip install --no-deps milvus==2.3.5
	SPACY_SAPBERT_MILVUS=required $(PY) -m pytest tests/indexes -k standalone

lint: $(STAMP)
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy

format: $(STAMP)
	$(PY) -m ruff check --fix $(CODE)
	$(PY) -m ruff format $(CODE)

# generate the pages that come from the code and from docs/figures/data; commit them
docs-pages: $(STAMP)
	$(PY) docs/generate.py

docs: docs-pages
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

bench: $(STAMP)
	$(PY) -m benchmarks $(if $(DATA),--data $(DATA))

install: $(STAMP)

# The stamp is written last, so the next command continues an install that stopped halfway.
# A .venv whose Python is missing or broken is made again; one that works is kept.
$(STAMP): setup.py constraints.txt
	@rm -f $@
	@if $(PY) -c "import pip" 2> /dev/null; then :; else \
	  $(PYTHON) -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))" || { \
	    echo "spacy-sapbert needs Python 3.10, 3.11 or 3.12; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one: make PYTHON=python3.11 $(or $(MAKECMDGOALS),run)"; exit 1; }; \
	  $(PYTHON) -m venv --clear $(VENV) || { \
	    echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }; \
	fi
	@$(PY) -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 13))" || { \
	  echo "$(VENV) has $$($(PY) --version); spacy-sapbert needs Python 3.10, 3.11 or 3.12. Delete $(VENV) and try again."; exit 1; }
	@$(PY) -c "import annoy" 2> /dev/null || command -v $${CXX:-c++} > /dev/null || command -v g++ > /dev/null || command -v clang++ > /dev/null || { \
	  echo "A C++ compiler is needed, because Annoy is distributed as source. On Debian and Ubuntu: apt-get install g++ python3-dev"; exit 1; }
	@rm -rf *.egg-info # an old one does not have the names that were registered since then
	@echo "Installing into $(VENV): about 140 packages, several minutes the first time ..."
	@$(PIP) install --no-compile --progress-bar off -c constraints.txt -e ".[dev,docs,abbreviations,train]" > $(VENV)/install.log 2>&1 & pid=$$!; \
	  trap 'kill $$pid 2> /dev/null' INT TERM; \
	  while kill -0 $$pid 2> /dev/null; do sleep 1; n=$$((n + 1)); \
	    if [ $$((n % 15)) -eq 0 ]; then \
	      echo "  $${n} s  $$(grep -E '^ *(Collecting|Processing|Downloading|Building|Preparing|Installing)' $(VENV)/install.log | tail -n 1 | cut -c 1-100)"; \
	    fi; \
	  done; \
	  wait $$pid || { grep -E -A 4 'ERROR|error:' $(VENV)/install.log | tail -n 30; \
	    echo "The install failed; the whole log is in $(VENV)/install.log. Run the command again to continue it."; exit 1; }
	@$(PIP) install -q --no-compile --no-deps -c constraints.txt phenopackets # for tests; without its dependencies, because its bound on protobuf is too old
	@$(PY) -m compileall -q -j 0 -x '/tests/' $(VENV)/lib > /dev/null || true # pip would use one core; some packages have code for other Pythons
	@echo "Installed: $$($(PY) --version), $$($(PIP) list 2> /dev/null | grep -E '^(spacy|torch) ' | tr -s ' ' | paste -sd, - | sed 's/,/, /')."
	@touch $@

clean:
	rm -rf artifacts metrics packages build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find spacy_sapbert tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} +
