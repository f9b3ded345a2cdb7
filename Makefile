# Servescope. `make up` shows a live page, `make test` runs the tests.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SOURCES ?=
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: help install install-dev up demo test check speed tour soak

help:
	echo "make up                   live page from bundled logs of real servers"
	echo "make up SOURCES='PATH'    live page from a log of your own"
	echo "make demo                 the same as make up without sources"
	echo "make test                 install what the tests need, then run them"
	echo "make check                lint, format, types, import rules"
	echo "make speed                import speed and live latency, as a table"
	echo "make tour                 the pictures of docs/tour.md, from the demo"
	echo "make soak                 the long tests: kills, sequences, many sources, large stores"

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

# Without --no-compile pip spends a third of its time compiling modules that nobody imports. Those
# that are imported are compiled here: on a machine that forbids it later, each start would do it.
PIP_INSTALL := $(PIP) install --no-compile

# Debian and Ubuntu ship Python without ensurepip; then its package is fetched first.
$(BIN)/python:
	if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(call apt,python3-venv); fi
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt pyproject.toml setup.py parsers/kernels.c | $(BIN)/python
	echo "Installing Servescope into $(VENV) ..."
	$(PIP_INSTALL) -r requirements.txt
	# As a plain path: the other way runs a program of its own at each start of Python.
	PYTHONWARNINGS=ignore $(PIP_INSTALL) --no-deps --config-settings editable_mode=compat --editable .
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import servescope, dashboard.app, ingest.imports'
	touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	echo "Installing the test tools into $(VENV) ..."
	$(PIP_INSTALL) -r requirements-dev.txt
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -W ignore -c 'import hypothesis, moto.server, \
		playwright.sync_api, psycopg, pyarrow.dataset, pytest, streamlit.testing.v1, xdist.plugin'
	touch $@

up: install
	exec $(BIN)/servescope $(if $(strip $(SOURCES)),up $(SOURCES),demo)

demo: install
	exec $(BIN)/servescope demo

# The browser tests drive the system's Chromium, those of SSH and of the store of many
# machines servers of their own; the speed
# table compares with ripgrep.
test: install-dev
	if ! command -v chromium-headless-shell chromium >/dev/null; then
		$(call apt,chromium-headless-shell) || { $(call apt,chromium); }
	fi
	if ! command -v rg >/dev/null; then $(call apt,ripgrep); fi
	if ! PATH=$$PATH:/usr/sbin command -v sshd >/dev/null; then $(call apt,openssh-server); fi
	if ! command -v ssh-keygen >/dev/null; then $(call apt,openssh-client); fi
	if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then $(call apt,postgresql); fi
	# Many processes load the same modules: what one has compiled serves the others.
	export PYTHONDONTWRITEBYTECODE=
	# What takes minutes runs beside what only computes, then comes what waits for clocks and
	# servers: more of it at once than there are cores, or half of them would wait.
	said=$$(mktemp)
	PYTEST="$(BIN)/python -m pytest"
	$$PYTEST -m beside -p no:cacheprovider >$$said 2>&1 & beside=$$!
	trap 'kill $$beside 2>/dev/null || true; rm -f $$said' EXIT
	failed=
	$$PYTEST -m plain --numprocesses auto --dist worksteal || failed=1
	if wait $$beside; then tail -n 1 $$said; else failed=1; cat $$said; fi
	$$PYTEST -m alone --numprocesses 3 --dist loadfile || failed=1
	test -z "$$failed"

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

speed: install-dev
	$(BIN)/python speed/run.py

tour: install-dev
	$(BIN)/python -m tests.tour

soak: install-dev
	$(BIN)/python -m tests.soak.kill
	$(BIN)/python -m tests.soak.model
	$(BIN)/python -m tests.soak.many
	$(BIN)/python -m tests.soak.fleet
	$(BIN)/python -m tests.soak.big

define apt
echo "Installing $(1) ..."; \
$(SUDO) apt-get -qq update >/dev/null && \
$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y $(1) >/dev/null
endef
