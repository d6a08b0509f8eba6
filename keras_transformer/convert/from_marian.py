"""Models in Marian's own files, as its trainer and OPUS-MT's archives are.

A folder has decoder.yml (or one NAME.decoder.yml), and the model.npz and the
vocabularies that it names: Marian's own SentencePiece models, or YAML with the
ids of pieces, and then source.spm and target.spm beside it. Wherever they
were, the folder has files of the same names.

Marian's decoder starts from zeros, and it has no padding. Here both are a row
of zeros that is put into the embeddings, the pad row, which is never written.
"""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.foreign_model import NEVER, ForeignModel
from keras_transformer.convert.marian_vocabulary import (
    read_pieces,
    read_table,
)
from keras_transformer.convert.tensor_files import (
    checked,
    inside,
    read_tensors,
    read_yaml,
)
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.text.lookup_vocabulary import (
    LookupVocabulary,
    SpecialTokens,
)

MARKS = ("*.npz", "*decoder.yml")

_OPTIONS = "special:model.yml"
_ACTIVATIONS = ("relu", "swish", "gelu")
# What options of the model must be. The first is what Marian does without.
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-attention-mask": ("default",),
    "transformer-tied-layers": ([],),
    "input-types": ([],),
    "lemma-dependency": ("",),
    **dict.fromkeys(("factors-dim-emb", "lemma-dim-emb"), (0,)),
    **dict.fromkeys(
        (
            "output-omit-bias",
            "right-left",
            "transformer-alibi-shift",
            "transformer-alibi-trainable",
            "transformer-disable-position-embeddings",
            "transformer-no-affine",
            "transformer-no-bias",
            "transformer-no-projection",
            "transformer-pool",
            "transformer-rnn-projection",
            "transformer-train-position-embeddings",
            "ulr",
        ),
        (False,),
    ),
}
# What precedes and follows sub-layers and stacks in post-norm models: n
# normalizes, a adds; d is dropout.
_PLACES = {
    "transformer-preprocess": "",
    "transformer-postprocess": "an",
    "transformer-postprocess-emb": "",
    "transformer-postprocess-top": "",
}
# Options that the architecture is made of.
_SIZES = (
    "transformer-decoder-dim-ffn",
    "transformer-dim-ffn",
    "transformer-ffn-activation",
    "transformer-heads",
)
# Options of the transformer that change nothing in a translation.
_IGNORED = (
    "transformer-aan",  # of another decoder
    "transformer-dim-aan",
    "transformer-depth-scaling",  # of initial weights
    "transformer-dropout",
    "transformer-guided-alignment-layer",
)
_ALLOWED_IN_SEARCH: dict[str, tuple[Any, ...]] = {
    "word-penalty": (0,),
    "allow-unk": (False,),
    "output-sampling": ([], False),
    "shortlist": ([],),
}
# Names that one matrix has, by its ties; output layers were stored transposed
# in former versions.
_EMBEDDINGS = {
    "embedding/embeddings": ("Wemb", "encoder_Wemb"),
    "target_embedding/embeddings": ("decoder_Wemb",),
    "output_embedding/embeddings": (
        "decoder_ff_logit_out_Wt",
        "decoder_ff_logit_out_W",
    ),
}


def read(folder: Path, target_language: str | None) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    decoder = _Options.of_decoder(folder)
    file = inside(folder, decoder.one_name("models"))
    tensors = read_tensors(file)
    options = _Options.of_model(tensors, file)
    vocabulary = _read_vocabulary(folder, decoder, options, target_language)
    config = _architecture(options, vocabulary)
    names = weight_names(config, "marian")
    for ours, candidates in _EMBEDDINGS.items():
        if ours in names:
            found = [name for name in candidates if name in tensors]
            names[ours] = (found or candidates)[0]
    return ForeignModel(
        system=f"Marian {options.get('version', '')}".split(" 2")[0].strip(),
        config=config,
        vocabulary=vocabulary,
        search=_search(decoder, config),
        languages=(None, target_language and target_language.strip("<>")),
        file=file,
        tensors=tensors,
        names=names,
        convert=_converter(names, vocabulary.pad_id),
        unused=(_OPTIONS,),
    )


