# The two commands a newcomer needs are `make demo` and `make test`; `make help` lists the rest.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .uv/bin/uv
BIN := .venv/bin
STAMP := .venv/.installed
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-header

# GX and Airflow would otherwise be free to call home.
export GX_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
# Where this is set, every process compiles every module it imports: half of a start of Airflow or of a Dask worker.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo ui test quick faults fuzz simulate containers toolkits lint ruff format bench bench-gate bench-netflix \
	bench-many-items bench-roofline bench-billion bench-page \
	compare soak sbom audit lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Compiled kernels are shared by all processes; without this step each of the first processes would compile its own.
setup: $(STAMP)  ## install everything into .venv and compile the kernels (quick when nothing changed)
	@$(BIN)/python -m tasks.stack.warm_kernels

demo: setup  ## start the embedded stack, publish three monthly snapshots by a backfill, leave nothing running
	@exec $(BIN)/python -m tasks.stack demo

ui: setup  ## the same stack in the foreground, Airflow on 127.0.0.1:8080, until Ctrl-C
	@exec $(BIN)/python -m tasks.stack ui

# Whole files go to one process, so that what a file shares is made once; tests/conftest.py says in which order.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

# One of the three processes waits for the stack most of the time, so there is time for mypy beside them.
test: setup ruff  ## the linters and every test, with branch coverage of at least 90 % (20 minutes with real data)
	@exec $(PYTEST) --numprocesses 3 --cov --cov-report=term -p tests.beside --beside=$(BIN)/mypy

quick: setup  ## the tests that need neither the stack nor real data nor seconds (2 minutes)
	@exec $(PYTEST) --numprocesses 2 -m "not slow and not stack and not data"

FAULTS := MURMUR_FAULT_KILLS=200 MURMUR_FAULT_RACES=50

# Every part runs, whatever the others found. KINDS names parts of the second.
faults: setup  ## faults of real processes, disks, networks and clocks: the table of docs/reliability.md (as root, an hour)
	@failed=0; \
	$(FAULTS) $(PYTEST) --numprocesses 2 tests/tasks/series/test_publication.py \
		tests/tasks/series/test_shared_ledger.py || failed=1; \
	$(BIN)/python -m benchmarks.faults $(KINDS) || failed=1; exit $$failed

N ?= 100000
SIMULATE := $(BIN)/python -m tests.simulation

simulate: setup  ## N=100000 schedules of publishers, eraser and crashes on a simulated machine; SEED=17 repeats one
	@exec $(SIMULATE) $(if $(SEED),--seed $(SEED),--schedules $(N) --processes $$(nproc) \
		--json $(RESULTS)/simulation.json)

containers: setup  ## build the image, run docker/compose.yaml with Docker or Podman, publish, attack it, remove all (15 minutes)
	@exec $(BIN)/python -m docker.run_topology

MINUTES ?= 20

# Where there is no wheel of atheris, inputs are mutated blindly, without the guidance of coverage.
fuzz: setup  ## hostile input for every reader of files, guided by coverage (MINUTES=20): table and findings in build/fuzz
	@$(UV) pip install --quiet --python $(BIN)/python --only-binary :all: --require-hashes \
		--requirement tests/hostile/requirements.txt || echo 'make: no atheris here; mutating blindly'
	@exec $(BIN)/python -m tests.hostile.campaign --minutes $(MINUTES)

# RecBole needs older packages than the others, so it has an environment of its own.
TOOLKITS := $(CURDIR)/.toolkits

toolkits: setup  ## releases in LensKit, Surprise, RecBole, implicit and mlcroissant; the notebook (6 GB of packages)
	@for name in toolkits recbole; do \
		$(UV) venv --quiet --allow-existing --python $(BIN)/python $(TOOLKITS)/$$name && \
		$(UV) pip sync --quiet --python $(TOOLKITS)/$$name/bin/python --require-hashes docs/examples/$$name.lock || exit 1; \
	done
	@MURMUR_TOOLKITS=$(TOOLKITS) exec $(BIN)/python -m pytest -n 0 tests/docs/test_toolkits.py

