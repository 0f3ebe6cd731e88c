# The two commands of the README are `make demo` and `make test`; both make and use .venv themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# Where the package is installed as wheel users have it, compiled; $(VENV) has the plain source.
COMPILED ?= $(VENV)-compiled
DATA   ?= .demo
SPEED  ?= 4000000

.PHONY: test test-interpreted test-compiled wheels demo check lint types imports core docs test-all \
	bench clean

test: test-interpreted test-compiled  ## set everything up and run the tests, in both modes

test-interpreted: $(VENV)/.test
	$(BIN)/python -m pytest $(ARGS)

# What is compiled, and what is built on it. In a copy: beside the source the source would be tested.
SUITE = tests/timingwheel tests/purgatory tests/mq tests/test_exports.py tests/test_docstrings.py \
	tests/test_examples.py
test-compiled: $(COMPILED)/.test
	rm -rf build/suite && mkdir -p build/suite
	cp -r tests benchmarks docs examples README.md pyproject.toml build/suite
	cd build/suite && $(abspath $(COMPILED))/bin/python -c \
		"import timingwheel; assert timingwheel.COMPILED, 'not compiled: see what pip install -v says'"
	cd build/suite && $(abspath $(COMPILED))/bin/python -m pytest $(ARGS) $(SUITE) \
		--deselect 'tests/test_examples.py::test_example_prints[spark_stream.py]' \
		--ignore=tests/purgatory/spark --ignore=tests/purgatory/trace \
		--ignore=tests/purgatory/cli/spark

wheels:                        ## a wheel for each supported Python, in dist/
	scripts/wheels 3.11 3.12 3.13

demo: $(VENV)/.demo            ## a year of real flights through the purgatory, and what they say
	$(BIN)/purgatory trace flights $(DATA)
	$(BIN)/purgatory replay $(DATA)/operations.parquet $(DATA)/events.parquet --outcomes $(DATA)/outcomes.parquet
	$(BIN)/purgatory replay $(DATA)/operations.parquet $(DATA)/events.parquet --speed $(SPEED)
	$(BIN)/purgatory spark report $(DATA) --html $(DATA)/report.html

check: lint types imports core docs test ## everything that CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

docs: $(VENV)/.docs            ## the pages and the API reference as a site; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

core: $(COMPILED)/.wheel       ## use it as installed without any extra
	scripts/check-core $(COMPILED)/wheel/*.whl

test-all: test                 ## the suite on every supported Python, each in its own environment
	scripts/test-all 3.12 3.13

# MODE=interpreted measures the plain source, QUICK=1 takes minutes instead of half an hour. The page
# is build/bench/index.html. In benchmarks/, or the source would be imported.
MODE ?= compiled
BENCH = $(if $(filter compiled,$(MODE)),$(COMPILED),$(VENV))
bench: $(VENV)/.bench $(COMPILED)/.bench  ## our speed beside our peers', as ratios
	cd benchmarks && $(abspath $(BENCH))/bin/python bench_all.py $(if $(QUICK),--quick) \
		--directory $(abspath build)/bench

PIP = -m pip --quiet --disable-pip-version-check

# One environment; a stamp a set of extras, renewed when pyproject.toml changes.
$(VENV)/.test: EXTRA = test
$(VENV)/.demo: EXTRA = trace,spark
$(VENV)/.docs: EXTRA = docs
$(VENV)/.bench: EXTRA = bench
$(VENV)/.test $(VENV)/.demo $(VENV)/.docs $(VENV)/.bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PURGATORY_PURE=1 $(BIN)/python $(PIP) install -e '.[$(EXTRA)]'
	@touch $@

# Built once for all who want it, and anew when anything in it changes.
PACKAGED = setup.py build_docstrings.py $(shell find timingwheel mq purgatory -type f -not -name '*.pyc' -not -name '*.so')
$(COMPILED)/.wheel: pyproject.toml $(PACKAGED)
	test -x $(COMPILED)/bin/python || $(PYTHON) -m venv $(COMPILED)
	rm -rf build/lib* build/bdist* build/temp* $(COMPILED)/wheel
	$(COMPILED)/bin/python $(PIP) wheel --no-deps --wheel-dir $(COMPILED)/wheel .
	@touch $@

# By force: what is installed may be of the same version, and built before.
$(COMPILED)/.test $(COMPILED)/.bench: EXTRA = $(subst .,,$(@F))
$(COMPILED)/.test $(COMPILED)/.bench: $(COMPILED)/.wheel
	$(COMPILED)/bin/python $(PIP) install --force-reinstall --no-deps $(COMPILED)/wheel/*.whl
	$(COMPILED)/bin/python $(PIP) install "$$(echo $(COMPILED)/wheel/*.whl)[$(EXTRA)]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist $(DATA) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