class _Options:
    """Options of Marian, and the file that has them."""

    def __init__(self, content: bytes, file: Path | str) -> None:
        self.file = file
        self.values = read_yaml(content, file)
        if not isinstance(self.values, dict):
            raise InputError(
                f"{file} must be options of Marian, a mapping. Received: "
                f"{type(self.values).__name__}"
            )

    @classmethod
    def of_decoder(cls, folder: Path) -> "_Options":
        found = sorted(path.name for path in folder.glob("*decoder.yml"))
        if "decoder.yml" in found:
            found = ["decoder.yml"]
        if len(found) != 1:
            raise InputError(
                f"{folder} must have decoder.yml, or one file NAME.decoder.yml "
                "that names model and vocabularies. Received: "
                f"{', '.join(found) or 'none'}"
            )
        path = inside(folder, found[0])
        return cls(path.read_bytes(), path)

    @classmethod
    def of_model(
        cls, tensors: Mapping[str, np.ndarray], file: Path
    ) -> "_Options":
        if _OPTIONS not in tensors:
            raise InputError(
                f"{file} must have the options of the model, as Marian's "
                f"trainer writes them, in {_OPTIONS}. Received: none"
            )
        content = tensors[_OPTIONS].tobytes().rstrip(b"\0")
        return cls(content, f"{file}, {_OPTIONS},")

    def get(self, name: str, default: Any) -> Any:
        """Returns an option, which is of its default's type.

        Raises:
            InputError: If it is not.
        """
        value = self.values.get(name, default)
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            self.refuse(name, f"a value like {default!r}")
        return value

    def check(self, allowed: Mapping[str, tuple[Any, ...]]) -> None:
        for name, values in allowed.items():
            if self.values.get(name, values[0]) not in values:
                self.refuse(name, " or ".join(map(repr, values)))

    def names(self, option: str) -> list[str]:
        """Returns the files that an option names, without their folders."""
        values = self.values.get(option)
        if not (
            isinstance(values, list)
            and values
            and all(isinstance(value, str) and value for value in values)
        ):
            self.refuse(option, "a list of files")
        return [PurePosixPath(value).name for value in values]

    def one_name(self, option: str) -> str:
        names = self.names(option)
        if len(names) != 1:
            self.refuse(option, "one file, for an ensemble is several models")
        return names[0]

    def refuse(self, name: str, expected: str) -> None:
        """Raises InputError about an option."""
        raise InputError(
            f"{self.file} must have {name!r}: {expected}. "
            f"Received: {name}={self.values.get(name)!r:.300}"
        )


# === Architecture ===


def _architecture(
    options: _Options, vocabulary: LookupVocabulary
) -> TransformerConfig:
    options.check(_ALLOWED)
    known = (*_ALLOWED, *_PLACES, *_IGNORED)
    for name, value in options.values.items():
        computes = str(name).startswith("transformer-") and value
        if computes and not str(name).startswith((*known, *_SIZES)):
            options.refuse(name, "no such option, which is unknown here")
    for name, expected in _PLACES.items():
        if options.get(name, expected).replace("d", "") != expected:
            options.refuse(name, f"{expected!r}, d aside, of post-norm")
    activation = options.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        options.refuse("transformer-ffn-activation", " or ".join(_ACTIVATIONS))
    everything = options.get("tied-embeddings-all", False)
    tied = {
        (True, True): "all",
        (True, False): "inputs",
        (False, True): "target",
        (False, False): "none",
    }[
        everything or options.get("tied-embeddings-src", False),
        everything or options.get("tied-embeddings", False),
    ]
    layers, depth = options.get("enc-depth", 6), options.get("dec-depth", 6)
    d_ff = options.get("transformer-dim-ffn", 2048)
    decoder_d_ff = options.get("transformer-decoder-dim-ffn", 0) or d_ff
    source_size, size = vocabulary.source.vocab_size, vocabulary.vocab_size
    return checked(
        options.file,
        TransformerConfig,
        vocab_size=size,
        source_vocab_size=None if source_size == size else source_size,
        num_layers=layers,
        decoder_layers=None if depth == layers else depth,
        d_model=options.get("dim-emb", 512),
        d_ff=d_ff,
        decoder_d_ff=None if decoder_d_ff == d_ff else decoder_d_ff,
        num_heads=options.get("transformer-heads", 8),
        # Marian's decoder skips longer sources, unless it is told.
        max_length=1000,
        pad_id=vocabulary.pad_id,
        bos_id=vocabulary.bos_id,
        eos_id=vocabulary.eos_id,
        activation=activation,
        attention_bias=True,
        output_bias=True,
        tied_embeddings=tied,
        position_layout="halves",
        position_endpoint=True,
    )


