"""Translators with random weights, and vocabularies as imported."""

import functools

import keras
from helpers import randomise

import keras_transformer as kt
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)

SMALL = dict(num_layers=2, d_model=8, d_ff=12, num_heads=2, max_length=30)
# Configurations that Marian's files for Hugging Face support.
MARIAN = {
    "marian": dict(
        attention_bias=True,
        output_bias=True,
        activation="swish",
        position_layout="halves",
        embedding_scale=1.0,
    ),
    "inputs": dict(
        tied_embeddings="inputs",
        embedding_scale=0.5,
        decoder_layers=1,
        decoder_heads=4,
        decoder_d_ff=6,
    ),
    "target": dict(tied_embeddings="target", activation="gelu"),
    "none": dict(tied_embeddings="none", output_bias=True, embedding_scale=1.7),
}


def imported(*arguments):
    """Returns a translator with the model that `kt.convert.read` reads."""
    foreign = kt.convert.read(*arguments)
    return kt.Translator(
        foreign.load_model(), foreign.tokenizer, foreign.search
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
    """Returns a vocabulary with other ids for the tokenizer's pieces.

    The decoder starts with `<go>`; sources begin with `>>deu<<` by default.
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
    special = SpecialPieces("<pad>", "<unk>", "<go>", "</s>")
    reader = special._replace(eos=source_eos_token)
    model = tokenizer.target.model
    vocabulary = make_tokenizer(
        vocabulary_with_ids(model, source, reader),
        vocabulary_with_ids(model, target, special),
    )
    return vocabulary.translating_to("deu")


def model_inputs(translator, sources, targets):
    """Returns the ids of pairs of texts that a model takes."""
    tokenizer = translator.tokenizer
    start, end = tokenizer.bos_id, tokenizer.source_eos_id
    padded = functools.partial(
        keras.utils.pad_sequences, padding="post", value=tokenizer.pad_id
    )
    source = [[*x, end] for x in tokenizer.encode_sources(sources)]
    target = [[start, *x] for x in tokenizer.encode_targets(targets)]
    return {"source": padded(source), "target": padded(target)}
