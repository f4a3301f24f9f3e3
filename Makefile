# Every command sets up what it needs: a virtual environment in .venv with the versions of requirements.txt, and an
# in-place build of the native part, which is incremental.
#
#   make demo      sets up, builds, and runs the examples (on the GPU if there is one)
#   make test      C++ and Python tests; TESTS=tests/gradients and PYTEST_ARGS="-x -k name" choose
#   make test-long the same with every case and the full counts of random programs; PART=gradients SHARE=1/2 is a part of it
#   make build     build only                make lint      format, lint and type checks; FIX=1 repairs what it can
#   make bench     benchmarks; QUICK=1       make sanitize  C++ tests under the address and undefined sanitizers; SANITIZER=thread
#   make wheel     a wheel in dist/          make clean     removes build products
#
# `make bench` leaves its results in out/benchmarks; QUICK=1 only checks that they can be made, BENCH="sqr gather" chooses.
# PYTHON=python3.12 chooses the interpreter. VENV=none uses PYTHON as it is, and installs nothing: for machines whose
# Python already has torch and the rest (SLANG_DIR and BOOST_DIR then say where those are, if not in Python packages).
PYTHON ?= python3
VENV ?= .venv
MAX_JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export MAX_JOBS

ifeq ($(VENV),none)
  PY := $(PYTHON)
  READY :=
else
  PY := $(VENV)/bin/python
  READY := $(VENV)/.ready
endif
# The package is used where it stands, whichever Python runs.
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))

BUILD = build/$(shell $(PY) -c "import sys; print(sys.implementation.cache_tag)")
TESTS ?= tests
# A worker takes neighbouring tests, which share modules: two that load one would wait for one compiler.
PYTEST_ARGS ?= -n $(MAX_JOBS) --dist worksteal
SANITIZER ?= address
SANITIZED = build/sanitize-$(SANITIZER)
CXX_FILES = $(shell git ls-files 'csrc/*.h' 'csrc/*.cpp' 'tests/*.cpp' 'examples/*.cpp' 'ops/*.cpp')

.PHONY: demo test test-long build setup lint bench sanitize wheel clean

setup: $(READY)

$(VENV)/.ready: requirements.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "torch_slang needs Python 3.11 or later")'
	# Python compiles what is imported; of torch that is a small part, so the install takes 20 s instead of 34.
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.txt
	$(VENV)/bin/python setup.py --quiet use_in_place
	touch $@

build: $(READY)
	$(PY) setup.py --quiet build_ext --inplace

demo: build
	$(PY) examples/quickstart.py
	$(PY) examples/gaussian_image_fit/fit.py
	$(PY) examples/photometric/fit.py
	$(PY) examples/forces/fit.py
	$(PY) examples/pinn/fit.py
	$(PY) examples/splatting/fit.py

test: build
	$(PY) setup.py --quiet build_cpp_tests
	TORCH_SLANG_CPP_TESTS=$(CURDIR)/$(BUILD)/tests $(PY) -m pytest $(PYTEST_ARGS) $(TESTS)

# A part is a folder of tests or some of its files, and a share every n-th of their tests (CONTRIBUTING.md lists them).
PART ?= .
SHARE ?= 1/1
test-long:
	TORCH_SLANG_LONG_TESTS=1 $(MAKE) test TESTS="$(addprefix tests/,$(PART))" \
		PYTEST_ARGS="$(PYTEST_ARGS) --timeout=7200 --share=$(SHARE)"

lint: $(READY)
	$(PY) -m ruff format $(if $(FIX),,--check) .
	$(PY) -m ruff check $(if $(FIX),--fix) .
	$(PY) -m mypy
	$(PY) scripts/check_includes.py
	$(PY) scripts/check_imports.py
	$(PY) scripts/check_sizes.py
	@echo clang-format $(words $(CXX_FILES)) files
	@$(VENV)/bin/clang-format --style=file $(if $(FIX),-i,--dry-run --Werror) $(CXX_FILES)

bench: build
	$(PY) -m benchmarks $(if $(QUICK),--quick,--output out/benchmarks) $(BENCH)

sanitize: $(READY)
	TORCH_SLANG_BUILD_DIR=$(SANITIZED) TORCH_SLANG_CMAKE_ARGS="-DTORCH_SLANG_SANITIZE=$(SANITIZER)" \
		$(PY) setup.py --quiet build_cpp_tests
	cd $(SANITIZED) && $(if $(filter thread,$(SANITIZER)),OMP_NUM_THREADS=1) $(abspath $(VENV))/bin/ctest --output-on-failure

wheel: $(READY)
	$(PY) -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .

clean:
	rm -rf build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf torch_slang/bin torch_slang/lib torch_slang/include torch_slang/share torch_slang/ops torch_slang/*.so
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
