# The commands a newcomer needs. Everything is installed into .venv from the pinned lock.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test test-full test-cluster services-control-plane lint lock bench docs
install: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

demo: install
	$(BIN)/hindgraph demo

test: install
	$(BIN)/python -m pytest -n 2

# The long form: 500,000 probes of the ledger against the oracle.
test-full: install
	HINDGRAPH_FULL=1 $(BIN)/python -m pytest -n 2 -rP

# Against a real kube-apiserver of this machine, built on first use (needs Go; docs/testing.md).
test-cluster: install services-control-plane
	HINDGRAPH_REQUIRE_SERVICES=1 $(BIN)/python -m pytest -m cluster -rP

services-control-plane:
	tests/services/build_control_plane.sh

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/python -m bench.capture
	$(BIN)/python -m bench.projection
	$(BIN)/python -m bench.as_of
	$(BIN)/python -m bench.answers
	$(BIN)/python -m bench.memory

# The page of the checks, from their catalogue.
docs: install
	$(BIN)/python -m diagnose.page > docs/checks.md

# Needs uv; writes the lock with hashes and without any registry's address.
lock:
	uv pip compile --universal --group dev --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
