# `make demo` and `make test` are the two commands of the README. Each target makes the environment it
# needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# $(COMPILED) has the package installed from a wheel, compiled; $(VENV) has the plain source.
COMPILED ?= $(VENV)-compiled
DATA   ?= .demo
SPEED  ?= 9000000

# Some hundreds of tests start a Python of their own, which without this compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
# What was compiled from the same C code before, here or in another clone, is not compiled again.
export PURGATORY_BUILD_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/timer-purgatory

.PHONY: test test-interpreted test-spark test-compiled test-tools test-another test-quick wheels demo check lint types imports core docs \
	test-all load simulate simulate-mutants mutants drill drill-controls bench release-check clean

# Two at a time: tests wait for threads and processes, and leave the cores idle meanwhile.
test:                          ## set everything up and run the tests, in both modes
	@$(MAKE) --no-print-directory -j2 $(COMPILED)/.test test-interpreted
	@$(MAKE) --no-print-directory -j2 test-compiled test-spark test-tools

# Processes that share the tests of a suite. Most tests wait for threads or for other processes, so
# more than there are cores pay.
WORKERS ?= 3
PYTEST = -m pytest $(if $(filter-out 0 1,$(WORKERS)),-n $(WORKERS) --dist $(or $(DIST),worksteal))

# Tests that start Java or run the commands of the pages, and those of what lies around the packages.
SPARK = tests/purgatory/spark tests/purgatory/cli/spark
TOOLS = tests/benchmarks tests/scripts tests/test_build.py $(wildcard tests/test_docs*.py) $(wildcard tests/test_*examples.py)
test-interpreted: $(VENV)/.test
	$(BIN)/python $(PYTEST) $(ARGS) $(addprefix --ignore=,$(SPARK) $(TOOLS))

# With it, each of some twenty Java processes takes about eight seconds less; without PySpark there is none.
$(VENV)/spark-classes.jsa: $(VENV)/.test
	! $(BIN)/python -c 'import pyspark' 2>/dev/null || $(BIN)/python -m tests.testing.java_classes $@

# Each process has a session of Spark, for as many tests as can use one; two fill two cores.
test-spark: WORKERS = 2
test-spark: DIST = loadfile
test-spark: $(VENV)/spark-classes.jsa
	$(BIN)/python $(PYTEST) -o cache_dir=.pytest_cache/spark $(SPARK)

test-tools: WORKERS = 2
test-tools: DIST = loadfile
test-tools: $(VENV)/spark-classes.jsa
	$(BIN)/python $(PYTEST) -o cache_dir=.pytest_cache/tools $(TOOLS)

# Another Python has other threads and event loops: the rooms with these, on the newest one of pyenv.
ANOTHER ?= $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python3)))
LOOPS = tests/purgatory/aio tests/purgatory/bus tests/purgatory/service/client tests/purgatory/service/worker tests/mq/test_asyncio.py
test-another:                  ## threads and event loops on a later Python, if pyenv has one
	$(if $(ANOTHER),$(MAKE) .venv-another/.test VENV=.venv-another PYTHON=$(ANOTHER),@echo "pyenv has no later Python")
	$(if $(ANOTHER),.venv-another/bin/python $(PYTEST) $(ARGS) $(LOOPS))

# What a change breaks most often, for the hand: without whole processes, worlds of seeds, models, floods,
# measured memory, and what is tried at each instruction.
SLOW = tests/simulation tests/test_mutants.py tests/test_generated_mutants.py tests/drill tests/postgres \
	tests/purgatory/cli tests/purgatory/testing tests/purgatory/service/gateway tests/purgatory/service/http \
	tests/purgatory/service/store/postgres tests/purgatory/service/store_copy tests/purgatory/trace/test_flights.py \
	$(addprefix tests/purgatory/service/cluster/test_,clients_of_servers.py cluster_daemon.py two_servers.py) \
	$(wildcard tests/purgatory/service/test_*.py)
SLOW_NAMES = *interrupts.py *interleavings.py *stress* *out_of_memory.py *_model.py *_exit.py *gevent.py *kill* \
	test_lanes.py test_sections.py test_dead_workers.py test_random_operations.py test_engine.py *_races.py \
	*memory.py test_gc_tracking.py test_flood_gates.py test_accept_gate.py test_unfinished_messages.py \
	test_standby_socket.py test_database_files.py test_spreads.py test_formats.py test_reader.py
