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
# # Train a translator with `model.fit`, look into it, export and serve it
#
# This notebook trains the Transformer of
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762) on the small
# English–German corpus that is bundled with the package. Training takes a few
# minutes on two CPU cores and downloads nothing.

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
    # %pip install -q "{checkout}[savedmodel,plot,web,litert]" {pin}

# How long to train. The tests of the project set a few steps.
EPOCHS = int(os.environ.get("EPOCHS", "5"))
STEPS_PER_EPOCH = int(os.environ.get("STEPS_PER_EPOCH", "200"))

# %% [markdown]
# ## A translator that is there already
#
# `en-de` comes with the package. It was trained on everyday sentences and
# exported for LiteRT. It needs neither a download nor TensorFlow.

# %%
import keras_transformer as kt

included = kt.open_translator("en-de")
included(
    [
        "Where is the station?",
        "I would like a cup of coffee.",
        "My sister has lived in this city for three years.",
    ]
)

# %% [markdown]
# The rest of the notebook trains a new one from scratch.
#
# ## Text
#
# A corpus consists of sentence pairs in the splits `train`, `valid` and `test`.
# `open_corpus` also reads your own files and TensorFlow Datasets.

# %%
corpus = kt.train.open_corpus(["embedded"])
for source, target in list(corpus.pairs("train"))[:5]:
    print(source, "|", target)

# %% [markdown]
# ## Token ids
#
# Both languages share one SentencePiece vocabulary. If a character is not in
# it, it is encoded as bytes, so there are no unknown tokens.

# %%
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=2_000)
ids = tokenizer.encode(["I am a student."])
print(ids[0])
print([tokenizer.pieces(row) for row in ids])

# %% [markdown]
# ## Batches
#
# A batch contains sentences of similar length, which reduces padding. Its size
# is a maximum number of tokens instead of a number of sentences.

# %%
limits = dict(batch_tokens=4_096, max_length=32)
train_batches = kt.train.training_batches(
    corpus.pairs("train"), tokenizer, seed=1, **limits
)
valid_batches = kt.train.evaluation_batches(
    corpus.pairs("valid"), tokenizer, **limits
)
inputs, labels = next(iter(train_batches))
{name: x.shape for name, x in {**inputs, "labels": labels}.items()}

# %% [markdown]
# ## Model
#
# The model is a smaller version of the paper's, with the paper's optimizer,
# learning rate schedule and label smoothing. `open_strategy` uses all GPUs of
# the machine, or one device if there are none. `fit` computes the same on any
# number.

# %%
import keras

keras.utils.set_random_seed(1)
config = kt.TransformerConfig.from_preset(
    "tiny", vocab_size=tokenizer.vocab_size, max_length=32
)
strategy = kt.train.open_strategy()
with strategy.scope():
    model = kt.Transformer(config)
    model.compile(
        optimizer=kt.optimizers.adam(config.d_model, warmup_steps=400),
        loss=kt.LabelSmoothedCrossEntropy(label_smoothing=0.1),
        metrics=[kt.Perplexity(), kt.TokenAccuracy()],
    )
model.count_params()

# %%
history = model.fit(
    train_batches,
    validation_data=valid_batches,
    epochs=EPOCHS,
    steps_per_epoch=STEPS_PER_EPOCH,
    shuffle=False,  # the batches are shuffled already
    verbose=2,
)

# %% [markdown]
# ## A training step of your own
#
# `Transformer` is a Keras model, so a subclass may override `train_step`, as in
# Keras' guides. R-Drop (Liang et al. 2021, arXiv 2106.14448) computes each
# batch twice with different dropout, and pulls the two predictions together. On
# several GPUs the optimizer adds up the gradients of the replicas: divide a
# term of your own by their number. `compute_loss` does so itself.

# %%
import tensorflow as tf


