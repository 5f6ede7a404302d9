# Two commands for a fresh clone: `make demo` and `make test`. The rest is for whoever changes the code.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install -c constraints.txt

.PHONY: demo test test-slow test-browser lint format types docs check clean

demo: $(VENV)/.installed
	$(BIN)/simplepcfg demo

# A process a core; the tests of a file stay together, so that what they share is made once; tests/conftest.py orders files.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

# Chromium and its driver come from the distribution's packages, which takes root where they are missing.
test-browser: $(VENV)/.installed-browser
	$(BIN)/python -m pytest -m browser

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# Strict: a broken link or an argument that a docstring forgets is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: lint types docs test

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A stamp a level, so that a second run installs nothing.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) -e ".[test]"
	@touch $@

$(VENV)/.installed-browser: $(VENV)/.installed-test
	$(PIP) -e ".[browser]"
	command -v chromium && command -v chromedriver || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core; }
	npm install --silent --no-audit --no-fund --prefix .browser axe-core@4.11
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-test
	$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) .browser site .pytest_cache .mypy_cache .ruff_cache
