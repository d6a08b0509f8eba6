"""Writes tiny random Marian models as Hugging Face's files."""

import json

import numpy as np
import yaml
from helpers import randomise, to_numpy
from pieces import pieces_model, pieces_of
from safetensors.numpy import load_file, save_file

import keras_transformer as kt
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.weights import named_weights

FIELDS = dict(
    num_layers=2,
    decoder_layers=1,
    d_model=8,
    d_ff=12,
    num_heads=2,
    attention_bias=True,
    output_bias=True,
    position_layout="halves",
)
HUGGING_FACE = dict(
    decoder_heads=4, decoder_d_ff=10, layer_norm_epsilon=1e-5, max_length=32
)
END, PAD = 3, 5
WORDS = ["<unk>", ">>deu<<", ">>fra<<", "</s>", "odd", "<pad>"]
DECODER = {
    "models": ["/elsewhere/model.npz"],
    "vocabs": ["/elsewhere/vocab.yml"] * 2,
    "beam-size": 6,
    "normalize": 1,
    "word-penalty": 0,
}


def random_model(system, **fields):
    """Returns a random model, and its weights by the names of a system."""
    config = kt.TransformerConfig(**FIELDS | fields)
    model, names = kt.Transformer(config), weight_names(config, system)
    randomise(model)
    return model, {
        names[x]: to_numpy(y).astype("float32")
        for x, y in named_weights(model).items()
    }


def write_folder(folder, separate=False, **fields):
    """Writes Hugging Face's files of a model with unusual ids.

    Args:
        folder: A new folder.
        separate: Whether the target vocabulary has a file of its own, with one
            more piece.
        **fields: Changes of the configuration.

    Returns:
        The model.
    """
    folder.mkdir()
    pieces = list(WORDS)
    for side, language in (("source", "en"), ("target", "de")):
        content = pieces_model(language)
        (folder / f"{side}.spm").write_bytes(content)
        pieces += [x for x in pieces_of(content) if x not in pieces]
    table = {piece: i for i, piece in enumerate(pieces)}
    write(folder, "vocab.json", table)
    size = len(table)
    sizes = dict(vocab_size=size)
    if separate:
        write(folder, "target_vocab.json", table | {"more": size})
        sizes = dict(vocab_size=size + 1, source_vocab_size=size)
        fields = dict(tied_embeddings="target") | fields
    ids = dict(pad_id=PAD, bos_id=PAD, eos_id=END)
    model, tensors = random_model(
        "hugging_face",
        **HUGGING_FACE | sizes | ids | fields,
    )
    config = model.config
    write(
        folder,
        "tokenizer_config.json",
        dict(
            source_lang="en",
            target_lang="mul",
            pad_token="<pad>",
            eos_token={"__type": "AddedToken", "content": "</s>"},
            separate_vocabs=separate,
        ),
    )
    write(
        folder,
        "config.json",
        dict(
            model_type="marian",
            activation_function=config.activation,
            d_model=config.d_model,
            decoder_attention_heads=config.decoder.num_heads,
            decoder_ffn_dim=config.decoder.d_ff,
            decoder_layers=config.decoder.num_layers,
            decoder_start_token_id=PAD,
            decoder_vocab_size=config.vocab_size,
            dropout=config.dropout,
            encoder_attention_heads=config.encoder.num_heads,
            encoder_ffn_dim=config.encoder.d_ff,
            encoder_layers=config.encoder.num_layers,
            eos_token_id=END,
            max_position_embeddings=config.max_length,
            normalize_before=False,
            num_beams=6,
            pad_token_id=PAD,
            scale_embedding=config.embedding_scale is None,
            share_encoder_decoder_embeddings=not separate,
            vocab_size=size,
        ),
    )
    write(
        folder,
        "generation_config.json",
        dict(
            bad_words_ids=[[PAD], [4], [1, 2]],
            early_stopping=True,
            length_penalty=0.8,
            max_length=20,
            num_beams=None,
        ),
    )
    matrix = "model.encoder.embed_tokens.weight"
    if config.tied_embeddings == "all":
        tensors["model.shared.weight"] = tensors.pop(matrix)
    for name, value in tensors.items():
        if value.ndim == 2 and ".layers." in name:
            tensors[name] = np.ascontiguousarray(value.T)
    bias = tensors["final_logits_bias"]
    write_tensors(folder, tensors | {"final_logits_bias": bias[None]})
    return model


def write(folder, name, values):
    (folder / name).write_text(json.dumps(values), "utf-8")


def change(folder, name, **changes):
    """Changes fields of a JSON file; `...` removes a field."""
    values = json.loads((folder / name).read_text("utf-8")) | changes
    write(folder, name, {k: v for k, v in values.items() if v is not ...})


def read_tensors(folder):
    return load_file(folder / "model.safetensors")


def write_tensors(folder, tensors):
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def write_vocabulary(path, words):
    keys = [json.dumps(word, ensure_ascii=False) for word in words]
    lines = [f"{key}: {i}\n" for i, key in enumerate(keys)]
    path.write_text("".join(lines), "utf-8")


def write_yaml(path, values):
    path.write_text(yaml.safe_dump(values), "utf-8")
