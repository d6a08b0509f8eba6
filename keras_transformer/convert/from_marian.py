"""Models in Marian's own files, written by its trainer or OPUS-MT.

A folder contains decoder.yml (or one NAME.decoder.yml), and the model.npz and
vocabularies that it names: SentencePiece models, or YAML files with the ids of
pieces, together with source.spm and target.spm.

Marian's decoder starts from zeros, and Marian has no padding token. Here a row
of zeros, inserted into the embeddings, serves as both; it is never written.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert import foreign_model, settings_file, weight_table
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.convert.tensor_files import explain_damage, read_tensors
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import read_yaml
from keras_transformer.text import Tokenizer
from keras_transformer.text.vocabulary import load_processor

_OPTIONS = "special:model.yml"
# Supported values of model options. Other differences show in the weights.
_REQUIRED = {
    "type": ["transformer"],
    "transformer-decoder-autoreg": ["self-attention"],
    "transformer-ffn-activation": ["relu", "swish", "gelu"],
    "transformer-attention-mask": ["default"],
    # The steps around sub-layers and stacks of post-norm models: n normalizes,
    # a adds, d is dropout.
    "transformer-preprocess": ["", "d"],
    "transformer-postprocess": ["an", "dan"],
    "transformer-postprocess-emb": ["", "d"],
    "transformer-postprocess-top": ["", "d"],
    "right-left": [False],
    "transformer-alibi-shift": [False],
    "transformer-disable-position-embeddings": [False],
    "transformer-pool": [False],
}
_REQUIRED_FOR_SEARCH = {
    "word-penalty": [0],
    "allow-unk": [False],
    "output-sampling": [[], False],
    "shortlist": [[]],
}
# Unsupported search options, with their neutral values.
_SEARCH_DEFAULTS = {
    "force-decode": False,
    "max-length": 1000,
    "max-length-crop": False,
    "no-spm-decode": False,
    "no-spm-encode": False,
}
# Alternative names of matrices. Newer versions transpose the output layer.
_ALIASES = {
    "encoder_Wemb": "Wemb",
    "decoder_ff_logit_out_W": "decoder_ff_logit_out_Wt",
}

# Characters that are valid in pieces but not in YAML, and substitutes.
_CHARACTERS = "\x7f\x85\u2028\u2029"
_STAND_INS = "\U0001fffe\U0002fffe\U0003fffe\U0004fffe"
_HIDE = str.maketrans(_CHARACTERS, _STAND_INS)
_SHOW = str.maketrans(_STAND_INS, _CHARACTERS)


def read_marian(folder: Path) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    decoder = _read_decoder(folder)
    (model,) = _file_names(decoder, "models", 1)
    file = settings_file.find_file(folder, model)
    tensors = read_tensors(file)
    name = f"{file}, {_OPTIONS},"
    with explain_damage(file):
        content = tensors[_OPTIONS].tobytes().rstrip(b"\0")
    options = SettingsFile(name, read_yaml(content, name))
    tokenizer = _read_tokenizer(folder, decoder)
    config = _read_config(options, tokenizer)
    names = weight_table.weight_names(config, "marian")
    for ours, stored_name in names.items():
        if _ALIASES.get(stored_name) in tensors:
            names[ours] = _ALIASES[stored_name]
    # Removes the date: v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700.
    version = options.get("version", str, "").partition(" 2")[0]
    return ForeignModel(
        system=f"Marian {version}".strip(),
        config=config,
        tokenizer=tokenizer,
        search=_read_search(decoder),
        file=file,
        tensors=tensors,
        names=names,
        convert=functools.partial(_convert, names, tokenizer.pad_id),
        unused=[_OPTIONS],
        notes=decoder.notes(_SEARCH_DEFAULTS),
    )


def _read_decoder(folder: Path) -> SettingsFile:
    """Returns the options of the decoder, which name the other files."""
    names = sorted(path.name for path in folder.glob("*decoder.yml"))
    if "decoder.yml" in names:
        names = ["decoder.yml"]
    if len(names) != 1:
        raise InputError(
            f"{folder} must contain decoder.yml or a single NAME.decoder.yml. "
            f"Received: {', '.join(names) or 'none'}"
        )
    path = folder / names[0]
    return SettingsFile(path, read_yaml(path.read_bytes(), path))


def _file_names(decoder: SettingsFile, field: str, count: int) -> list[str]:
    """Returns the names of files in a field."""
    names = decoder.get(field, list)
    if len(names) != count:
        decoder.reject(field, f"a list of length {count}")
    return list(map(str, names))


def _read_config(
    options: SettingsFile, tokenizer: Tokenizer
) -> TransformerConfig:
    for option, values in _REQUIRED.items():
        options.check(option, values)
    is_all = options.get("tied-embeddings-all", bool, False)
    is_shared = is_all or options.get("tied-embeddings-src", bool, False)
    is_tied = is_all or options.get("tied-embeddings", bool, False)
    return options.make(
        TransformerConfig,
        **tokenizer.config_values(),
        num_layers=options.get("enc-depth", int, 6),
        decoder_layers=options.get("dec-depth", int, 6),
        d_model=options.get("dim-emb", int, 512),
        d_ff=options.get("transformer-dim-ffn", int, 2048),
        decoder_d_ff=options.get("transformer-decoder-dim-ffn", int, 0) or None,
        num_heads=options.get("transformer-heads", int, 8),
        max_length=1000,  # the decoder's default
        activation=options.get("transformer-ffn-activation", str, "swish"),
        attention_bias=True,
        output_bias=True,
        tied_embeddings=weight_table.TIED_EMBEDDINGS[is_shared, is_tied],
        position_layout="halves",
        position_endpoint=True,
    )


def _read_search(decoder: SettingsFile) -> BeamSearch:
    for option, values in _REQUIRED_FOR_SEARCH.items():
        decoder.check(option, values)
    return decoder.make(
        BeamSearch,
        beam_size=decoder.get("beam-size", int, 12),
        alpha=decoder.get("normalize", float, 0.0),
        length_penalty="power",
        length_factor=decoder.get("max-length-factor", float, 3.0),
        extra_length=0,
        stop="finished",
    )


def _read_tokenizer(folder: Path, decoder: SettingsFile) -> Tokenizer:
    sources, targets = _file_names(decoder, "vocabs", 2)
    sides = [
        _read_side(folder, sources, "source.spm", decoder),
        _read_side(folder, targets, "target.spm", decoder),
    ]
    pad = "<pad>"
    while any(pad in table for _, table, _ in sides):
        pad = f"<{pad}>"
    pad_id = min(len(table) for _, table, _ in sides)
    vocabularies = []
    with name_file(f"The vocabulary in {folder}"):
        for model, table, special in sides:
            table = {piece: i + (i >= pad_id) for piece, i in table.items()}
            table[pad] = pad_id
            special = special._replace(pad=pad, bos=pad)
            vocabularies.append(vocabulary_with_ids(model, table, special))
        source, target = vocabularies
        return make_tokenizer(source, target)


def _read_side(
    folder: Path, name: str, model_name: str, decoder: SettingsFile
) -> tuple[bytes, dict[str, int], SpecialPieces]:
    """Returns the SentencePiece model of a language, and its ids by piece."""
    file = settings_file.find_file(folder, name)
    if name.endswith((".yml", ".yaml")):
        model = settings_file.find_file(folder, model_name).read_bytes()
        return model, _read_table(file), SpecialPieces()
    if not name.endswith(".spm"):
        decoder.reject("vocabs", "files .yml or .spm")
    model = file.read_bytes()
    with name_file(file):
        processor = load_processor(model)
    pieces = [processor.id_to_piece(i) for i in range(len(processor))]
    table = {piece: i for i, piece in enumerate(pieces)}
    eos = pieces[processor.eos_id()]
    unk = pieces[processor.unk_id()]
    return model, table, SpecialPieces(eos=eos, unk=unk)


def _read_table(file: Path) -> dict[str, int]:
    """Returns ids by piece from a YAML file."""
    text = file.read_text("utf-8").translate(_HIDE)
    entries = read_yaml(text, file, as_texts=True)
    return {piece.translate(_SHOW): int(i) for piece, i in entries.items()}


def _convert(
    names: Mapping[str, str], pad_id: int, name: str, value: np.ndarray
) -> np.ndarray:
    value = np.asarray(value, "float32")
    if not name.endswith(("kernel", "embeddings")):
        value = value.reshape(-1)  # [1, n]
    if names[name] == "decoder_ff_logit_out_W":
        value = value.T
    if "embedding/" in name and len(value) >= pad_id:
        new = foreign_model.NEVER if name.endswith("bias") else 0.0
        value = np.insert(value, pad_id, new, axis=0)
    return value
