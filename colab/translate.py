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
# # Train a translator with `model.fit`, export it, translate with it
#
# The Transformer of [Attention Is All You Need](https://arxiv.org/abs/1706.03762)
# on the small English–German corpus that comes with the package. Four minutes
# on two CPU cores; nothing is downloaded.
#
# In Colab, put a checkout of the project into `/content/keras-transformer` and
# run this first: `%pip install -q "/content/keras-transformer[plot]"`

# %%
import os

# How long to train. The tests of the project set a few steps.
EPOCHS = int(os.environ.get("EPOCHS", "5"))
STEPS_PER_EPOCH = int(os.environ.get("STEPS_PER_EPOCH", "200"))

# %%
import keras

import keras_transformer as kt

keras.utils.set_random_seed(1)

# %% [markdown]
# ## Text
#
# A corpus has pairs of sentences in the splits `train`, `valid` and `test`.
# `open_corpus` also takes your own files, or TensorFlow Datasets.

# %%
corpus = kt.train.open_corpus(["embedded"])
for source, target in corpus.pairs("train").take(5).as_numpy_iterator():
    print(source.decode(), "|", target.decode())

# %% [markdown]
# ## Ids
#
# One SentencePiece vocabulary for both languages. What is not in it is spelled
# in bytes, so nothing is ever unknown.

# %%
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=2_000)
ids = tokenizer.tokenize(["I am a student."])
print(ids.to_list()[0])
print([tokenizer.pieces(row) for row in ids.to_list()])

# %% [markdown]
# ## Batches
#
# Sentences of similar length come together, so that little padding is computed.
# A batch has a budget of tokens rather than of sentences.

# %%
budget = dict(batch_tokens=4_096, max_length=32)
train_batches = kt.train.training_batches(
    corpus.pairs("train"), tokenizer, seed=1, **budget
)
valid_batches = kt.train.evaluation_batches(
    corpus.pairs("valid"), tokenizer, **budget
)
inputs, labels = next(iter(train_batches))
{name: x.shape for name, x in {**inputs, "labels": labels}.items()}

# %% [markdown]
# ## Model
#
# The paper's model, smaller. Its loss is smoothed, its learning rate rises over
# the warm-up and then falls with the square root of the step.

# %%
config = kt.TransformerConfig.from_preset(
    "tiny", vocab_size=tokenizer.vocab_size, max_length=32
)
model = kt.Transformer(config)
model.compile(
    optimizer=kt.optimizers.adam(config.d_model, warmup_steps=400),
    loss=kt.LabelSmoothedCrossEntropy(label_smoothing=0.1),
    metrics=[kt.Perplexity(), kt.TokenAccuracy()],
    jit_compile=False,  # XLA would compile anew for each length
)
model.count_params()

# %%
history = model.fit(
    train_batches,
    epochs=EPOCHS,
    steps_per_epoch=STEPS_PER_EPOCH,
    validation_data=valid_batches,
    shuffle=False,  # the batches are shuffled already
    verbose=2,
)

# %% [markdown]
# ## Translate
#
# Beam search as in the paper: four hypotheses, length penalty 0.6. The score is
# the log-probability over the length penalty.

# %%
translator = kt.Translator(
    model,
    tokenizer,
    kt.BeamSearch(beam_size=4, alpha=0.6),
    num_translations=2,
)
for translation in translator.translate(["I am a student"]):
    for text, score in zip(translation.texts, translation.scores, strict=True):
        print(f"{score:7.3f}  {text}")

# %% [markdown]
# ## Evaluate
#
# BLEU and chrF of sacreBLEU on sentences that training has not seen.

# %%
from keras_transformer.train.evaluation import describe, evaluate

results, hypotheses = evaluate(translator, corpus, "test", target="de")
print(describe(results))

# %% [markdown]
# ## Look at the attention
#
# Row by row: where each German token looks in the English sentence, a picture a
# head.

# %%
# %matplotlib inline
from keras_transformer.plotting import attention_figure
from keras_transformer.translation_attention import attention_of

attention_figure(*attention_of(translator, "I am a student.", "cross"))

# %% [markdown]
# ## Export
#
# One SavedModel takes text and returns text; TensorFlow Serving runs it as it
# is. `save` loads what it wrote in a fresh process and compares.

# %%
import tempfile

exported = kt.export.save(translator, f"{tempfile.mkdtemp()}/1")

# %%
import tensorflow as tf

translate = tf.saved_model.load(exported).signatures["serving_default"]
outputs = translate(text=tf.constant(["I am a student"]))
[text.decode() for text in outputs["translations"][0].numpy()]
