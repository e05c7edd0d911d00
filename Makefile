# What a person types. Everything else is `netrepro --help`.
PYTHON ?= python3
VENV   := .venv
READY  := $(VENV)/netrepro-ready
CORE   := $(shell find lib/core -name '*.cpp' -o -name '*.hpp')
# The installed library knows where each module is: a module that has become a package has to be told.
PARTS  := $(shell find lib/netrepro -name __init__.py)

COMMA := ,

# Made where there is what it is made of; else one line says what is missing, each time.
KERNEL := $(VENV)/netrepro-kernel

.PHONY: site web first run test test-all test-bare release paper sanitize sanitize-threads tidy wheels bench lab clean setup lint format lock strip

setup: $(READY)

# NEURAL=1 asks for PyTorch even where only the CUDA build (gigabytes) is to be had.
$(READY): lib/requirements.txt lib/pyproject.toml lib/CMakeLists.txt lib/bootstrap.py $(CORE) $(PARTS) $(if $(NEURAL),neural)
	@$(PYTHON) lib/bootstrap.py $(if $(NEURAL),--neural)

.PHONY: neural
neural:

$(KERNEL): $(READY) $(shell find lib/kernel -type f)
	@$(VENV)/bin/netrepro kernel build --if-possible
	@! $(VENV)/bin/netrepro kernel path >/dev/null 2>&1 || touch $@

# A first figure soon after `git clone`: a tenth of the packages, a core that is compiled quickly, one simulated paper.
first:
	@$(PYTHON) lib/bootstrap.py --first
	@$(VENV)/bin/python -m netrepro.workbench.notebook.first_figure

# The kernel compiles while notebooks run that do not need it.
run: $(READY)
	@$(VENV)/bin/netrepro run --build-kernel $(ARGS)

paper: $(READY)
	@$(VENV)/bin/netrepro run --build-kernel --profile paper $(ARGS)

# All runs that decide a claim, published and tagged: make release VERSION=0.3.0. Hours; it goes on where it stopped.
release: $(READY) $(KERNEL)
	@$(VENV)/bin/netrepro release $(VERSION) $(ARGS)

PYTEST := $(VENV)/bin/python -m pytest

# Networks in real time are tested with nothing beside them, as packets wait for a core otherwise. They alone are tested
# once more where they failed: other work may have held packets back. pytest names what it repeats.
REAL_TIME := lib/tests/emulation/real_time

# COVERAGE=1 counts which lines of these packages their own tests run in their own process. Python takes twice as long
# under its tracer: all other tests run without it.
COVERED := claims networks simulation traffic workbench
ON_ALL_CORES := --numprocesses auto --dist loadfile --no-loadscope-reorder
test: $(READY) $(KERNEL)
	@$(if $(COVERAGE),$(PYTEST) $(COVERED:%=lib/tests/%) $(ON_ALL_CORES) $(ARGS) $(COVERED:%=--cov=netrepro.%) --cov-report=)
	@$(PYTEST) lib/tests --ignore=$(REAL_TIME) $(if $(COVERAGE),$(COVERED:%=--ignore=lib/tests/%)) $(ON_ALL_CORES) $(ARGS)
	@$(PYTEST) $(REAL_TIME) $(ARGS) || $(PYTEST) $(REAL_TIME) $(ARGS) --verbose --last-failed --last-failed-no-failures none

# The same, with ten thousand random networks in the simulator in place of a hundred (ten minutes more), a hundred
# thousand arrivals at each replayed queue in place of seventeen hundred, and wheels that are installed into an empty
# environment.
test-all:
	@NETREPRO_WHOLE=1 NETREPRO_RANDOM_RUNS=10000 NETREPRO_REPLAY_ARRIVALS=100000 $(MAKE) --no-print-directory test

# As on a machine without the packages of binder/apt.txt and a virtual kernel: the tests that would use them.
BARE := $(addprefix lib/tests/,applications emulation guides papers $(addprefix workbench/test_,bootstrap.py doctor.py environment.py pages.py))
NOT_BARE := $(addprefix lib/tests/,emulation/real_time $(patsubst %,papers/test_%.py,bbr_equilibrium buffer_sizing_theory fperf_leaf_spine gmm_diagnosis gmm_traffic packet_split_leak repflow_model tcp_at_scale unbiased_experiments))
# With the kernel that `make run` builds and without the packages: the tests that look for programs.
LOOKING := $(addprefix lib/tests/,test_programs.py applications/test_bird.py applications/test_etcd.py emulation/test_overlay.py traffic/test_bench_traffic.py $(patsubst %,papers/test_%.py,cdn_routing misbehaving_receiver mptcp_wireless oncache))
test-bare: $(READY)
	@.ci/bare $(CURDIR)/$(PYTEST) $(BARE) $(NOT_BARE:%=--ignore=%) $(ON_ALL_CORES) $(ARGS)
	@! $(VENV)/bin/netrepro kernel path >/dev/null 2>&1 || .ci/bare --kernel $(CURDIR)/$(PYTEST) $(LOOKING) $(ON_ALL_CORES) $(ARGS)

