"""Translators with random weights, as trained here and as imported."""

import numpy as np
from helpers import randomise

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.text.lookup_vocabulary import (
    LookupVocabulary,
    SpecialTokens,
)

SMALL = dict(num_layers=2, d_model=8, d_ff=12, num_heads=2, max_length=30)

MARIAN = dict(
    num_layers=1,
    attention_bias=True,
    output_bias=True,
    activation="swish",
    position_layout="halves",
    layer_norm_epsilon=1e-5,
    tied_embeddings="target",
)


def random_translator(tokenizer, **fields):
    sizes = dict(vocab_size=tokenizer.vocab_size)
    if tokenizer.source.vocab_size != tokenizer.vocab_size:
        sizes["source_vocab_size"] = tokenizer.source.vocab_size
    special = ("pad_id", "bos_id", "eos_id")
    ids = {name: getattr(tokenizer, name) for name in special}
    config = kt.TransformerConfig(**{**SMALL, **sizes, **ids, **fields})
    model = kt.Transformer(config)
    randomise(model)
    return kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))


def table_vocabulary(tokenizer, separate=False, **special):
    """Returns a vocabulary with a table of the tokenizer's pieces.

    Neither the ids nor the special tokens are the tokenizer's: the decoder
    starts with `<go>`. Sources begin with `>>deu<<`, unless they have
    another language.
    """
    first = ["</s>", "<unk>", "<go>", ">>deu<<", ">>fra<<"]
    pieces = tokenizer.pieces(range(4 + 256, tokenizer.vocab_size))  # no bytes
    source = {x: i for i, x in enumerate([*first, *pieces[::-1], "<pad>"])}
    target = source
    if separate:
        last = source["<pad>"]
        pieces = [*first[:3], *pieces, "extra", "pieces", "more"]
        pieces.insert(last, "<pad>")
        target = {x: i for i, x in enumerate(pieces)}
    tokens = SpecialTokens(
        **{
            "decoder_start_token": "<go>",
            "language_token": ">>deu<<",
            **special,
        }
    )
    reader = LookupVocabulary(tokenizer.model, source, special=tokens)
    return LookupVocabulary(tokenizer.model, target, reader, tokens)


def imported_translator(tokenizer, num_translations=1, beam_size=2, **special):
    """A translator that would never write padding, as when imported."""
    vocabulary = table_vocabulary(tokenizer, separate=True, **special)
    model = random_translator(vocabulary, **MARIAN).model
    layer = model.output_embedding
    is_pad = np.arange(vocabulary.vocab_size) == vocabulary.pad_id
    layer.bias.assign(np.where(is_pad, NEVER, layer.bias))
    search = kt.BeamSearch(beam_size, 0.5, 9, length_penalty="power")
    return kt.Translator(model, vocabulary, search, num_translations)
