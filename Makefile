# What one does here, each with one command. The first target that needs it sets up .venv.
PYTHON ?= python3
# More arguments for check, test, mutation or bench: make test ARGS='-m "not slow"'
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP_INSTALL := install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup check test cases mutation lint bench docs lock clean python

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## the environment in .venv, with the versions of constraints.txt

check: $(READY) ## every interleaving of the transaction protocol, within bounds
	$(BIN)/epochfence check transactions $(ARGS)

test: $(READY) ## all tests
	$(BIN)/pytest -n 2 --dist loadscope $(ARGS)

cases: $(READY) ## Kafka's conformance cases on the executable machines; CASES=DIR takes others
	$(BIN)/python tests/conformance/run.py $(if $(CASES),--cases $(CASES)) $(if $(JSON),--json $(JSON))

mutation: $(READY) ## how many mutants of the tables the properties and tests kill
	$(BIN)/python tests/mutation/run.py $(ARGS)

lint: $(READY) ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY) ## speed and memory beside other checkers
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/compile.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/solver.py $(if $(findstring --quick,$(ARGS)),--quick)
	$(BIN)/python bench/oracle.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/spark.py $(filter --quick,$(ARGS))

docs: $(READY) ## the documentation, in site/, and what is generated of it, in docs/
	$(BIN)/python -m epochfence.diagrams.pages docs
	$(BIN)/mkdocs build --quiet --strict

lock: | python ## the newest versions that pyproject.toml allows, to constraints.txt
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip $(PIP_INSTALL) -e '.[all]'
	$(VENV)-lock/bin/pip freeze --exclude-editable > $(VENV)-lock/constraints.txt
	mv $(VENV)-lock/constraints.txt constraints.txt
	rm -rf $(VENV)-lock

clean: ## remove what was built or cached, but for .venv
	rm -rf build dist site *.egg-info .hypothesis .pytest_cache .ruff_cache $(VENV)-lock
	find . -name $(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The link is for type checkers: see [tool.pyright] in pyproject.toml.
$(READY): pyproject.toml setup.py constraints.txt | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -c constraints.txt -e '.[all]'
	mkdir -p $(VENV)/typing
	ln -sfn ../.. $(VENV)/typing/epochfence
	touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "epochfence needs Python 3.11 or newer, and $(PYTHON) is missing or older:" \
	    "install one, or name it, as in make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) lacks its venv module:" \
	    "install it (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
