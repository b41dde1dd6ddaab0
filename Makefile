# The two commands are `make demo` and `make test`; everything else is a part of them.
PYTHON ?= python3
VENV := .venv
VLLM_VENV ?= .venv-vllm
BIN := $(VENV)/bin
COMPILED := runners/load/libload.so runners/load/timing_server
# Tests start Python some hundred times: compiled once, it begins in two thirds of the time.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --no-deps --require-hashes --disable-pip-version-check

.PHONY: demo test studies install install-dev install-vllm lint types unit lock gpu-wheels clean

## Measure a real LLM server on this machine and look at the result in the dashboard (ONCE=1: stop after the table).
demo: install
	@$(BIN)/python manage.py demo $(if $(ONCE),--once)

## Everything that must hold: lint, types, layering, checks, tests.
test: install-dev lint types
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

## What needs vLLM as well: real techniques on a real engine, on this machine's CPU.
studies: install-dev install-vllm
	STUDIES=1 VLLM_PYTHON=$(VLLM_VENV)/bin/python $(BIN)/python -m pytest tests/studies

## Only the environment.
install: $(VENV)/.base $(COMPILED)
install-dev: $(VENV)/.dev $(COMPILED)

COMPILE = @command -v $(CC) >/dev/null || \
  { echo "A C compiler is needed: on Debian and Ubuntu, apt install gcc libc6-dev"; exit 2; }; \
  $(CC) -O2 -std=gnu11 -Wall -Wextra -o $@ $^
runners/load/libload.so: runners/load/receiver.c runners/load/repeats.c
	$(COMPILE) -fPIC -shared
runners/load/timing_server: runners/load/timing_server.c
	$(COMPILE)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "The venv module is missing: on Debian and Ubuntu, apt install python3-venv"; exit 2; }

$(VENV)/.base: requirements/base.txt | $(VENV)/bin/python
	@echo "installing the hash-locked packages (about a minute, once)"
	@$(PIP_INSTALL) -r requirements/base.txt && touch $@

$(VENV)/.dev: requirements/dev.txt | $(VENV)/bin/python
	@echo "installing the hash-locked packages with the test tools (about two minutes, once)"
	@$(PIP_INSTALL) -r requirements/dev.txt && touch $@ $(VENV)/.base

## vLLM for the CPU, in an environment of its own (Python 3.11, x86-64 Linux; 2.3 GB; docs/engines.md).
install-vllm: $(VLLM_VENV)/.done

$(VLLM_VENV)/.done: requirements/vllm.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "vLLM's lock file is for Python 3.11: make install-vllm PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VLLM_VENV)
	@echo "installing the hash-locked packages of vLLM (about two minutes, once)"
	@$(VLLM_VENV)/bin/python -m pip install --quiet --quiet --no-deps --require-hashes --disable-pip-version-check \
	  -r requirements/vllm.txt && touch $@

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/djlint --check --lint templates
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check --fail-level WARNING
	DEBUG=0 SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(60))') \
	  ALLOWED_HOSTS=observatory.example HTTPS=1 $(BIN)/python manage.py check --deploy --fail-level WARNING

types: install-dev
	$(BIN)/mypy

## Renew the lock files (needs uv). No index address ends up in them.
lock:
	cd requirements && for file in base dev; do \
	  uv pip compile $$file.in --override overrides.txt --universal --python-version 3.11 --generate-hashes \
	    --no-header --no-annotate --no-emit-index-url --only-binary :all: \
	    $$( [ $$file = dev ] && echo "-c base.txt" ) --output-file $$file.txt --quiet; done
	cd requirements && uv pip compile vllm.in --override vllm-overrides.txt --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --only-binary :all: --output-file vllm.txt --quiet

## Wheels for scripts/gpu_check.py on a GPU host without network; GPU_PYTHON is that host's version.
GPU_PYTHON ?= 3.12
GPU_PACKAGES := numpy|pyarrow|orjson|httptools|nvidia-ml-py
gpu-wheels: $(COMPILED) | $(VENV)/bin/python
	@mkdir -p wheels && awk '/^[a-z]/ { keep = $$0 ~ /^($(GPU_PACKAGES))==/ } keep' requirements/base.txt > wheels/needed.txt
	$(BIN)/python -m pip download --quiet --no-deps --require-hashes --only-binary :all: --python-version $(GPU_PYTHON) \
	  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
	  --dest wheels -r wheels/needed.txt

clean:
	rm -rf $(VENV) $(COMPILED) var .mypy_cache .ruff_cache .pytest_cache
