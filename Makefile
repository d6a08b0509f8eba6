# Every target makes what it needs, the virtual environment included.

PYTHONS := python3 python3.13 python3.12 python3.11 python3.10
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))

# The first Python of a supported version; choose another with
# make install PYTHON=/path/to/python3.12
PYTHON ?= $(firstword $(shell for p in $(PYTHONS); do \
	if $$p -c '$(SUPPORTED)' >/dev/null 2>&1; then echo $$p; fi; done) python3)

PY := .venv/bin/python
INSTALLED := .venv/.installed

# What must run on more than one Keras backend.
PORTABLE_TESTS := tests/layers tests/test_model.py tests/test_losses.py \
	tests/test_schedules.py tests/test_metrics.py

.PHONY: help install demo test bench lint format notebook clean
.DEFAULT_GOAL := help

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1: /p' $(firstword $(MAKEFILE_LIST)) \
		| awk -F': ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

install: $(INSTALLED) ## Create .venv and install everything into it

demo: $(INSTALLED) ## Train, evaluate, export and translate, in minutes
	.venv/bin/keras-transformer demo

test: $(INSTALLED) ## Run the tests on TensorFlow, the portable ones on JAX too
	KERAS_BACKEND=tensorflow $(PY) -m pytest
	KERAS_BACKEND=jax JAX_PLATFORMS=cpu JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
		$(PY) -m pytest $(PORTABLE_TESTS)

bench: $(INSTALLED) ## Measure speed and memory, beside other libraries: an hour
	$(PY) benchmarks/input_pipeline.py
	$(PY) benchmarks/products.py
	$(PY) benchmarks/training_throughput.py

lint: $(INSTALLED) ## Check style and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(INSTALLED) ## Mend style and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebook: $(INSTALLED) ## Regenerate colab/*.ipynb from the .py beside them
	$(PY) -m jupytext --update --to ipynb colab/*.py

clean: ## Remove .venv, caches and build output; runs/ and exported/ stay
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than the files that name the dependencies, or pip runs.
$(INSTALLED): setup.py pyproject.toml | $(PY)
	@echo "Installing into .venv: some minutes, about 3 GB of disk."
	$(PY) -m pip install --disable-pip-version-check -e ".[test]"
	@touch $@

$(PY):
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "No Python found as '$(PYTHON)'. Install Python 3.10 to 3.13," \
			"or name one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(SUPPORTED)' || { \
		echo "Python 3.10 to 3.13 is needed; '$(PYTHON)' is" \
			"$$("$(PYTHON)" --version 2>&1). Name another:" \
			"make install PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Creating .venv with $$("$(PYTHON)" --version 2>&1)"
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; \
		echo "Could not create .venv. On Debian and Ubuntu the module venv is" \
			"a package of its own: apt install python3-venv" >&2; exit 1; }
