# Every target sets itself up through scripts/setup.sh, which is quick when there is nothing to do.

PYTHON ?= python3
PYTEST = OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile
CODE = sandlot sandboxes envs harness trainers tests benchmarks scripts docs setup.py

.PHONY: help setup demo test test-all test-vllm lint types format docs clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup:  ## make .venv with everything
	@bash scripts/setup.sh $(PYTHON)

demo: setup  ## train a small language model on generated ALFWorld games (7 to 12 minutes on 2 cores)
	.venv/bin/sandlot train

test: lint types  ## ruff, basedpyright and the default tests
	$(PYTEST) -m "not slow"

test-all: lint types  ## the same with the slow tests
	$(PYTEST)

test-vllm:  ## the tests against a real vLLM on the CPU (makes .venv-vllm: 3.5 GB)
	@bash scripts/setup_vllm.sh $(PYTHON)
	OMP_NUM_THREADS=1 .venv-vllm/bin/python -m pytest tests/engines

lint: setup  ## ruff
	.venv/bin/ruff check $(CODE)
	.venv/bin/ruff format --check $(CODE)

types: setup  ## basedpyright
	.venv/bin/python scripts/typecheck.py

format: setup  ## rewrite the code in the project's format
	.venv/bin/ruff check --fix $(CODE)
	.venv/bin/ruff format $(CODE)

docs: setup  ## write the generated parts of README.md and docs/ again
	.venv/bin/python scripts/generate_docs.py

clean:  ## remove what was built (runs/ and .venv/ stay)
	rm -rf build dist *.egg-info .ruff_cache .hypothesis .pytest_cache