lint: ruff  ## ruff and mypy
	$(BIN)/mypy

ruff: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)  ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every part runs, whatever the others found; any bar missed fails the target.
RESULTS := benchmarks/results

bench: setup  ## kernels, attacks and growth side by side with their peers (minutes)
	@failed=0; \
	$(BIN)/python -m benchmarks.kernels --json $(RESULTS)/kernels.json || failed=1; \
	$(BIN)/python -m benchmarks.mdav --json $(RESULTS)/mdav.json || failed=1; \
	$(BIN)/python -m benchmarks.attacks --json $(RESULTS)/attacks.json || failed=1; \
	$(BIN)/python -m benchmarks.growth --workers 1,2 --json $(RESULTS)/growth.json || failed=1; \
	$(MAKE) --no-print-directory bench-page; exit $$failed

bench-netflix: setup  ## every stage at Netflix's size, with peers; NETFLIX="--data DIR --store DIR" for its options
	@failed=0; $(BIN)/python -m benchmarks.netflix $(NETFLIX) || failed=1; $(MAKE) --no-print-directory bench-page; exit $$failed

bench-gate: setup  ## cost of each check at Netflix's size, a flame chart each in build/gate; GATE="--data DIR --store DIR --k 50"
	@exec $(BIN)/python -m benchmarks.gate --flame build/gate $(GATE)

bench-many-items: setup  ## two catalogues with many more items than people, stage by stage; MANY="--shapes 7k" for its options
	@exec $(BIN)/python -m benchmarks.many_items $(MANY)

bench-roofline: setup  ## the stages against the bandwidth and the arithmetic of one core, at a tenth of Netflix's size
	@exec $(BIN)/python -m benchmarks.roofline $(ROOFLINE)

bench-billion: setup  ## up to 10⁹ ratings of 4.8 million people (a day, 65 GB); BILLION="--users 192000 --doublings 2"
	@exec $(BIN)/python -m benchmarks.billion $(BILLION)

bench-page: setup  ## docs/benchmarks.md and its plots, from benchmarks/results
	@$(BIN)/python -m benchmarks.page

compare: setup  ## every method on MovieLens 1M (in MURMUR_DATA): docs/compare.md and its plot (half an hour)
	@exec $(BIN)/python -m benchmarks.compare

soak: setup  ## publish a small population 200 times, plot memory, files, ledger and CPU time: docs/soak.svg (5 minutes)
	@$(BIN)/python -m benchmarks.soak --plot docs/soak.svg

sbom: setup  ## build/sbom.json: every package of the image with its hashes, in the format CycloneDX
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements docker/requirements.lock --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file build/sbom.json

# --strict: a package that could not be looked up is no package without vulnerabilities.
audit: setup  ## look up known vulnerabilities of all locked packages (needs the advisories of the package index)
	$(BIN)/pip-audit --requirement requirements.lock --no-deps --disable-pip --strict

# setuptools builds the project itself; locking it too means that nothing unhashed is ever installed.
lock: $(UV)  ## pin every dependency with hashes, for development and for the image
	printf 'setuptools>=77\n' | $(COMPILE) --all-extras pyproject.toml - --output-file requirements.lock
	printf 'setuptools>=77\n' | $(COMPILE) --extra airflow --extra s3 --constraint requirements.lock pyproject.toml - \
		--output-file docker/requirements.lock
	for name in toolkits recbole; do $(COMPILE) docs/examples/$$name.in --output-file docs/examples/$$name.lock; done

clean:  ## remove the environment, the stack's state and all caches; never the store
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m tasks.stack clean; fi
	rm -rf .venv .uv .toolkits .stack build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "make: Python 3.11, 3.12 or 3.13 is needed; choose one with: make PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -m venv .uv || { echo "make: Python's venv module is missing (on Debian: apt install python3-venv)"; exit 2; }
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# The project's own lines in pyproject.toml (its scripts) make it a prerequisite beside the lock.
$(STAMP): requirements.lock pyproject.toml | $(UV)
	@echo 'installing packages into .venv, once for this version (a minute or two) …'
	@[ -x $(BIN)/python ] || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
