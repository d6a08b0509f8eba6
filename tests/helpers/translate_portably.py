"""Translates 200 sentences with a random model, on any backend of Keras.

Usage: python tests/helpers/translate_portably.py
"""

import json

import numpy as np
from documents import ROOT

import keras_transformer as kt

COUNT = 200


def translate():
    """Returns translations and scores: `[texts, scores, log P]` of each."""
    folder = ROOT / "train/data/demo"
    lines = (folder / "train.en").read_text("utf-8").splitlines()
    tokenizer = kt.Tokenizer.train(lines, vocab_size=400)
    config = kt.TransformerConfig(
        **dict(num_layers=1, d_model=16, d_ff=24, num_heads=2, max_length=40),
        vocab_size=tokenizer.vocab_size,
    )
    model = kt.Transformer(config)
    generator = np.random.default_rng(1)
    for weight in model.weights:
        if len(weight.shape) == 2:
            weight.assign(generator.normal(0, 0.3, weight.shape))
    search = kt.BeamSearch(2, length_factor=0.0, extra_length=5)
    translator = kt.Translator(model, tokenizer, search, num_translations=2)
    translator.max_batch_size = COUNT  # JAX compiles for each shape
    sources = sorted(dict.fromkeys(lines), key=len)[:COUNT]
    found = translator.translate(sources, batch_tokens=10_000)
    scored = translator.score(sources[:9], sources[1:10])
    return [[x.texts, x.scores] for x in found], [x.log_prob for x in scored]


if __name__ == "__main__":
    print(json.dumps(translate()))
