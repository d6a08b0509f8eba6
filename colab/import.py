# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A model from elsewhere
#
# This notebook turns a folder with a Marian model in Hugging Face's format into
# a run. It translates with the run, looks into it, trains it further, and
# exports it. More than a thousand OPUS-MT models have this format. The notebook
# takes a few minutes on two CPU cores, and downloads nothing, since it makes
# the folder. To use a downloaded folder, set `FOLDER` and skip the section
# after the next.

# %% [markdown]
# ## Install
#
# In a local Jupyter, `make install` has installed everything. In Colab, bring
# the project first, since the package is not on PyPI. Pack a checkout with
# `git archive --output keras-transformer.zip HEAD`, upload the file with the
# folder symbol at the left, and run
# `!unzip -q keras-transformer.zip -d keras-transformer` in a new cell. The next
# cell keeps Colab's TensorFlow.

# %%
import os
import sys

if "google.colab" in sys.modules:
    from importlib.metadata import version

    # tensorflow-text requires a TensorFlow of its own version: unless the
    # installed version is named, pip takes the newest of both.
    pin = f"tensorflow=={version('tensorflow')}"
    checkout = "/content/keras-transformer"
    assert os.path.isdir(checkout), (
        f"Upload the project, and unpack it at {checkout}, as described above"
    )
    # %pip install -q "{checkout}[savedmodel,plot,litert]" {pin}

# How long to train. The tests of the project set a few steps.
os.environ.setdefault("STEPS", "300")
os.environ["FOLDER"] = FOLDER = "runs/opus-mt-en-de"

# %% [markdown]
# ## A folder
#
# Instead of a download, we train a small model for a short time, and write it
# in Hugging Face's format. `transformers` could load this folder, which has the
# same files as a folder of OPUS-MT.

# %% language="bash"
# rm -rf runs/short $FOLDER
# keras-transformer train embedded --preset tiny \
#     --steps $STEPS --warmup-steps 200 --output runs/short
# keras-transformer export runs/short --output $FOLDER --format huggingface
# ls -sh $FOLDER

# %% [markdown]
# `config.json` contains the architecture, `vocab.json` the ids of the pieces
# that `source.spm` and `target.spm` split texts into, and
# `generation_config.json` the search.

# %%
import json

with open(f"{FOLDER}/config.json") as file:
    config = json.load(file)
with open(f"{FOLDER}/generation_config.json") as file:
    search = json.load(file)
{**config, **search}

# %% [markdown]
# ## Import
#
# One command makes a run from the folder. It prints what it has found, and how
# the model differs from the paper.

# %% language="bash"
# rm -rf runs/imported
# keras-transformer import $FOLDER --output runs/imported

# %% [markdown]
# All commands accept the run.

# %% language="bash"
# keras-transformer evaluate runs/imported --data embedded \
#     --source en --target de --split valid

# %% [markdown]
# ## In Python
#
# `kt.convert.read` returns what is in the folder before it reads the weights,
# and `kt.open_translator` opens the run.

# %%
import keras_transformer as kt

found = kt.convert.read(FOLDER)
found.system, found.differences()

# %%
translator = kt.open_translator("runs/imported")
translator(["I am a student.", "She reads a book."])

# %% [markdown]
# The weights equal those of the original run, reordered: it interleaves sines
# and cosines, Marian concatenates them. Marian's layer-norm epsilon is 1e-5,
# not 1e-6.

# %%
import numpy as np

original = kt.open_translator("runs/short")
texts = ["I am a student.", "She reads a book."]
best = original(texts)
scores = [
    [score.log_prob for score in one.score(texts, best)]
    for one in (original, translator)
]
difference = np.abs(np.subtract(*scores)).max()
print(f"{difference:.4f}")

# %% [markdown]
# The figure shows what the decoder attends to in the source, with one map per
# head of the last layer:

# %%
# %matplotlib inline
attention = translator.attention("She reads a book.")
kt.plotting.translation_figure(attention, "cross")

# %% [markdown]
# ## Train it further
#
# `--init-from` starts with the vocabulary and the weights of the imported run.
# The new run keeps the architecture and the search.

# %% language="bash"
# rm -rf runs/fine-tuned runs/tuned
# keras-transformer train embedded --init-from runs/imported \
#     --steps $STEPS --output runs/fine-tuned
# keras-transformer evaluate runs/fine-tuned --data embedded --split valid

# %% [markdown]
# Or use `fit`. `from_preset` returns the model of a run, here with dropout, and
# `save` writes a run, which all commands take.

# %%
import keras

model = kt.Transformer.from_preset("runs/imported", dropout=0.1)
corpus = kt.train.open_corpus(["embedded"])
batches = kt.train.training_batches(
    corpus.pairs("train"),
    translator.tokenizer,
    seed=1,
    batch_tokens=4096,
    max_length=32,
)
loss = kt.LabelSmoothedCrossEntropy(0.1, pad_id=model.config.pad_id)
model.compile(keras.optimizers.Adam(1e-4), loss)
steps = int(os.environ["STEPS"])
model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
tuned = kt.Translator(model, translator.tokenizer, translator.search)
tuned.save("runs/tuned")

# %% language="bash"
# keras-transformer evaluate runs/tuned --data embedded \
#     --source en --target de --split valid

# %% [markdown]
# ## Export
#
# You can export a SavedModel for TensorFlow Serving, or a model for LiteRT,
# CTranslate2, or Hugging Face again.

# %% language="bash"
# rm -rf runs/exported
# keras-transformer export runs/fine-tuned --output runs/exported/en-de/1 \
#     --signatures serving_default score
# keras-transformer export runs/fine-tuned --output runs/exported/litert \
#     --format litert --dtype int8
# echo "She reads a book." | keras-transformer translate runs/exported/litert

# %%
import tensorflow as tf
import tensorflow_text  # noqa: F401

served = tf.saved_model.load("runs/exported/en-de/1")
outputs = served.signatures["serving_default"](text=tf.constant(texts))
exported = [text.decode() for text in outputs["translations"].numpy()[:, 0]]
exported
