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
# # From a run to a served model
#
# This notebook trains a run, exports it as one SavedModel that takes text and
# returns translations, and requests translations over HTTP. Then it exports the
# run again, for use without TensorFlow. It takes a few minutes on two CPU cores
# and downloads nothing.

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
    # %pip install -q "{checkout}[savedmodel,web,litert]" {pin}

# How long to train. The tests of the project set a few steps.
os.environ.setdefault("STEPS", "400")

# %% [markdown]
# ## Train
#
# The bundled corpus has pairs of simple sentences, English and German.

# %%
import keras_transformer as kt

corpus = kt.train.open_corpus(["embedded"])
sources = [source for source, _ in corpus.pairs("test")][:64]
sources[:3]

# %% [markdown]
# The command line writes a run: a folder with the configuration, the tokenizer
# and the checkpoints. The other commands accept this folder.

# %% language="bash"
# rm -rf runs/en-de runs/models
# keras-transformer train embedded --preset tiny \
#     --steps $STEPS --warmup-steps 200 --output runs/en-de
# ls runs/en-de

# %% language="bash"
# keras-transformer evaluate runs/en-de --data embedded --split test

# %% [markdown]
# ## Export
#
# `export` writes a SavedModel that contains the tokenizer and the beam search,
# and needs no code of this project. Before the SavedModel appears in its place,
# it is loaded and compared with the run. The folder name `1` is its version.

# %% language="bash"
# keras-transformer export runs/en-de --output runs/models/en-de/1 \
#     --n-best 2
# cd runs/models && find . -type f | sort

# %% [markdown]
# ## The SavedModel
#
# A server loads the SavedModel in C++. In Python this takes three lines; the
# second registers the operations of the tokenizer. Signatures take and return
# tensors.

# %%
import tensorflow as tf
import tensorflow_text  # noqa: F401

model = tf.saved_model.load("runs/models/en-de/1")
for name, signature in sorted(model.signatures.items()):
    inputs = signature.structured_input_signature[1]
    print(f"{name}({', '.join(sorted(inputs))})")
    print("    ->", *sorted(signature.structured_outputs))

# %%
outputs = model.signatures["serving_default"](
    text=tf.constant(["I am a student.", "She reads a book."])
)
for texts, scores in zip(
    outputs["translations"].numpy(), outputs["scores"].numpy(), strict=True
):
    for text, score in zip(texts, scores, strict=True):
        print(f"{score:7.3f}  {text.decode()}")

# %%
scored = model.signatures["score"](
    text=tf.constant(["I am a student."] * 2),
    translation=tf.constant(["Ich bin Student.", "Ich bin Lehrer."]),
)
scored["perplexities"].numpy()

# %% [markdown]
# ## Serve
#
# In production the server is TensorFlow Serving: `docs/serving` contains the
# files that start it in Docker and on Kubernetes. To try a model, use
# `keras-transformer serve`, a web page that also answers programs.

# %%
import json
import socket
import subprocess
import time
import urllib.request

with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]

command = ["keras-transformer", "serve", "runs/models/en-de"]
with open("runs/server.log", "w") as log:
    server = subprocess.Popen(
        [*command, "--port", str(PORT)], stdout=log, stderr=log
    )
URL = f"http://127.0.0.1:{PORT}"

for _ in range(120):
    try:
        urllib.request.urlopen(URL).close()
        break
    except OSError:
        time.sleep(1)

# %% [markdown]
# ## Requests


# %%
def translate(text):
    request = urllib.request.Request(
        f"{URL}/translate",
        json.dumps({"text": text}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


translate("I am a student. Where is the book?")

# %% [markdown]
# We send many requests at the same time:

# %%
from concurrent.futures import ThreadPoolExecutor

with open("runs/en-de/translations-test.txt") as file:
    expected = file.read().splitlines()[:64]

start = time.perf_counter()
with ThreadPoolExecutor(8) as pool:
    served = [answer["text"] for answer in pool.map(translate, sources)]
seconds = time.perf_counter() - start
same = sum(map(str.__eq__, served, expected))
print(f"{len(sources) / seconds:.0f} sentences/s")
print(f"{same} of {len(sources)} translations are those of `evaluate`")

# %%
server.terminate()
server.wait()

# %% [markdown]
# ## Without a server and TensorFlow
#
# Use `--format litert` to write a model for LiteRT, TensorFlow's small runtime
# for processors and devices, and `--dtype int8` to store the weights in 8 bits.

# %% language="bash"
# keras-transformer export runs/en-de --output runs/models/litert \
#     --format litert --dtype int8
# keras-transformer evaluate runs/models/litert --data embedded --split test

# %%
from pathlib import Path

sizes = {
    folder: sum(file.stat().st_size for file in Path(folder).rglob("*.*"))
    for folder in ("runs/models/en-de/1", "runs/models/litert")
}
for folder, size in sizes.items():
    print(f"{size / 1e6:4.1f} MB  {folder}")

# %% [markdown]
# A new process translates:

# %% language="bash"
# cat > runs/translate.py << END
# import sys
# import time
#
# start = time.perf_counter()
# import keras_transformer as kt
#
# translator = kt.open_translator("runs/models/litert")
# print(translator("I am a student."))
# print(f"{time.perf_counter() - start:.2f} s, import included")
# print(translator(["She reads a book.", "Where is the book?"]))
# print("TensorFlow:", "tensorflow" in sys.modules)
# print("Keras:", "keras" in sys.modules)
# END
# python runs/translate.py

# %% [markdown]
# `en-de` is such a model. It comes with the package and is trained on real
# sentences. Run `keras-transformer serve en-de` to try it on a web page.

# %% language="bash"
# keras-transformer translate en-de << END
# Where is the station?
# I would like a cup of coffee.
# END

# %% [markdown]
# ## Where to go from here
#
# `docs/serving.md` describes all signatures, the client for gRPC
# (`kt.open_translator("grpc://...")`), threads and batches, and the tests.
# `docs/litert.md` helps you choose an export. It also describes how programs in
# other languages use an export for LiteRT.
