PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup train test lint tiny

setup: .venv/ready

.venv/ready: requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

train: setup
	$(BIN)/python train.py

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

tiny: setup
	$(BIN)/python -m tiny.make
