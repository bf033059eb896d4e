# `make` lists the targets. A fresh machine needs Python (3.10 or newer) and make; Java comes along if it is missing.
SHELL := /bin/bash
WORKERS ?= 2
PYTHON ?= $(shell for v in 3.12 3.11 3.13 3.10; do command -v python$$v >/dev/null 2>&1 && python$$v -c '' 2>/dev/null && { echo python$$v; break; }; done || echo python3)
VENV ?= .venv
BIN := $(VENV)/bin
OLDEST_PYTHON ?= python3.10
OLDEST := .venv-oldest
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
# Without byte code every new Python worker of Spark compiles the package again: 2.6 seconds instead of 1.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo peers test test-slow test-fast test-oldest test-cluster test-wheel soak docs pictures bench lint clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.10 or newer found: install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON): some minutes, about 2 GB …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet -e '.[connect,demo,bench,java]' --group dev
	@touch $@

demo: setup ## load, correct and query the flights data set with local Spark and a local warehouse
	@$(BIN)/python examples/flights.py

# pytest compiles the tests meanwhile: else each worker does, half a minute at the same files.
peers: setup # what tests of others need, and a class archive for Spark's JVM
	@[ -d tests/sql/__pycache__ ] || $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 & \
	$(BIN)/python -m tests.peers.install all || echo "PEERS MISSING: their tests will be skipped"; wait
	@$(BIN)/python -m tests.archive || echo "no class archive: tests take longer"

test: peers ## run all tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-slow: peers ## run what `make test` leaves out because it costs most: processes that die, servers of others, the README
	@BUCKETLAKE_SLOW=1 $(BIN)/python -m pytest -m slow -n $(WORKERS) --dist loadfile --no-loadscope-reorder

soak: peers ## run all tests with every seed, combination and example, many generated queries and damaged files (hours)
	@BUCKETLAKE_SOAK=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-fast: setup ## run the tests that need neither Spark nor peers
	@$(BIN)/python -m pytest -m "not spark and not connect and not cluster and not peer"

test-wheel: setup ## build wheel and source archive, install each bare, plain and with every extra; run the neighbours' examples
	@BUCKETLAKE_SOAK=1 $(BIN)/python -m pytest tests/installed

test-cluster: setup ## run the Spark tests over executors in other processes
	@BUCKETLAKE_TEST_MASTER='local-cluster[2,1,1024]' $(BIN)/python -m pytest tests/spark tests/spark/over_executors.py tests/scenarios -m spark

test-oldest: export PYSPARK_PYTHON := $(abspath $(OLDEST)/bin/python)
test-oldest: $(OLDEST)/.ready ## run the tests without peers on the oldest Python and dependencies (tests/oldest.txt)
	@$(OLDEST)/bin/python -m pytest -m "not cluster and not peer"

$(OLDEST)/.ready: pyproject.toml tests/oldest.txt
	@$(OLDEST_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10) or sys.version_info < (3, 10, 12))' || { echo "Python 3.10.12 or newer of 3.10 is needed: make test-oldest OLDEST_PYTHON=/path/to/python3.10"; exit 1; }
	@$(OLDEST_PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	@$(OLDEST)/bin/python -m pip install --quiet -c tests/oldest.txt -e '.[connect,java]' --group dev
	@touch $@

docs: setup ## build the documents as a site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q -d site && echo "site/index.html"

pictures: setup ## make the documents' pictures of the page anew: they come from its tests
	@BUCKETLAKE_PICTURES=$(abspath docs/pictures) $(BIN)/python -m pytest tests/ui/test_page.py

bench: setup ## measure against the floors (SCALE=1 by default)
	@$(BIN)/python -m benchmarks.run --scale $(or $(SCALE),1)

lint: setup ## lint, format and type checks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --python-version 3.10 --no-warn-return-any --no-warn-unused-ignores # the oldest: names that came later

clean: ## remove the virtual environment and what runs left behind
	@rm -rf $(VENV) $(OLDEST) .pytest_cache .mypy_cache .ruff_cache spark-warehouse metastore_db derby.log demo-warehouse
