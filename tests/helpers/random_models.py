"""Translators with random weights, as trained here and as imported."""

import functools

import keras
import numpy as np
from helpers import randomise

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.convert.vocabulary import SpecialTokens, make_tokenizer

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


def random_translator(tokenizer, search=None, **fields):
    """Returns a translator with random weights; default: a greedy one."""
    sizes = dict(vocab_size=tokenizer.vocab_size)
    if tokenizer.source.vocab_size != tokenizer.vocab_size:
        sizes["source_vocab_size"] = tokenizer.source.vocab_size
    special = ("pad_id", "bos_id", "eos_id")
    ids = {name: getattr(tokenizer, name) for name in special}
    config = kt.TransformerConfig(**{**SMALL, **sizes, **ids, **fields})
    model = kt.Transformer(config)
    randomise(model)
    search = search or kt.BeamSearch(beam_size=1)
    return kt.Translator(model, tokenizer, search)


def table_vocabulary(tokenizer, separate=False, source_eos_token="</s>"):
    """Returns a vocabulary with a table of the tokenizer's pieces.

    Neither the ids nor the special tokens are the tokenizer's: the decoder
    starts with `<go>`. Sources begin with `>>deu<<`, unless they have a
    different language.
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
    special = SpecialTokens("<pad>", "<unk>", "<go>", "</s>")
    reader = special._replace(eos=source_eos_token)
    vocabulary = make_tokenizer(
        (tokenizer.model, source, reader), (tokenizer.model, target, special)
    )
    return vocabulary.translating_to("deu")


def imported_translator(
    tokenizer, num_translations=1, beam_size=2, source_eos_token="</s>"
):
    """A translator that would never write padding, as when imported."""
    vocabulary = table_vocabulary(tokenizer, True, source_eos_token)
    model = random_translator(vocabulary, **MARIAN).model
    layer = model.output_embedding
    is_pad = np.arange(vocabulary.vocab_size) == vocabulary.pad_id
    layer.bias.assign(np.where(is_pad, NEVER, layer.bias))
    search = kt.BeamSearch(beam_size, 0.5, 9, length_penalty="power")
    return kt.Translator(model, vocabulary, search, num_translations)


def model_inputs(translator, sources, targets):
    """Returns the ids of pairs of texts that a model takes."""
    tokenizer = translator.tokenizer
    end = tokenizer.source_eos_id
    ids = {
        "source": [[*x, end] for x in tokenizer.encode_sources(sources)],
        "target": [
            [tokenizer.bos_id, *x] for x in tokenizer.encode_targets(targets)
        ],
    }
    padded = functools.partial(
        keras.utils.pad_sequences, padding="post", value=tokenizer.pad_id
    )
    return {name: padded(rows) for name, rows in ids.items()}