def _converter(
    names: Mapping[str, str], pad_id: int
) -> Callable[[str, np.ndarray], np.ndarray]:
    def convert(name: str, value: np.ndarray) -> np.ndarray:
        value = np.asarray(value, "float32")
        if not name.endswith(("kernel", "embeddings")):
            value = value.reshape(-1)  # [1, n]
        if names[name] == "decoder_ff_logit_out_W":
            value = value.T
        if "embedding/" in name and len(value) >= pad_id:
            new = NEVER if name.endswith("bias") else 0.0
            value = np.insert(value, pad_id, new, axis=0)
        return value

    return convert


# === Search ===


def _search(decoder: _Options, config: TransformerConfig) -> BeamSearch:
    decoder.check(_ALLOWED_IN_SEARCH)
    return checked(
        decoder.file,
        BeamSearch,
        beam_size=decoder.get("beam-size", 12),
        alpha=decoder.get("normalize", 0.0),
        length_penalty="power",
        length_factor=decoder.get("max-length-factor", 3.0),
        extra_length=0,
    )


# === Vocabularies ===


def _read_vocabulary(
    folder: Path,
    decoder: _Options,
    options: _Options,
    target_language: str | None,
) -> LookupVocabulary:
    names, sizes = decoder.names("vocabs"), options.get("dim-vocabs", [])
    if len(names) != 2:
        decoder.refuse("vocabs", "the vocabulary of sources and of targets")
    if len(sizes) != 2:
        options.refuse("dim-vocabs", "two numbers of rows")
    sides = []
    for name, pieces, size in zip(
        names, ("source.spm", "target.spm"), sizes, strict=True
    ):
        file = inside(folder, name)
        if name.endswith(".spm"):
            model = file.read_bytes()
            table, end, unknown = read_pieces(model, file)
        elif name.endswith((".yml", ".yaml")):
            model = inside(folder, pieces).read_bytes()
            table, end, unknown = read_table(file), "</s>", "<unk>"
        else:
            decoder.refuse("vocabs", "files .yml or .spm; .fsv has factors")
        if len(table) != size:
            raise InputError(
                f"{file} must have the {size:,} pieces that dim-vocabs of "
                f"{options.file} says. Received: {len(table):,}"
            )
        sides.append((model, table, end, unknown))
    pad, pad_id = "<pad>", min(sizes)
    while any(pad in table for _, table, _, _ in sides):
        pad = f"<{pad}>"
    vocabulary = None
    try:
        for model, table, end, unknown in sides:
            table = {piece: i + (i >= pad_id) for piece, i in table.items()}
            special = SpecialTokens(
                pad_token=pad,
                unk_token=unknown,
                eos_token=end,
                decoder_start_token=pad,
                source_eos_token=end,
            )
            vocabulary = LookupVocabulary(
                model, table | {pad: pad_id}, vocabulary, special
            )
        if target_language is not None:
            vocabulary = vocabulary.translating_to(target_language)
    except InputError as error:
        raise InputError(
            f"The vocabularies in {folder} cannot be used. {error}"
        ) from error
    return vocabulary
