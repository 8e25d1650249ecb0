# Everything runs inside .venv, which is made on first use with Python, make and nothing else.
#
#   make demo     the two-minute story            make lint    style, types, layers, spelling
#   make test     lint and every test             make docs    the documentation, warnings are errors
#   make bench    short benchmarks                make clean   remove what the above made (not .venv)
#   make test-oldest     the core with the oldest libraries that are allowed
#   make coverage        every test once more, and the share of the lines that it runs (TESTS=tests/linalg for a part)
#   make fuzz            mutated files of everything that is read, for a minute (SECONDS=600 SEED=7 for more)
#   make house           the rules of the source tree, each with its number
#   make release-check   could the tree be released? Nothing is tagged or uploaded

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
FULL := $(VENV)/.installed-full
DEMO := $(VENV)/.installed-demo
comma := ,

# The demo needs little; if the full environment is there already it is used as it is.
DEMO_STAMP := $(if $(wildcard $(FULL)),$(FULL),$(DEMO))

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest lint unit docs bench coverage fuzz house release-check clean distclean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(DEMO_STAMP)
	$(BIN)/planted demo

# Side by side: type checking keeps one core busy and leaves the other idle.
test: $(FULL)
	$(MAKE) --jobs 2 --output-sync=none lint unit

lint: $(FULL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# One thread per worker: the workers share the cores.
unit: $(FULL)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What a user with the oldest libraries that pyproject.toml allows has: an environment of its own, without the heavy extras.
# Polars is left out: scikit-learn 1.6 does not read the column names of its frames of today.
OLDEST := .venv-oldest
OLD_TESTS := tests/recovery/test_front_door.py tests/estimators/test_estimators_in_sklearn.py tests/pathology/test_bad_files.py \
    tests/pathology/test_bad_input_arrays.py tests/io/tables/test_tables.py tests/io/networks/test_save_load.py tests/linalg/test_highs.py \
    tests/networks/test_classes.py tests/rows/test_rows.py tests/rows/test_passes.py \
    tests/moments/test_algebra.py tests/linalg/test_relu_programs.py tests/linalg/test_low_rank_sparse.py \
    tests/linalg/test_steps.py tests/linalg/test_shared_terms.py
test-oldest: pyproject.toml constraints-oldest.txt
	@$(OLDEST)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
	    -e ".[files,report]" "pytest>=8,<9.2" pytest-timeout pytest-xdist hypothesis psutil pandas polars threadpoolctl
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n $(WORKERS) -k "not polars" $(OLD_TESTS)

docs: $(FULL)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(FULL)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/run.py --quick

# The number is stored when every test was run; a part of the tests is only printed.
TESTS :=
coverage: $(FULL)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python benchmarks/tested_lines.py \
	    --write --workers $(WORKERS) $(if $(TESTS),--tests $(TESTS))

# The seed of the minute in CI and every file that once failed are stored in tests/pathology/fuzz_seeds.json.
SECONDS := 60
SEED :=
fuzz: $(FULL)
	OMP_NUM_THREADS=1 $(BIN)/python tests/pathology/mutations.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

house: $(FULL)
	$(BIN)/python benchmarks/house.py

release-check: $(FULL)
	$(BIN)/python .ci/release_check.py

clean:
	rm -rf build dist docs/_build docs/generated docs/gallery docs/sg_execution_times.rst mutants
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(OLDEST)

# The stamps are removed before the installation starts and one is written after it ends: an interrupted one is done again.
# An environment without a working pip (interrupted, or moved from another place) is made anew.
define install
	@rm -f $(FULL) $(DEMO)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "planted needs Python 3.11 or newer; $(PYTHON) is not. Set PYTHON=/path/to/python3.11"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing planted into $(VENV); this happens once and takes a minute or two ..."
	$(INSTALL) -e "$(1)"
	@touch $@
endef

$(FULL): pyproject.toml constraints.txt
	$(call install,.[all$(comma)dev$(comma)docs])

$(DEMO): pyproject.toml constraints.txt
	$(call install,.[report])
