# Every target sets up what it needs in .venv: python, make and a C++ compiler are all that the machine must have.
#
#   make demo    generate data, fit, transform, check, plot, report; everything under demo-output/
#   make test    the test suite, with the compiled kernels and then with their NumPy twins
#   make test-processors   the same as other processors run it: with each of OpenBLAS' kernels that this one can run
#   make test-oldest   the suite with the oldest versions that pyproject.toml allows; they are installed in build/oldest
#   make test-aarch64   the kernels compiled for aarch64 and tested in qemu; needs Debian's g++-aarch64-linux-gnu and
#                qemu-user-static, and says so where they are missing
#   make sanitize   the tests of the kernels and the data under AddressSanitizer and UBSan, then concurrent fits under
#                ThreadSanitizer; builds of their own in build/sanitize; SANITIZE_ARGS are arguments for pytest
#   make lint    ruff and mypy
#   make docs    the documentation site, in build/docs/html: tutorials run, warnings are errors
#   make fuzz    certificates of nasty matrices against the truth, then damaged files and bad options, half of FUZZ_SECONDS
#                each (300 by default); FUZZ_SEED is a number, another one for each run by default; both print how to run
#                a failing case again
#   make bench   the benchmark of the foundations, then the quick set against the peers; pages under bench-output/;
#                VRPCA_DATA is the folder with real data sets, where there are any
#   make clean   remove .venv, builds and outputs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(wildcard src/vrpca/kernels/native/*)
OLDEST := build/oldest
SANITIZE := build/sanitize
FUZZ_SECONDS ?= 300
FUZZ_SEED := $(or $(FUZZ_SEED),$(shell date +%s))
# Here a kernel that does not compile is an error, not a reason to do without compiled kernels.
export VRPCA_REQUIRE_NATIVE := 1
export VRPCA_DATA ?= ../shared/data

.PHONY: demo test test-processors test-oldest test-aarch64 sanitize lint docs fuzz bench clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# One BLAS thread per worker: the workers fill the cores already.
test: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto
	OPENBLAS_NUM_THREADS=1 VRPCA_KERNELS=reference $(BIN)/python -m pytest -n auto -m reference

test-processors: $(STAMP)
	$(BIN)/python tests/processors.py

# Old versions may warn of what was deprecated after them.
test-oldest: $(OLDEST)/.installed
	OPENBLAS_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n auto -W ignore::DeprecationWarning

test-aarch64:
	$(PYTHON) tests/native/targets.py aarch64

sanitize: $(SANITIZE)/bin/python
	$(SANITIZE)/bin/python tests/sanitize.py $(SANITIZE_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tutorials run with one BLAS thread: their matrices are small. -E reads all pages again, so that every warning shows.
docs: $(VENV)/.docs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -E -d build/docs/doctrees docs build/docs/html

# The second part runs whatever the first one found.
fuzz: $(STAMP)
	@half=$$(($(FUZZ_SECONDS) / 2)); failed=0; \
	for harness in fuzz_certificates fuzz_inputs; do \
	  $(BIN)/python benchmarks/$$harness.py --seconds $$half --seed $(FUZZ_SEED) || failed=1; \
	done; exit $$failed

# PRIMME takes part if it is installed in .venv; it has to be compiled, so that is left to the user.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python benchmarks/foundation.py
	rm -rf bench-output
	$(BIN)/vrpca bench --out bench-output

clean:
	rm -rf docs/auto_tutorials docs/auto_gallery docs/sg_execution_times.rst docs/reference/command-line.md
	rm -rf $(VENV) build dist demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The install is editable, so changed Python files need nothing; what is compiled, what pip reads, and new files call for a
# new one. The tools to build with stay in the environment, so that CMake compiles only what has changed.
$(STAMP): pyproject.toml CMakeLists.txt $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet scikit-build-core nanobind cmake ninja
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation \
	  --editable ".[test,test-anndata,lint]"
	@touch $@

$(VENV)/.docs: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[docs]"
	@touch $@

# The versions to build with are the oldest ones, too: pip reads PIP_BUILD_CONSTRAINT for those, or PIP_CONSTRAINT if it
# is older than 25.3.
$(OLDEST)/.installed: pyproject.toml CMakeLists.txt tests/oldest.py $(NATIVE) | $(OLDEST)/bin/python
	$(OLDEST)/bin/python tests/oldest.py > $(OLDEST)/constraints.txt
	PIP_CONSTRAINT=$(OLDEST)/constraints.txt PIP_BUILD_CONSTRAINT=$(OLDEST)/constraints.txt \
	  $(OLDEST)/bin/python -m pip install --quiet --config-settings=build-dir=$(OLDEST)/cmake --editable ".[test]"
	@touch $@

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "vrpca needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1):" \
	    "run 'make PYTHON=/path/to/python3.11 ...'." >&2; exit 1; }
	$(PYTHON) -m venv $*
	$@ -m pip install --quiet --upgrade pip
