# Everything people do here has a name. Each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAINERS := .venv-trainers
N ?= 10000
WORKERS ?= 3

# Three for two cores, as tests wait as much as they work; and they are compiled once, not at every run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help web web-types demo test test-extended test-trainers test-clusters check bench simulate docs clean format

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) scripts/setup_venv.py $(VENV)
	@touch $@

web: $(VENV)/.installed  ## build the web app, if its sources changed
	@$(BIN)/python -m scripts.api_types --check
	@$(BIN)/python -m scripts.build_web

web-types: $(VENV)/.installed  ## generate the web app's API types after a change of the API
	@$(BIN)/python -m scripts.api_types

demo: web  ## train a small model, kill it, watch it resume
	@$(BIN)/anygpu demo

test: web  ## all tests but those of the next two targets
	@$(BIN)/python -m scripts.build_web run test
	@$(BIN)/python scripts/install_store_emulators.py > /dev/null
	@$(BIN)/python -m scripts.run_tests -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not extended" $(ARGS)

test-extended: web  ## installations, a user's first hour, long scenarios, and random requests to every route
	@$(BIN)/python -c "from scripts.clusters import ray; ray.ray_program()"
	@$(BIN)/python -m scripts.run_tests -n $(WORKERS) --dist loadfile -m extended tests/acceptance tests/contracts $(ARGS)

$(TRAINERS)/.installed: trainers-constraints.txt scripts/setup_trainers_venv.py scripts/torchvision_operators.py
	$(PYTHON) scripts/setup_trainers_venv.py $(TRAINERS)
	@touch $@

test-trainers: $(VENV)/.installed $(TRAINERS)/.installed  ## the trainers that need torch and other frameworks
	@$(TRAINERS)/bin/python -m scripts.run_tests -n 2 --dist loadfile tests/trainers $(ARGS)

test-clusters: $(VENV)/.installed $(TRAINERS)/.installed  ## backends of clusters against real engines; root installs these
	@# Builds and installs them once. If that fails, so does the target for root; for others the tests are skipped.
	@$(BIN)/python -m scripts.clusters.kubernetes || [ "$$(id -u)" != 0 ]
	@$(BIN)/python -m scripts.clusters.slurm install || [ "$$(id -u)" != 0 ]
	@$(BIN)/python -m scripts.clusters.sshd || [ "$$(id -u)" != 0 ]
	@$(BIN)/python -m scripts.run_tests -n 2 --dist loadfile tests/clusters $(ARGS)
	@$(BIN)/python -m scripts.run_tests -n 2 -m "needs_program and not extended" tests/contracts $(ARGS)

check: $(VENV)/.installed  ## lint, types, import contracts; also of the web app
	@$(BIN)/ruff format --check src tests bench scripts
	@$(BIN)/ruff check src tests bench scripts
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_bans.py
	@$(BIN)/python -m scripts.api_types --check
	@$(BIN)/python -m scripts.build_web run check

format: $(VENV)/.installed  ## put the code in order
	@$(BIN)/ruff format src tests bench scripts
	@$(BIN)/ruff check --fix src tests bench scripts
	@$(BIN)/python -m scripts.api_types
	@$(BIN)/python -m scripts.build_web run format

simulate: $(VENV)/.installed  ## N simulated histories, and a tenth as many on SQL (make simulate N=10000)
	@$(BIN)/python -m anygpu.testing.simulate --histories $(N)
	@$(BIN)/python -m anygpu.testing.simulate --histories $$(( $(N) / 10 )) --seed 50000 --journal sql

bench: web $(TRAINERS)/.installed  ## measure against peers; writes docs/benchmarks.md
	@$(BIN)/python -m bench

clean:
	rm -rf $(VENV) $(TRAINERS) build dist web/node_modules src/anygpu/server/static