# A core with assertions under sanitizers of the compiler's, in a folder: $(call sanitized,FOLDER,SANITIZERS).
define sanitized
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -S lib -B $(1) -G Ninja -DCMAKE_BUILD_TYPE=Debug -DNETREPRO_SANITIZE=$(2) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/bin/python \
	  -Dpybind11_DIR=$$($(VENV)/bin/python -m pybind11 --cmakedir) >/dev/null
	@$(VENV)/bin/cmake --build $(1) >$(1)/build.log || { tail -20 $(1)/build.log; exit 1; }
endef
# What a program loads before all else: sanitizers' libraries.
preloaded = LD_PRELOAD="$$($(CXX) -print-file-name=$(1)) $$($(CXX) -print-file-name=libstdc++.so)"

# The core's tests under the address and undefined-behaviour sanitizers. Python itself leaks.
SANITIZED := lib/build/sanitized
SANITIZED_TESTS := lib/tests/simulation lib/tests/dummynet lib/tests/queueing
sanitize: $(READY) sanitize-threads
	$(call sanitized,$(SANITIZED),address$(COMMA)undefined)
	@NETREPRO_RANDOM_RUNS=100 NETREPRO_CORE=$$(ls $(SANITIZED)/_core.*.so) ASAN_OPTIONS=detect_leaks=0 \
	  $(call preloaded,libasan.so) $(VENV)/bin/python -m pytest $(SANITIZED_TESTS) --numprocesses auto $(ARGS)

# Sweeps by threads, and simulations on several cores, under the thread sanitizer. Python itself is not watched, only
# its locks are.
THREADED := lib/build/threads
THREADED_TESTS := lib/tests/simulation/test_threads.py lib/tests/simulation/test_cores.py
sanitize-threads: $(READY)
	$(call sanitized,$(THREADED),thread)
	@NETREPRO_RANDOM_RUNS=20 NETREPRO_CORE=$$(ls $(THREADED)/_core.*.so) TSAN_OPTIONS=halt_on_error=1 \
	  $(call preloaded,libtsan.so) $(VENV)/bin/python -m pytest $(THREADED_TESTS) --numprocesses 0 $(ARGS)

# Wheels and source archives of the library and of the kernel, and the kernel's source beside them: lib/dist.
wheels: $(READY) $(KERNEL)
	@$(VENV)/bin/python lib/wheels.py $(ARGS)

# The gallery with live pages, as GitHub Pages shows it. Where Emscripten is not installed, apt fetches it into your
# cache, as yourself; where that cannot be, one line says so and pages stay still.
site: $(READY)
	@$(VENV)/bin/netrepro gallery --into site --live $(ARGS)

# The npm package netrepro-web.
web: $(READY)
	@$(VENV)/bin/netrepro web --into lib/dist/netrepro-web $(ARGS)

bench: $(READY) $(KERNEL)
	@cd lib && ../$(VENV)/bin/python -m benchmarks $(ARGS)

lab: $(READY) $(KERNEL)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/jupyter lab --notebook-dir=. \
	  --ServerApp.contents_manager_class=netrepro.workbench.catalogue.lab_contents.OutputsAside $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_start_here.ipynb $(ARGS)

lint: $(READY)
	@$(VENV)/bin/ruff check lib && $(VENV)/bin/ruff format --check lib && cd lib && ../$(VENV)/bin/mypy
	@$(VENV)/bin/clang-format --dry-run --Werror $(CORE)

# What clang-tidy finds in the core (minutes, and 45 MB that nothing else needs).
TIDY := $(VENV)/tidy
$(TIDY): lib/requirements-tidy.txt
	@rm -rf $@
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --target $@ --requirement $<
	@touch $@

tidy: $(READY) $(TIDY)
	@printf '%s\n' $(filter-out lib/core/bindings/% lib/core/web/exports.cpp,$(filter %.cpp,$(CORE))) | PYTHONPATH=$(TIDY) xargs -P $$(nproc) -I {} \
	  $(TIDY)/bin/clang-tidy --quiet {} -- -std=c++20 -Ilib/core

format: $(READY)
	@$(VENV)/bin/ruff format lib && $(VENV)/bin/clang-format -i $(CORE)

strip: $(READY)
	@$(VENV)/bin/python -m netrepro.workbench.catalogue.settings_cells
	@$(VENV)/bin/python lib/netrepro/workbench/catalogue/clean_notebook.py notebooks/*.ipynb

# Every file that may be installed has its hash there, and the set-up installs no other.
LOCKED := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock: $(READY)
	@cd lib && ../$(VENV)/bin/uv $(LOCKED) --extra notebooks --extra ml --extra verification --extra capture --group develop --output-file requirements.txt pyproject.toml
	@cd lib && ../$(VENV)/bin/uv $(LOCKED) --constraint requirements.txt --group first --output-file requirements-first.txt pyproject.toml
	@cd lib && ../$(VENV)/bin/uv $(LOCKED) --group tidy --output-file requirements-tidy.txt
	@cd lib && ../$(VENV)/bin/uv $(LOCKED) --group web --output-file requirements-web.txt

# runs/ holds what cannot be made again in minutes: a person's own runs, and grades.
clean:
	@for each in $(VENV) runs lib/build lib/dist; do if [ -e "$$each" ]; then du -sh "$$each" | sed 's/^/removed: /'; fi; done
	@if [ -d runs ]; then echo "runs/ held your own runs and grades: $$(find runs -name status.json | wc -l) runs"; fi
	@rm -rf $(VENV) runs lib/build lib/dist