class RDrop(kt.Transformer):
    def train_step(self, data):
        inputs, labels = data
        with tf.GradientTape() as tape:
            first = self(inputs, training=True)
            second = self(inputs, training=True)
            loss = self.compute_loss(y=labels, y_pred=first)
            loss += self.compute_loss(y=labels, y_pred=second)
            p = tf.nn.log_softmax(tf.cast(first, "float32"))
            q = tf.nn.log_softmax(tf.cast(second, "float32"))
            divergence = tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), -1)
            is_token = tf.cast(labels != self.config.pad_id, "float32")
            divergence = tf.math.divide_no_nan(
                tf.reduce_sum(divergence * is_token), tf.reduce_sum(is_token)
            )
            replicas = self.distribute_strategy.num_replicas_in_sync
            loss = 0.5 * (loss + divergence / replicas)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss * replicas)
            else:
                metric.update_state(labels, first)
        return self.get_metrics_result()


with strategy.scope():
    tuned = RDrop(config)
    tuned.set_weights(model.get_weights())
    tuned.compile(
        keras.optimizers.Adam(1e-4),
        loss=kt.LabelSmoothedCrossEntropy(label_smoothing=0.1),
        metrics=[kt.Perplexity(), kt.TokenAccuracy()],
    )
tuned_history = tuned.fit(
    train_batches,
    validation_data=valid_batches,
    steps_per_epoch=STEPS_PER_EPOCH,
    shuffle=False,
    verbose=2,
)

# %% [markdown]
# ## Translate
#
# We use beam search with the parameters of the paper: beam size 4 and length
# penalty 0.6. The score is the log-probability divided by the length penalty.

# %%
translator = kt.Translator(
    model,
    tokenizer,
    kt.BeamSearch(beam_size=4, alpha=0.6),
    num_translations=2,
)
(translation,) = translator.translate(["I am a student"])
for text, score in zip(translation.texts, translation.scores, strict=True):
    print(f"{score:7.3f}  {text}")

# %% [markdown]
# ## See how the search found it
#
# The page draws the beam search as a tree. Each step shows what the decoder
# reads, its most probable tokens, and which hypotheses are kept, finished or
# pruned. Choose a token to see its hypothesis. To write the page to a file, use
# `keras-transformer plot trace`.

# %%
trace = kt.trace(translator, "I am a student.")
trace.to_html()

# %% [markdown]
# ## Evaluate
#
# We compute BLEU and chrF with sacreBLEU, on held-out sentences.

# %%
from keras_transformer.train.evaluation import describe, evaluate

results, hypotheses = evaluate(translator, corpus, "test", target="de")
print(describe(results))

# %% [markdown]
# ## Plot the attention
#
# There is one map per head of the last decoder layer. Each row belongs to a
# position of the German output and shows which English tokens it attends to
# while the next token is predicted. The page below shows all layers and heads.

# %%
# %matplotlib inline
attention = translator.attention("I am a student.")
kt.plotting.translation_figure(attention, "cross")

# %%
kt.plotting.attention_page(attention)

# %% [markdown]
# ## Export
#
# The SavedModel takes text and returns text, for example in TensorFlow Serving.
# `save` loads it and compares the scores of given texts.

# %%
import tempfile

exported = kt.export.save(translator, f"{tempfile.mkdtemp()}/1")

# %%
translate = tf.saved_model.load(exported).signatures["serving_default"]
outputs = translate(text=tf.constant(["I am a student"]))
[text.decode() for text in outputs["translations"][0].numpy()]

# %% [markdown]
# ## Serve
#
# TensorFlow Serving is for production; see `docs/serving.md` and the notebook
# `serving`. To try a model, `make_app` makes a small web page, which
# `keras-transformer serve` starts for a run.

# %%
import json
import threading
import time
import urllib.request

import uvicorn

from keras_transformer.web import make_app

app = make_app(translator, "en-de", max_characters=2_000)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.1)
port = server.servers[0].sockets[0].getsockname()[1]
print(f"http://127.0.0.1:{port}")

# %%
request = urllib.request.Request(
    f"http://127.0.0.1:{port}/translate",
    json.dumps({"text": "I am a student."}).encode(),
    {"Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as response:
    answer = json.load(response)
server.should_exit = True
answer
