# make run        the server answers a question, and stays until Ctrl-C on a terminal (models are fetched on first use)
# make test       linters, types, the fast tests, one real model of each kind, and the page in a browser: 15 minutes
# make test-all   that, and the slow tests, all real weights, sanitizers, and tests that run alone: 30 minutes
# make lint       linters and types
# make soak       random and long tests for MINUTES (20 by default), which neither command runs
# make sanitize   the native operations' tests under AddressSanitizer and UndefinedBehaviorSanitizer
# make wheel      the source archive and a wheel for this machine, in the folder DIST (dist by default)
#
# TORCH=cpu or TORCH=cuda chooses the build of PyTorch; by default it is cuda where there is an NVIDIA driver.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS ?=
PORT ?= 8000
TORCH ?= auto
MINUTES ?= 20
DIST ?= dist

# What a stamp's installation was made from; Python files of an editable one are read in place.
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(wildcard csrc/*/*)
PACKAGE := $(shell find src -name '*.py' -o -name '*.toml' -o -path '*/static/*')

TOGETHER = $(MAKE) --no-print-directory --jobs 4 --output-sync=target

# A stage is a command whose time the report at the end of the tests shows.
STAGE := $(PYTHON) tests/support/stages.py
# Models of the tests, fetched while other stages compile: one of each kind for `make test`, more for `make test-all`.
WEIGHTS := smollm2-135m all-minilm-l6-v2 hibari-6m whisper-tiny.en english-phonemes silero-vad
MORE_WEIGHTS := kokoro-82m qwen2.5-coder-0.5b tinyllama-1.1b gemma-3-270m whisper-base whisper-base.en stories-15m smart-turn
# The package need not be installed yet.
PULL := env PYTHONPATH=src $(BIN)/python -c "from antiphon.cli.app import main; main()" pull
UV_INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python $$($(BIN)/python deploy/pip_sources.py)
# uv installs packages while pip compiles the extension.
PACKAGES = $(STAGE) run packages $(UV_INSTALL) --requirements pyproject.toml \
	$$($(BIN)/python deploy/torch_index.py --build $(TORCH))
# Objects stay here, so that only changed sources are compiled again. An isolated build would have other include paths
# each time.
BUILD_DIR := build/{wheel_tag}
PROJECT = $(STAGE) run extension $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation \
	--config-settings "build-dir=$(BUILD_DIR)"
PYTEST := $(BIN)/pytest --times {times}
TWO_WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
# The files that have a test with one of these markers; importing all others takes long. Cases are run by other tests.
MARKED = $$(grep --recursive --files-with-matches --extended-regexp "mark\.($(1))\>" tests --include="test_*.py" --exclude-dir=cases)

.PHONY: run test test-all lint soak sanitize wheel clean
.PHONY: stages-of-test stage-fast stage-browser stage-weights stage-more-weights stage-sanitize stage-slow stage-alone

run: | $(BIN)/uv
	@$(TOGETHER) $(VENV)/.packages $(VENV)/.installed
	$(BIN)/python examples/first_question.py $(MODELS) --port $(PORT)

# Tests start hundreds of processes that import the same files, which are compiled once.
test test-all soak sanitize: export PYTHONDONTWRITEBYTECODE :=
test test-all soak: export ANTIPHON_HOME := $(CURDIR)/.weights

test:
	@$(STAGE) begin
	@$(MAKE) --no-print-directory stages-of-test
	@$(STAGE) report 15

test-all:
	@$(STAGE) begin
	@$(MAKE) --no-print-directory stages-of-test
	@$(TOGETHER) $(VENV)/.packages-test-all stage-more-weights stage-sanitize
	@$(MAKE) --no-print-directory stage-slow
	@$(MAKE) --no-print-directory stage-alone
	@$(STAGE) report 30

stages-of-test: | $(BIN)/uv
	@$(TOGETHER) $(VENV)/.packages-test $(VENV)/.extension $(VENV)/.chromium lint stage-weights
	@$(MAKE) --no-print-directory stage-fast
	@$(MAKE) --no-print-directory stage-browser

stage-weights: $(VENV)/.packages-test
	@$(STAGE) run weights $(PULL) $(WEIGHTS)

stage-more-weights: $(VENV)/.packages-test
	@$(STAGE) run weights $(PULL) $(MORE_WEIGHTS)

stage-fast:
	@$(STAGE) run fast $(PYTEST) $(TWO_WORKERS) -m "smoke or not (slow or weights or browser or soak or alone)"

stage-browser:
	@$(STAGE) run browser $(PYTEST) $(TWO_WORKERS) $(call MARKED,browser) -m "browser and not (slow or soak)"

stage-sanitize:
	@$(STAGE) run sanitize $(BIN)/python tests/support/sanitize.py --times={times}

stage-slow:
	@$(STAGE) run slow $(PYTEST) $(TWO_WORKERS) $(call MARKED,slow|weights) \
		-m "(slow or weights) and not (smoke or soak or alone)"

stage-alone:
	@$(STAGE) run alone $(PYTEST) $(call MARKED,alone) -m "alone and not soak"

lint: $(VENV)/.packages-test
	$(BIN)/ruff check .
	@$(STAGE) run mypy $(BIN)/mypy

soak: $(VENV)/.packages-test-all $(VENV)/.extension $(VENV)/.chromium
	$(BIN)/python tests/support/soak_rounds.py --minutes $(MINUTES)

sanitize: $(VENV)/.packages-test $(VENV)/.extension stage-sanitize

wheel: $(VENV)/.packages-wheel
	$(BIN)/python deploy/build_release.py --folder "$(DIST)" --build-dir "$(BUILD_DIR)"

clean:
	rm -rf $(VENV) build dist

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

# What compiles the extension, installed before uv installs large packages in the same environment.
$(VENV)/.packages-build: pyproject.toml | $(BIN)/uv
	$(UV_INSTALL) --group build
	touch $@

$(VENV)/.packages-wheel: pyproject.toml | $(VENV)/.packages-build
	$(UV_INSTALL) --group wheel
	touch $@

$(VENV)/.packages: pyproject.toml | $(VENV)/.packages-build
	$(PACKAGES)
	touch $@

$(VENV)/.packages-test: pyproject.toml | $(VENV)/.packages-build
	$(PACKAGES) --extra test
	touch $(VENV)/.packages $@

$(VENV)/.packages-test-all: pyproject.toml | $(VENV)/.packages-wheel
	$(PACKAGES) --extra test --extra test-all
	touch $(VENV)/.packages $(VENV)/.packages-test $@

$(VENV)/.installed: $(BUILD_INPUTS) $(PACKAGE) | $(VENV)/.packages-build
	$(PROJECT) .
	rm -f $(VENV)/.extension
	touch $@

$(VENV)/.extension: $(BUILD_INPUTS) | $(VENV)/.packages-build
	$(PROJECT) --no-compile --editable .
	touch $(VENV)/.installed $@

$(VENV)/.chromium: | $(BIN)/uv
	@$(STAGE) run chromium $(BIN)/python tests/support/browser/install_chromium.py
	touch $@
