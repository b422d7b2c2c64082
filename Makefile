# make run    the server answers a question, and stays until Ctrl-C on a terminal (models are fetched on first use)
# make test   linters, types and every test, the slow ones and those on real weights included
# make lint   linters and types
# make soak   the tests of chance at their full length; hours
# make sanitize   the native extension's tests under AddressSanitizer and UndefinedBehaviorSanitizer
#
# TORCH=cpu or TORCH=cuda chooses the build of PyTorch; by default it is cuda where there is an NVIDIA driver.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS ?=
PORT ?= 8000
TORCH ?= auto

# What a stamp's installation was made from; Python files of an editable one are read in place.
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(wildcard csrc/*/*)
INSTALL = $(BIN)/python -m pip install --quiet $$($(BIN)/python deploy/torch_index.py --build $(TORCH))
PACKAGE := $(shell find src -name '*.py' -o -name '*.toml' -o -path '*/static/*')

.PHONY: run test lint soak sanitize clean

run: $(VENV)/.installed
	$(BIN)/python examples/first_question.py $(MODELS) --port $(PORT)

# Tests start hundreds of processes that import the same files, which are compiled once.
test soak sanitize: export PYTHONDONTWRITEBYTECODE :=

test: export ANTIPHON_HOME := $(CURDIR)/.weights
test: $(VENV)/.installed-test
	$(MAKE) --jobs 2 --output-sync=target lint sanitize
	$(BIN)/pytest -n 2
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "(slow or weights) and not (alone or browser)" --durations 20
	$(BIN)/pytest -m browser
	$(BIN)/pytest -m "alone and (slow or weights)"

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

soak: export ANTIPHON_HOME := $(CURDIR)/.weights
soak: $(VENV)/.installed-test
	$(BIN)/pytest -m slow --soak
	$(BIN)/pytest tests/fuzz --soak

sanitize: $(VENV)/.installed-test
	$(BIN)/python tests/support/sanitize.py

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BUILD_INPUTS) $(PACKAGE) | $(BIN)/python
	$(INSTALL) .
	rm -f $(VENV)/.installed-test
	touch $@

$(VENV)/.installed-test: $(BUILD_INPUTS) | $(BIN)/python
	$(INSTALL) --no-compile --editable ".[test]"
	$(BIN)/python tests/support/browser/chromium.py
	touch $(VENV)/.installed $@
