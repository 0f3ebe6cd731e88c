# `make demo` and `make test` are the two commands of the README. Each target makes the environment it
# needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# $(COMPILED) has the package installed from a wheel, compiled; $(VENV) has the plain source.
COMPILED ?= $(VENV)-compiled
DATA   ?= .demo
SPEED  ?= 4000000

.PHONY: test test-interpreted test-spark test-compiled test-tools wheels demo check lint types imports core docs test-all \
	simulate simulate-mutants bench clean

# With `make -j2 test` two of these run at a time; in this order both end at about the same time.
test: test-spark test-compiled test-interpreted test-tools  ## set everything up and run the tests, in both modes

# Tests that start Java or run the commands of the pages, and those of what lies around the packages.
SPARK = tests/purgatory/spark tests/purgatory/cli/spark tests/test_docs.py
TOOLS = tests/benchmarks tests/scripts tests/test_build.py $(wildcard tests/test_*examples.py)
test-interpreted: $(VENV)/.test
	$(BIN)/python -m pytest $(ARGS) $(addprefix --ignore=,$(SPARK) $(TOOLS))

test-spark: $(VENV)/.test
	$(BIN)/python -m pytest -o cache_dir=.pytest_cache/spark $(SPARK)

test-tools: $(VENV)/.test
	$(BIN)/python -m pytest -o cache_dir=.pytest_cache/tools $(TOOLS)

# The compiled modules, and what is built on them. In a copy, because beside the source Python would
# import the source.
SUITE = tests/_purgatory_cpython tests/timingwheel tests/purgatory tests/mq tests/simulation tests/test_exports.py tests/test_docstrings.py \
	tests/test_examples.py tests/test_interpreters.py
test-compiled: $(COMPILED)/.test
	rm -rf build/suite && mkdir -p build/suite
	cp -r tests benchmarks docs examples README.md pyproject.toml build/suite
	cd build/suite && $(abspath $(COMPILED))/bin/python -c \
		"import timingwheel; assert timingwheel.COMPILED, 'not compiled: see what pip install -v says'"
	cd build/suite && $(abspath $(COMPILED))/bin/python -m pytest $(ARGS) $(SUITE) \
		--deselect 'tests/test_examples.py::test_example_prints[spark_stream.py]' \
		--ignore=tests/purgatory/spark --ignore=tests/purgatory/trace \
		--ignore=tests/purgatory/cli/spark --ignore=tests/mq/queues/test_model.py

# What the service promises, in worlds made from seeds: see docs/simulation.md.
SEEDS ?= 100
FOR_LONG = $(if $(MINUTES),--minutes $(MINUTES) --fresh,--seeds $(SEEDS))
simulate: $(VENV)/.test        ## SEEDS simulated worlds of the service, and as many of threads
	$(BIN)/python -m tests.simulation $(FOR_LONG)
	$(BIN)/python -m tests.simulation --inprocess $(FOR_LONG)

simulate-mutants: $(VENV)/.test  ## faults put in on purpose, each of which the simulation has to find
	$(BIN)/python -m tests.mutants $(ARGS)

wheels:                        ## a wheel for each supported Python, in dist/
	scripts/wheels

# The page is told with its whole path; -P, or Python would import the source that lies here.
DEMO = $(COMPILED)/bin/purgatory
TABLES = $(DATA)/operations.parquet $(DATA)/events.parquet
demo: $(COMPILED)/.demo        ## a year of real flights through the purgatory, and a report
	@$(COMPILED)/bin/python -P -c "import timingwheel; print('This is', \
		'the compiled package.' if timingwheel.COMPILED else 'plain Python: nothing could be compiled.')"
	@printf '\nA year of flights out of New York, each an operation that waits for its arrival:\n'
	$(DEMO) trace flights $(DATA)
	@printf '\nIn virtual time, as quickly as it goes:\n'
	$(DEMO) replay $(TABLES) --outcomes $(DATA)/outcomes.parquet
	@printf '\nIn real time, %s seconds of the year a second:\n' $(SPEED)
	$(DEMO) replay $(TABLES) --speed $(SPEED)
	@printf '\nA report, by Spark; its start takes some seconds:\n'
	$(DEMO) spark report $(DATA) --html $(DATA)/report.html
	@printf '\nThe report is a page, too: %s\n' $(abspath $(DATA))/report.html
	@printf 'Next: docs/tutorial.md, or the durable service with its live page:\n  %s serve\n' $(DEMO)

check: lint types imports core docs test ## everything that CI runs

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

# One environment, with a stamp for each set of extras, renewed when pyproject.toml changes.
$(VENV)/.test: EXTRA = test
$(VENV)/.docs: EXTRA = docs
$(VENV)/.types: EXTRA = test,types
$(VENV)/.bench: EXTRA = bench
$(VENV)/.test $(VENV)/.docs $(VENV)/.types $(VENV)/.bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PURGATORY_PURE=1 $(BIN)/python $(PIP) install -e '.[$(EXTRA)]'
	@touch $@

# Built once for all targets that use it, and again when anything in it changes.
PACKAGED = setup.py $(shell find scripts/compiling _purgatory_cpython timingwheel mq purgatory -type f -not -name '*.pyc' -not -name '*.so')
$(COMPILED)/.wheel: pyproject.toml $(PACKAGED)
	test -x $(COMPILED)/bin/python || $(PYTHON) -m venv $(COMPILED)
	rm -rf build/lib* build/bdist* build/temp* $(COMPILED)/wheel
	@echo "compiling the package, if there is a C compiler: some minutes, once"
	$(COMPILED)/bin/python $(PIP) wheel --no-deps --wheel-dir $(COMPILED)/wheel .
	@touch $@

# By force: the installed wheel may have the same version and be older.
$(COMPILED)/.test: EXTRA = test
$(COMPILED)/.bench: EXTRA = bench
$(COMPILED)/.demo: EXTRA = trace,service,spark
$(COMPILED)/.test $(COMPILED)/.bench $(COMPILED)/.demo: $(COMPILED)/.wheel
	$(COMPILED)/bin/python $(PIP) install --force-reinstall --no-deps $(COMPILED)/wheel/*.whl
	$(COMPILED)/bin/python $(PIP) install "$$(echo $(COMPILED)/wheel/*.whl)[$(EXTRA)]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist $(DATA) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