test-quick: $(VENV)/.test      ## a part of the tests, in less than two minutes
	$(BIN)/python $(PYTEST) $(ARGS) $(addprefix --ignore=,$(SPARK) $(TOOLS) $(SLOW)) \
		$(patsubst %,--ignore-glob='*/%',$(SLOW_NAMES))

# The compiled modules, and what is built on them; what never touches a compiled module is tested
# interpreted alone. In a copy, because beside the source Python would import the source.
SUITE = tests/_purgatory_cpython tests/timingwheel tests/purgatory tests/mq tests/test_exports.py tests/test_docstrings.py \
	tests/test_examples.py tests/test_interpreters.py
NOT_COMPILED = tests/purgatory/spark tests/purgatory/trace tests/purgatory/cli tests/purgatory/journal \
	tests/purgatory/cron tests/purgatory/service/auth tests/purgatory/service/gateway tests/purgatory/service/http \
	tests/purgatory/service/store/postgres $(addprefix tests/mq/queues/test_,interleavings.py model.py) \
	$(addprefix tests/purgatory/test_,durable_files.py foreign_packages.py oracle.py printable.py version.py) \
	$(addprefix tests/purgatory/testing/world/test_,connection.py descriptors.py disk.py machine.py network.py process.py \
		queues.py sockets.py vfs.py world.py) \
	$(addprefix tests/purgatory/service/test_,config.py encoding.py errors.py exports.py job_messages.py \
		machine_memory.py platform.py portions.py process_metrics.py protocol.py) \
	$(addprefix tests/purgatory/service/client/route/test_,addresses.py scout.py) \
	$(addprefix tests/purgatory/service/cluster/test_,cluster_status.py heartbeat.py lease_watch.py \
		member.py standby_page.py store_lease.py store_report.py takeover.py) \
	$(addprefix tests/purgatory/service/store/sqlite/test_,migrations.py sqlite_errors.py)
test-compiled: $(COMPILED)/.test
	rm -rf build/suite && mkdir -p build/suite
	cp -a tests benchmarks docs examples README.md pyproject.toml build/suite
	cd build/suite && $(abspath $(COMPILED))/bin/python -c \
		"import timingwheel; assert timingwheel.COMPILED, 'not compiled: see what pip install -v says'"
	cd build/suite && $(abspath $(COMPILED))/bin/python $(PYTEST) $(ARGS) $(SUITE) \
		--deselect 'tests/test_examples.py::test_example_prints[spark_stream.py]' $(addprefix --ignore=,$(NOT_COMPILED))

load:                          ## a minute of mixed load on a server; nothing may grow
	PURGATORY_SECONDS=60 $(MAKE) --no-print-directory test-compiled WORKERS=1 SUITE=tests/purgatory/service/test_load.py

# What the service promises, in worlds made from seeds: see docs/simulation.md.
SEEDS ?= 100
FOR_LONG = $(if $(MINUTES),--minutes $(MINUTES) --fresh,--seeds $(SEEDS))
simulate: $(VENV)/.test        ## SEEDS worlds of the service, of steered jobs, of two servers, of threads
	$(BIN)/python -m tests.simulation $(FOR_LONG)
	$(BIN)/python -m tests.simulation --steered $(FOR_LONG)
	$(BIN)/python -m tests.simulation --cluster $(FOR_LONG)
	$(BIN)/python -m tests.simulation --inprocess $(FOR_LONG)

simulate-mutants: $(VENV)/.test  ## faults put in on purpose, each of which the simulation has to find
	$(BIN)/python -m tests.mutants $(ARGS)

# SAMPLE faults that nobody has thought of, by SEED: found by the tests of their modules, or in worlds.
SAMPLE ?= 60
SEED ?= 0
mutants: $(VENV)/.test         ## SAMPLE random faults, each of which tests or worlds have to find
	$(BIN)/python -m tests.mutants.generated --sample $(SAMPLE) --seed $(SEED) $(ARGS)

# Two servers over a PostgreSQL under FAULTS random faults; STANDBY=synchronous: its standby is promoted, too.
FAULTS ?= 20
drill: $(VENV)/.test           ## FAULTS real faults, by SEED, and books that must balance
	$(BIN)/python -m tests.drill --seed $(SEED) --faults $(FAULTS) --standby $(or $(STANDBY),none)

drill-controls: $(VENV)/.test  ## the same without one defence each: harm has to show
	$(BIN)/python -m tests.drill --control guard
	$(BIN)/python -m tests.drill --control fence
	$(BIN)/python -m tests.drill --control synchronous
	$(BIN)/python -m tests.drill.doubts

