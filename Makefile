# Each target sets up what it needs, once, in one .venv. `make PYTHON=python3.12 demo` names another
# Python; `make test ARGS="tests/kg -x"` hands arguments to pytest; `make demo OUT=folder` writes there.
PYTHON ?= python3
OUT ?= demo-out
PORT ?= 8080
ARGS ?=
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup demo studio test test-all check bench docs clean
# One target at a time: they share the virtual environment.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything into .venv (demo, test, check and bench do this themselves)
	@scripts/setup all

demo: ## the main job on the embedded world: report.html and metrics.json in demo-out (no torch needed)
	@scripts/setup demo
	.venv/bin/rulerag demo --out "$(OUT)"

studio: ## the web app on the address that it prints (PORT=…), its sessions in studio-data
	@scripts/setup studio
	.venv/bin/rulerag studio --port "$(PORT)"

test: ## the tests, with every optional package installed; slow ones are left out and counted
	@scripts/test $(ARGS)

test-all: ## every test, the slow ones and those of pretrained models (fetched once) too
	@scripts/setup all
	@.venv/bin/rulerag models fetch all-minilm-l6-v2
	@.venv/bin/rulerag models fetch smollm2-135m-instruct
	@scripts/test --models -m "slow or not slow" $(ARGS)

check: ## lint, format, types and import layers
	@scripts/check

bench: ## speed benchmarks, each as a ratio against its baseline
	@scripts/setup all
	.venv/bin/python -m benchmarks.speed all

docs: ## the documentation as a site in site/, with the API and the command line
	@scripts/setup all
	.venv/bin/python scripts/build_site.py

clean: ## remove outputs and caches (delete .venv yourself to set up anew)
	rm -rf demo-out build dist site .benchmarks .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
