# `make` lists the targets. A fresh machine needs Python (3.10 or newer) and make; Java comes along if it is missing.
SHELL := /bin/bash
PYTHON ?= $(shell for v in 3.12 3.11 3.13 3.10; do command -v python$$v >/dev/null 2>&1 && python$$v -c '' 2>/dev/null && { echo python$$v; break; }; done || echo python3)
VENV ?= .venv
BIN := $(VENV)/bin
export PYSPARK_PYTHON := $(abspath $(BIN)/python)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-cluster bench lint types docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.10 or newer found: install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet -e '.[connect,demo,bench,java]' --group dev
	@touch $@

demo: setup ## load, correct and query the flights data set with local Spark and a local warehouse
	@$(BIN)/python examples/flights.py

test: setup ## run all tests
	@$(BIN)/python -m tests.peers.install all || echo "PEERS MISSING: their tests will be skipped"
	@$(BIN)/python -m pytest

test-fast: setup ## run the tests that need neither Spark nor peers
	@$(BIN)/python -m pytest -m "not spark and not connect and not cluster and not peer"

test-cluster: setup ## run the Spark tests over executors in other processes
	@BUCKETLAKE_TEST_MASTER='local-cluster[2,1,1024]' $(BIN)/python -m pytest tests/spark tests/scenarios -m spark

bench: setup ## measure against the floors (SCALE=1 by default)
	@$(BIN)/python -m benchmarks.run --scale $(or $(SCALE),1)

lint: setup ## lint, format and type checks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean: ## remove the virtual environment and what runs left behind
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache spark-warehouse metastore_db derby.log demo-warehouse
