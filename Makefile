# Every target installs what it needs, the virtual environment included.

PYTHONS := python3 python3.13 python3.12 python3.11
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# The first Python of a supported version; choose another with
# make install PYTHON=/path/to/python3.12
PYTHON ?= $(firstword $(shell for p in $(PYTHONS); do \
	if $$p -c '$(SUPPORTED)' >/dev/null 2>&1; then echo $$p; fi; done) python3)

PY := .venv/bin/python
PIP_INSTALL := -m pip install --disable-pip-version-check
# Two processes, one TensorFlow thread each, with the files in the order of
# tests/conftest.py.
PYTEST := -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The tests that run on every Keras backend.
PORTABLE_TESTS := tests/test_model.py tests/decoding/test_step.py tests/layers \
	tests/test_losses.py tests/test_masks.py tests/test_metrics.py \
	tests/test_optimizers.py tests/test_portable_translation.py \
	tests/test_reference.py tests/test_schedules.py \
	tests/train/test_fitting.py tests/train/test_state.py
# Fewer on JAX, which compiles each operation: each layer, model and loss.
# tests/test_portable_translation.py, which runs on TensorFlow, starts a program
# that trains and translates on JAX.
JAX_TESTS := tests/layers/test_every_layer.py tests/test_losses.py \
	tests/test_model.py tests/test_optimizers.py tests/test_reference.py \
	tests/test_portable_translation.py tests/fit/test_custom_training.py \
	tests/train/test_fitting.py tests/train/test_kill.py
SHORT_JAX_TESTS := tests/layers/test_every_layer.py tests/test_reference.py \
	tests/fit/test_custom_training.py

# The ends of the version ranges in setup.py. Both exist for Python 3.11 and
# 3.12 only.
OLDEST := tensorflow==2.19.0 tensorflow-text==2.19.0 keras==3.10.0
NEWEST := tensorflow==2.21.* tensorflow-text==2.21.* keras==3.15.*
# From which models are imported.
OPENNMT := OpenNMT-tf==2.32.0 tensorflow==2.13.1 "numpy<1.25" \
	"sentencepiece>=0.2" "setuptools<81"
MATRIX_TESTS := tests/layers tests/test_model.py tests/test_losses.py \
	tests/fit/test_keras_overrides.py tests/fit/test_distributed_fit.py \
	tests/inference/test_translator.py tests/text/test_tokenizer.py tests/export \
	tests/cli/test_training.py tests/train/test_state.py

JAX = KERAS_BACKEND=jax JAX_PLATFORMS=cpu .venvs/jax/bin/keras-transformer

RELEASE_CHECK = REPOSITORY_URL='$(REPOSITORY_URL)' $(PY) \
	.ci/release_check.py $(if $(TAG),--tag $(TAG))

export KERAS_BACKEND := tensorflow

.PHONY: help install demo demo-jax test test-all test-jax test-torch test-converters \
	test-opennmt matrix serving-check bench lint format notebook docs package release clean
.DEFAULT_GOAL := help

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(firstword $(MAKEFILE_LIST)) \
		| awk -F': ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

install: .venv/.test ## Create .venv with everything that development needs

demo: .venv/.demo ## Train, evaluate, export and translate, in minutes
	.venv/bin/keras-transformer demo

test: .venv/.test ## Run the tests that are not slow, a few of them on JAX too
	$(PY) $(PYTEST) -m "not slow"
	$(MAKE) test-jax JAX_TESTS='-n 0 -m "not slow" $(SHORT_JAX_TESTS)'

test-all: .venv/.test ## Run the tests, slow ones too, on TensorFlow and JAX
	$(PY) $(PYTEST)
	$(MAKE) test-jax

test-jax: .venv/.test ## Run tests of layers and models on JAX
	KERAS_BACKEND=jax JAX_PLATFORMS=cpu JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
		$(PY) $(PYTEST) $(JAX_TESTS)

# The README's path without TensorFlow.
demo-jax: .venvs/jax/.installed ## The demo and exports on JAX, without TensorFlow
	! .venvs/jax/bin/python -c "import tensorflow" 2>/dev/null
	mkdir -p build
	rm -rf build/jax
	$(JAX) demo --output build/jax/demo
	echo "I am a student" | $(JAX) translate build/jax/demo
	$(JAX) export build/jax/demo --format ctranslate2 --output build/jax/ctranslate2
	$(JAX) export build/jax/demo --format huggingface --output build/jax/huggingface
	$(JAX) import build/jax/huggingface --output build/jax/imported

test-converters: .venv/.converters ## Compare the converters with the systems themselves
	$(PY) $(PYTEST) tests/convert/reference tests/export/reference

# OpenNMT-tf needs TensorFlow 2.13, and that Python 3.11 or older.
test-opennmt: .venv/.test build/opennmt-models ## Compare the converter with OpenNMT-tf itself
	OPENNMT_MODELS=build/opennmt-models \
		$(PY) -m pytest tests/convert/reference/test_opennmt_tf.py

