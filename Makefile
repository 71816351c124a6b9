# What one does here, each with one command. The first target that needs it sets up .venv.
PYTHON ?= python3
# More arguments for check, test, expectations, drawn, mutation, kill, audit or bench: make test ARGS='-m "not slow"'
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# The environment grows by need: for a check, then for all the rest.
READY_TO_CHECK := $(VENV)/.ready-to-check
READY := $(VENV)/.ready
PIP_INSTALL := install --quiet --disable-pip-version-check
# The package is built by the setuptools that is installed, whose hash was checked as well.
INSTALL_OURSELVES := $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
SETUPTOOLS = $(shell sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml)
COMPILE := $(VENV)-lock/bin/uv pip compile --quiet pyproject.toml - --universal \
  --python-version 3.11 --generate-hashes --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help setup check test expectations drawn brokers classes clients cluster others soak fuzz agreement cases crosscheck mutation proofs refinements kill slips lint bench docs dist audit lock clean python

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## the environment in .venv, with the versions of requirements/

check: $(READY_TO_CHECK) ## every interleaving of the transaction protocol, within bounds
	$(BIN)/epochfence check transactions $(ARGS)

# Tests start many processes, and each would compile this project again. Two processes more than two
# cores have: tests wait for processes, clocks and pages too.
# With one seed for hashes as well, a commit's tests come to the same in each run.
TEST := $(BIN)/pytest -n 4 --dist loadscope --no-loadscope-reorder --max-worker-restart 0 \
  --timeout 900 --timeout-method signal --durations=25
test expectations drawn: export PYTHONDONTWRITEBYTECODE =
test expectations: export PYTHONHASHSEED = 0
test: $(READY) ## all tests, but for those that take long; SEED=N draws other inputs
	$(TEST) $(if $(SEED),--seed $(SEED)) $(ARGS)

expectations: $(READY) ## the tests that take long; SEED=N draws other inputs
	$(TEST) --long $(if $(SEED),--seed $(SEED)) $(ARGS)

drawn: $(READY) ## tests whose inputs are drawn, with other inputs; SEED=N to repeat
	$(TEST) -m drawn --seed $(or $(SEED),$$(date +%s)) $(ARGS)

# A broker takes half a GiB; one is there at a time. With all releases all cases are run, with some a
# sample of them.
brokers: $(READY) ## tests on Kafka's own brokers, by Java and Maven; RELEASES="3.6 4.4" takes some
	@$(BIN)/python tests/brokers/kafka.py $(RELEASES)
	$(BIN)/pytest tests/brokers --brokers "$(or $(RELEASES),all)" --durations=5 \
	  $(if $(RELEASES),--seed $(or $(SEED),$$(date +%s)),--every-case) $(ARGS)

classes: $(READY) ## Kafka's own classes take all local steps, by Java and Maven; RELEASES="3.6 4.4" takes some
	for release in $(or $(RELEASES),2.5 2.8 3.6 3.9 4.0.1 4.3 4.4); do \
	  $(BIN)/epochfence conform --classes $$release || exit; done

clients: $(READY) ## programs of other clients and their own tests on served clusters, to docs/clients.md, by Go, Node.js, Rust, Java and Maven; CLIENTS="franz-go" takes some
	$(BIN)/python tests/clients/run.py --kafka $(CLIENTS)
	$(if $(CLIENTS),,$(BIN)/python tests/clients/suites.py)

cluster: $(READY) ## a search on Spark in nine network namespaces, disturbed, to docs/cluster.md, by root, Linux and Java; ARGS='--run worker' is one run, ARGS=--short what CI runs
	$(BIN)/python tests/cluster/run.py $(or $(ARGS),--record)

others: $(READY) ## conform on kfake, klite and Tansu, to docs/brokers.md, by Go and Rust; OTHERS="kfake" takes some
	$(BIN)/python tests/brokers/others.py $(OTHERS)

soak: $(READY) ## clients, a broker and faults between them, killed at random; SECONDS=600, RELEASE=, SEED=
	$(BIN)/python tests/soak/run.py --seconds $(or $(SECONDS),600) $(if $(RELEASE),--release $(RELEASE)) \
	  $(if $(SEED),--seed $(SEED)) $(or $(ARGS),--record)

