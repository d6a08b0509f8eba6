"""What can be asked of a SavedModel, and checked without TensorFlow."""

import importlib.util
import re
from collections.abc import Collection
from pathlib import Path

from keras_transformer.support.errors import InputError

# The inputs of each signature, and what it returns. Strings are tensors `[B]`,
# numbers are scalars. Pieces are joined by spaces.
SIGNATURE_INPUTS = {
    "serving_default": {"text": "string"},  # n translations
    "translate_nbest": {"text": "string"},  # all K, with lengths and pieces
    "greedy": {"text": "string"},  # one translation, found with beam size 1
    # Translations that begin with the prefix.
    "translate_prefix": {"text": "string", "prefix": "string"},
    "translate_with_options": {  # K translations
        "text": "string",
        "beam_size": "int32",
        "alpha": "float32",
        "extra_length": "int32",
        "length_factor": "float32",
    },
    "sample": {  # K samples
        "text": "string",
        "temperature": "float32",
        "top_k": "int32",
        "top_p": "float32",
        "seed": "int64",
        "num_samples": "int32",
    },
    # Log-probabilities and perplexity.
    "score": {"text": "string", "translation": "string"},
    "attention": {"text": "string"},  # pieces and cross-attention
    "tokenize": {"text": "string"},  # pieces and ids
    "detokenize": {"pieces": "string"},  # texts
}


def check_signatures(names: Collection[str]) -> None:
    """Raises InputError unless a SavedModel can have some signatures."""
    if not {"serving_default"} <= set(names) <= set(SIGNATURE_INPUTS):
        raise InputError(
            "The signatures must contain serving_default, and may contain "
            f"any of {', '.join(SIGNATURE_INPUTS)}. Received: "
            f"{', '.join(names) or 'none'}"
        )


def check_kit(path: str | Path) -> None:
    """Checks, before a model is written, that a serving kit can be."""
    name = Path(path).resolve().parent.name
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise InputError(
            "The name of a model, which is part of its URL, must consist of "
            f"letters, digits, '.', '_' and '-'. Received: {name!r}"
        )
    if not Path(path).name.isdecimal():
        raise InputError(
            "TensorFlow Serving loads models from folders that are named by a "
            f"version number, such as models/en-de/1. Received: {path}"
        )
    if importlib.util.find_spec("tensorflow_serving") is None:
        raise InputError(
            "A serving kit needs the package tensorflow-serving-api. Run "
            'pip install "keras-transformer-nmt[serving]"'
        )
