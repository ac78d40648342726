# Every target sets itself up: a fresh machine needs git, make and Python 3.11 or newer, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
SET_UP := infra/setup.sh
# The demo needs the smaller set; where the larger one is there already it is used.
ENV := $(if $(wildcard .venv/.dev),.venv/.dev,.venv/.server)
SAM := .tools/sam/bin/sam

.PHONY: help demo up test check format bench slow fuzz simulate real-cli windows lock package clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(ENV) ## one task from an API call to an agent on this machine and back
	$(BIN)/callboard demo

up: $(ENV) ## the control plane on this machine, until Ctrl-C
	$(BIN)/callboard up

test: .venv/.dev ## the test suite (minutes; ARGS="-k claim" for some of it)
	$(PYTEST) -n 2 --dist loadfile $(ARGS)

check: .venv/.dev .tools/sam/.sam ## linters, types, imports, templates, lock files: what CI checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 -m callboard_adapters.process.windows.family
	$(BIN)/lint-imports --no-cache
	$(BIN)/cfn-lint template.yaml infra/*.yaml
	SAM_CLI_TELEMETRY=0 $(SAM) validate --lint --region us-east-1 --template template.yaml
	$(BIN)/python infra/check_strings.py

format: .venv/.dev ## put the code into its format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/.dev ## measure, print one table (ARGS="dispatch import" for some of it)
	$(BIN)/python -m tests.bench.run $(ARGS)

slow: .venv/.dev ## the tests that take minutes: crashes, races, packaging
	$(PYTEST) -m slow --timeout 1800 $(ARGS)

SECONDS_EACH ?= 60
DIALECTS ?= $(shell $(BIN)/python -c 'from tests.fuzz.target import DIALECTS; print(*DIALECTS)')
fuzz: .venv/.dev .venv/.fuzz ## fuzz every adapter, coverage-guided, on Linux (DIALECTS="claude codex" SECONDS_EACH=600)
	for dialect in $(DIALECTS); do $(BIN)/python -m tests.fuzz.run $$dialect $(SECONDS_EACH); done

SEEDS ?= 0-49
STEPS ?= 800
simulate: .venv/.dev ## the storm: seeded worlds with everything going wrong (SEEDS=0-99 STEPS=800)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --steps $(STEPS)

real-cli: .venv/.dev ## drive the real coding-agent CLIs against a model server on loopback
	$(PYTEST) -m real_cli --timeout 900 tests/system $(ARGS)

WINDOWS_TESTS := $(addprefix tests/,unit/adapters/test_windows_programs.py \
  $(addprefix contract/adapters/test_,conformance.py own_streams_conformance.py codex.py) \
  $(addprefix integration/adapters/test_,windows.py driver.py bad_processes.py))
windows: .venv/.dev ## what starts, reads and ends agents, on a Python for Windows under Wine
	infra/wine.sh --timeout 180 $(WINDOWS_TESTS) $(ARGS)

lock: .venv/.dev ## rewrite requirements/*.txt (UPGRADE=1 for newer versions)
	infra/lock.sh

package: .venv/.dev ## the Lambda bundle and its template in build/
	$(BIN)/python infra/package.py

clean: ## remove environments, caches and builds
	rm -rf .venv .tools .cache build dist .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an environment is made again only when what it is made from has changed.
.venv/.server: requirements/server.txt pyproject.toml $(SET_UP)
	@$(SET_UP) .venv server project

.venv/.dev: requirements/dev.txt pyproject.toml $(SET_UP)
	@$(SET_UP) .venv dev project

.venv/.fuzz: requirements/fuzz.txt .venv/.dev $(SET_UP)
	@$(SET_UP) .venv fuzz

.tools/sam/.sam: requirements/sam.txt $(SET_UP)
	@$(SET_UP) .tools/sam sam
