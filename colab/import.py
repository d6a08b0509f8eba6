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
# The folder of a Marian model in Hugging Face's format becomes a run: it is
# translated with, looked into, trained further, and exported. More than a
# thousand OPUS-MT models have this format. A few minutes on two CPU cores, no
# downloads: the folder is made here. With one that you have downloaded, set
# `FOLDER` and skip the section after the next.

# %% [markdown]
# ## Install
#
# `make install` has installed everything for a local Jupyter. In Colab, bring
# the project first, since the package is not on PyPI: pack a checkout with
# `git archive --output keras-transformer.zip HEAD`, upload the file with the
# folder symbol at the left, and run in a new cell
# `!unzip -q keras-transformer.zip -d keras-transformer`. Colab's TensorFlow
# is kept.

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
# Instead of a download, a small model is trained for a short time, and
# written in Hugging Face's format. `transformers` would take this folder, and
# it has the files that a folder of OPUS-MT has.

# %% language="bash"
# rm -rf runs/short $FOLDER
# keras-transformer train embedded --preset tiny \
#     --steps $STEPS --warmup-steps 200 --output runs/short
# keras-transformer export runs/short --output $FOLDER --format huggingface
# ls -sh $FOLDER

# %% [markdown]
# `config.json` has the architecture, `vocab.json` the ids of the pieces that
# `source.spm` and `target.spm` split texts into, and `generation_config.json`
# the search.

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
# One command makes it a run. It prints what it has found, and what differs from
# the paper.

# %% language="bash"
# rm -rf runs/imported
# keras-transformer import $FOLDER --output runs/imported

# %% [markdown]
# All commands take the run.

# %% language="bash"
# keras-transformer evaluate runs/imported --data embedded \
#     --source en --target de --split valid

# %% [markdown]
# ## In Python
#
# `kt.convert.load` returns a `Translator` without writing a run.
# `kt.convert.read` says what is in the folder before the weights are read.

# %%
import keras_transformer as kt

found = kt.convert.read(FOLDER)
found.system, found.differences()

# %%
translator = kt.convert.load(FOLDER)
translator(["I am a student.", "She reads a book."])

# %% [markdown]
# The weights are those of the run at the beginning, in another order: its
# positions have a sine and a cosine in turns, Marian's all sines before all
# cosines. And Marian adds 1e-5 to a variance in place of 1e-6.

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
# What the decoder attends to in the source, one map per head of the last layer:

# %%
# %matplotlib inline
attention = translator.attention("She reads a book.")
kt.plotting.translation_figure(attention, "cross")

# %% [markdown]
# ## Train it further
#
# `--init-from` starts with its vocabulary and its weights. The new run keeps
# its architecture and its search.

# %% language="bash"
# rm -rf runs/fine-tuned
# keras-transformer train embedded --init-from runs/imported \
#     --steps $STEPS --output runs/fine-tuned
# keras-transformer evaluate runs/fine-tuned --data embedded --split valid

# %% [markdown]
# ## Export
#
# To a SavedModel for TensorFlow Serving, or for LiteRT, CTranslate2, and
# Hugging Face again.

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

model = tf.saved_model.load("runs/exported/en-de/1")
outputs = model.signatures["serving_default"](text=tf.constant(texts))
exported = [text.decode() for text in outputs["translations"].numpy()[:, 0]]
exported