cases: $(READY) ## Kafka's conformance cases on the executable machines; CASES=DIR takes others
	$(BIN)/python tests/conformance/run.py $(if $(CASES),--cases $(CASES)) $(if $(JSON),--json $(JSON))

fuzz: $(READY) ## inputs made up at random, of every kind; SECONDS=600, SEED=N to repeat
	$(BIN)/python tests/fuzz/run.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(ARGS)

agreement: $(READY) ## all engines on random systems, SYSTEMS=100; goes on where it was
	$(BIN)/python tests/agreement/run.py --systems $(or $(SYSTEMS),100) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutation: $(READY) ## how many mutants of the tables the properties and tests kill
	$(BIN)/python tests/mutation/run.py $(ARGS)

proofs: $(READY) ## all proofs anew, to docs/proofs.md; SECTIONS="5 6" or systems take some of them
	$(BIN)/python -m epochfence.checker.solver.proofs.page docs/proofs.md $(SECTIONS) $(ARGS)

refinements: $(READY) ## refinement checks of the client, the coordinator, the leader and the groups
	$(BIN)/pytest -n 2 --every-case tests/spec/test_*_refinement.py tests/checker/test_refinement.py $(ARGS)

kill: $(READY) ## signal 9, full disks and short memory, at random moments, to docs/reliability.md
	$(BIN)/python tests/kill/run.py $(or $(ARGS),--record)

crosscheck: $(READY) ## TLC on systems written in TLA+; TLA2TOOLS_JAR=FILE names its jar
	$(BIN)/python tests/checker/tla/run.py

slips: $(READY) ## slips planted into declarations, and which are noticed; COUNT=2000, SEED= to repeat
	$(BIN)/python tests/slips/run.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(ARGS)

lint: $(READY) ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY) ## speed and memory beside other checkers
	$(BIN)/python bench/run.py $(ARGS)
	$(BIN)/python bench/compile.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/store.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/progress.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/report.py
	$(BIN)/python bench/solver.py $(if $(findstring --quick,$(ARGS)),--quick)
	$(BIN)/python bench/oracle.py $(filter --quick,$(ARGS))
	$(BIN)/python bench/spark.py $(filter --quick,$(ARGS))

docs: $(READY) ## the documentation, in site/, with its generated pages and drawings
	$(BIN)/mkdocs build --quiet --strict

# The archive is packed again: setuptools keeps the times and the owner of the files that it writes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: $(READY) ## wheel and source archive, in dist/: the same bytes for the same commit
	rm -rf build dist *.egg-info
	umask 022 && $(BIN)/python -m build --no-isolation
	cd dist && tar -xzf *.tar.gz && name=$$(basename *.tar.gz .tar.gz) && \
	  tar --create --sort=name --format=gnu --mtime=@$$SOURCE_DATE_EPOCH --owner=0 --group=0 \
	    --numeric-owner --mode=u=rwX,go=rX $$name | gzip -9n > $$name.tar.gz && rm -r $$name
	$(BIN)/twine check --strict dist/*

audit: $(READY) ## a bill of materials, in dist/, and what advisories say of it
	mkdir -p dist
	$(BIN)/python .ci/audit.py dist/epochfence.cdx.json $(ARGS)

lock: | python ## the newest versions that pyproject.toml allows, with hashes, to requirements/
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip $(PIP_INSTALL) uv
	echo '$(SETUPTOOLS)' | $(COMPILE) --upgrade --extra all --output-file requirements/all.txt
	echo '$(SETUPTOOLS)' | $(COMPILE) --extra check --constraints requirements/all.txt \
	  --output-file requirements/check.txt
	rm -rf $(VENV)-lock

clean: ## remove what was built or cached, but for .venv
	rm -rf build dist site *.egg-info .fuzz .hypothesis .pytest_cache .ruff_cache $(VENV)-lock
	find . -name $(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The link is for type checkers: see [tool.pyright] in pyproject.toml.
$(READY_TO_CHECK): pyproject.toml setup.py requirements/check.txt | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) --require-hashes -r requirements/check.txt
	$(BIN)/pip $(INSTALL_OURSELVES)
	touch $@

$(READY): $(READY_TO_CHECK) requirements/all.txt
	$(BIN)/pip $(PIP_INSTALL) --require-hashes -r requirements/all.txt
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