build/opennmt-models: | .venvs/opennmt/.installed
	mkdir -p build
	rm -rf $@.part
	TF_CPP_MIN_LOG_LEVEL=3 PYTHONPATH=tests/helpers .venvs/opennmt/bin/python \
		tests/convert/reference/opennmt_models.py $@.part
	mv $@.part $@

test-torch: .venv/.torch ## Run the portable tests on PyTorch, and compare
	$(PY) $(PYTEST) -n 0 tests/test_torch_parity.py
	KERAS_BACKEND=torch $(PY) $(PYTEST) -m "not slow" $(PORTABLE_TESTS)

matrix: .venvs/oldest/.matrix .venvs/newest/.matrix ## Test both ends of the version ranges
	.venvs/oldest/bin/python $(PYTEST) -m "not slow" $(MATRIX_TESTS)
	.venvs/newest/bin/python $(PYTEST) -m "not slow" $(MATRIX_TESTS)

serving-check: .venv/.test ## Compare what TensorFlow Serving answers with MODEL=NAME/VERSION
	$(PY) .ci/serving_check.py $(MODEL) $(if $(ADDRESS),--address $(ADDRESS))

bench: .venv/.test ## Measure speed and memory beside other libraries, for two hours
	$(PY) benchmarks/input_pipeline.py
	$(PY) benchmarks/products.py
	$(PY) benchmarks/training_throughput.py
	$(PY) benchmarks/decoding.py
	$(PY) benchmarks/restricted_attention.py
	$(PY) benchmarks/table1.py

lint: .venv/.lint ## Check style, format and lines per room
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) .ci/rooms.py

format: .venv/.lint ## Fix style and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebook: .venv/.test ## Generate colab/*.ipynb from colab/*.py and execute them
	$(PY) -m jupytext --update --to ipynb colab/*.py
	$(PY) .ci/notebooks.py colab/*.ipynb

docs: .venv/.docs ## Build the documentation as pages in build/site
	rm -rf build/package build/docs
	$(PY) $(PIP_INSTALL) -q --no-deps --target build/package .
	cp -r docs build/docs
	.venv/bin/jupyter-nbconvert --log-level=WARN --to markdown \
		--output-dir build/docs/notebooks colab/*.ipynb
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build

package: .venv/.release ## Build the package into dist/, and check its files
	$(RELEASE_CHECK)

release: .venv/.release ## The same, and install it with each extra, for half an hour
	$(RELEASE_CHECK) --install

clean: ## Remove environments, caches and build output, but no runs
	rm -rf .venv .venvs build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is newer than the files that name the dependencies, or pip runs.
.venv/.demo: EXTRAS := savedmodel,plot,web,litert
.venv/.test: EXTRAS := test
.venv/.docs: EXTRAS := docs
.venv/.release: EXTRAS := release
.venv/.torch: EXTRAS := test,torch
.venv/.converters: EXTRAS := test,torch,converters
.venv/.demo .venv/.docs .venv/.release .venv/.test .venv/.torch .venv/.converters: setup.py pyproject.toml | $(PY)
	@echo "Installing into .venv: some minutes, about 3 GB of disk."
	$(PY) $(PIP_INSTALL) -e ".[$(EXTRAS)]"
	@touch $@

.venv/.lint: setup.py | $(PY)
	$(PY) $(PIP_INSTALL) -q $$(grep -o 'ruff==[0-9.]*' setup.py)
	@touch $@

.venvs/oldest/.matrix: PINS := $(OLDEST)
.venvs/newest/.matrix: PINS := $(NEWEST)
.venvs/%/.matrix: setup.py pyproject.toml Makefile | $(PY)
	@$(PY) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' \
		|| { echo "make matrix needs Python 3.11 or 3.12: make clean, then" \
			"make matrix PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PY) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) $(PINS) pytest pytest-xdist \
		-e ".[plot,tensorboard,serving]"
	@touch $@

.venvs/jax/.installed: setup.py | $(PY)
	$(PY) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) -e ".[jax,ctranslate2]"
	@touch $@

.venvs/opennmt/.installed: Makefile | $(PY)
	$(PY) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) $(OPENNMT)
	@touch $@

$(PY):
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "No Python found as '$(PYTHON)'. Install Python 3.11 to 3.13," \
			"or name one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(SUPPORTED)' || { \
		echo "Python 3.11 to 3.13 is needed; '$(PYTHON)' is" \
			"$$("$(PYTHON)" --version 2>&1). Name another:" \
			"make install PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Creating .venv with $$("$(PYTHON)" --version 2>&1)"
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; \
		echo "Could not create .venv. On Debian and Ubuntu the module venv is" \
			"a package of its own: apt install python3-venv" >&2; exit 1; }
	@# Finds the versions in half the time of the one that comes with Python.
	@$(PY) $(PIP_INSTALL) -q --upgrade pip