wheels:                        ## a wheel for each supported Python, in dist/
	scripts/wheels

demo:                          ## a year of real flights through the purgatory, and a report
	@MAKE='$(MAKE)' COMPILED=$(COMPILED) DATA=$(DATA) SPEED=$(SPEED) scripts/demo

check: lint types imports core docs test ## a part of what CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.types          ## the code, the examples as an editor sees them, the public names
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/python scripts/check_type_completeness.py

imports: $(VENV)/.test
	$(BIN)/lint-imports

docs: $(VENV)/.docs            ## the pages and the API reference as a site; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

core: $(COMPILED)/.wheel       ## the wheel for other machines, installed without any extra
	rm -rf $(COMPILED)/manylinux
	PYTHON=$(COMPILED)/bin/python scripts/manylinux $(COMPILED)/wheel/*.whl $(COMPILED)/manylinux
	PYTHON=$(abspath $(COMPILED))/bin/python scripts/check-core $(COMPILED)/manylinux/*.whl

release-check:                 ## what a release publishes, tried as a user would
	PYTHON=$(PYTHON) scripts/release-check

test-all:                      ## the suite on every supported Python, each in its own environment
	scripts/test-all

# MODE=interpreted measures the plain source, QUICK=1 takes minutes instead of half an hour. The page
# is build/bench/index.html. Runs in benchmarks/, or Python would import the source.
MODE ?= compiled
BENCH = $(if $(filter compiled,$(MODE)),$(COMPILED),$(VENV))
bench: $(VENV)/.bench $(COMPILED)/.bench  ## our speed beside our peers', as ratios
	cd benchmarks && $(abspath $(BENCH))/bin/python bench_all.py $(if $(QUICK),--quick) \
		--directory $(abspath build)/bench

PIP = -m pip --quiet --disable-pip-version-check

# One environment, with a stamp for each set of extras, renewed when pyproject.toml changes. `compat`
# puts the source on the path: setuptools' finder takes half of the start of each Python.
$(VENV)/.test: EXTRA = test
$(VENV)/.docs: EXTRA = docs
$(VENV)/.types: EXTRA = test,types
$(VENV)/.bench: EXTRA = bench
$(VENV)/.test $(VENV)/.docs $(VENV)/.types $(VENV)/.bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PURGATORY_PURE=1 $(BIN)/python $(PIP) install -e '.[$(EXTRA)]' --config-settings editable_mode=compat
	@touch $@

# Built once for all targets that use it, and again when anything in it changes.
PACKAGED = setup.py $(shell find scripts/compiling _purgatory_cpython timingwheel mq purgatory -type f -not -name '*.pyc' -not -name '*.so')
$(COMPILED)/bin/python:
	$(PYTHON) -m venv $(COMPILED)

$(COMPILED)/.wheel: pyproject.toml $(PACKAGED) | $(COMPILED)/bin/python
	PYTHON=$(COMPILED)/bin/python scripts/build-wheel $(COMPILED)/wheel
	@touch $@

# By force: the installed wheel may have the same version and be older.
INSTALL_WHEEL = $(COMPILED)/bin/python $(PIP) install --force-reinstall --no-deps $(COMPILED)/wheel/*.whl
$(COMPILED)/.test: EXTRA = test
$(COMPILED)/.bench: EXTRA = bench
$(COMPILED)/.test $(COMPILED)/.bench: $(COMPILED)/.wheel
	$(INSTALL_WHEEL)
	$(COMPILED)/bin/python $(PIP) install "$$(echo $(COMPILED)/wheel/*.whl)[$(EXTRA)]"
	@touch $@

# The demo needs some of what is installed before there is a wheel.
REQUIRED = import sys, tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	extras = project['optional-dependencies']; \
	print(*project['dependencies'], *(line for name in sys.argv[1:] for line in extras[name]), sep='\n')
$(COMPILED)/.trace: EXTRAS = demo
$(COMPILED)/.demo-requirements: EXTRAS = demo service spark
$(COMPILED)/.trace $(COMPILED)/.demo-requirements: pyproject.toml | $(COMPILED)/bin/python
	@echo "Installing what the demo needs ($(EXTRAS)) ..."
	@$(COMPILED)/bin/python -c "$(REQUIRED)" $(EXTRAS) | $(COMPILED)/bin/python $(PIP) install -r /dev/stdin
	@touch $@

$(COMPILED)/.demo: $(COMPILED)/.wheel $(COMPILED)/.demo-requirements
	$(INSTALL_WHEEL)
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist $(DATA) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
