# The two commands of the README are `make demo` and `make test`; both make and use .venv themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
DATA   ?= .demo
SPEED  ?= 4000000

.PHONY: test demo check lint types imports test-all bench clean

test: $(VENV)/.test            ## set everything up and run the tests
	$(BIN)/python -m pytest $(ARGS)

demo: $(VENV)/.demo            ## a year of real flights through the purgatory, and what they say
	$(BIN)/purgatory trace flights $(DATA)
	$(BIN)/purgatory replay $(DATA)/operations.parquet $(DATA)/events.parquet --outcomes $(DATA)/outcomes.parquet
	$(BIN)/purgatory replay $(DATA)/operations.parquet $(DATA)/events.parquet --speed $(SPEED)
	$(BIN)/purgatory spark report $(DATA) --html $(DATA)/report.html

check: lint types imports test ## everything that CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

test-all: test                 ## the suite on every supported Python, each in its own environment
	scripts/test-all 3.12 3.13

bench: $(VENV)/.bench          ## our speed beside our peers', as ratios
	$(BIN)/python benchmarks/bench_timer.py
	$(BIN)/python benchmarks/bench_purgatory.py
	$(BIN)/python benchmarks/bench_mq.py
	$(BIN)/python benchmarks/bench_bus.py
	$(BIN)/python benchmarks/bench_spark.py
	$(BIN)/python benchmarks/bench_spark_stream.py
	$(BIN)/python benchmarks/bench_spark_report.py
	$(BIN)/python benchmarks/bench_service.py

# One environment; a stamp a set of extras, renewed when pyproject.toml changes.
$(VENV)/.test: EXTRA = test
$(VENV)/.demo: EXTRA = trace,spark
$(VENV)/.bench: EXTRA = bench
$(VENV)/.test $(VENV)/.demo $(VENV)/.bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRA)]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-* $(DATA) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
