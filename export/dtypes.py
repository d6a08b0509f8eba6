"""The formats, and what weights of each are stored in.

Without TensorFlow: the command line has it in its help.
"""

from keras_transformer.support.fields import check_values, one_of

_CTRANSLATE2 = {
    "float32": 1e-3,
    "float16": 0.02,
    "bfloat16": 0.2,
    "int16": 0.05,
    "int8": 0.3,
}
# How far the log-probability of a text may be from the model's, per token.
TOLERANCES = {
    "litert": {"float32": 1e-4, "float16": 0.02, "int8": 0.5},
    "ctranslate2": _CTRANSLATE2,
    "argos": _CTRANSLATE2,
    "huggingface": {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.2},
}
DTYPES = {
    "saved-model": ("float32", "bfloat16", "float16"),
    **{name: tuple(dtypes) for name, dtypes in TOLERANCES.items()},
}


def check_dtype(format: str, dtype: str) -> None:
    """Raises InputError unless a format stores weights in a dtype."""
    check_values(one_of(*DTYPES[format]), dtype=dtype)
