"""The formats: their systems, and what weights of each are stored in.

Without TensorFlow: the command line has them in its help.
"""

SYSTEMS = {
    "saved-model": "TensorFlow",
    "litert": "LiteRT",
    "ctranslate2": "CTranslate2",
    "argos": "Argos Translate",
    "huggingface": "Hugging Face",
}
_CTRANSLATE2 = {
    "float32": 1e-3,
    "float16": 0.02,
    "bfloat16": 0.2,
    "int16": 0.05,
    "int8": 0.3,
}
# How far the log-probability of a text may be from the model's, per token.
TOLERANCES = {
    "saved-model": {"float32": 1e-4, "bfloat16": 0.2, "float16": 0.02},
    "litert": {"float32": 1e-4, "float16": 0.02, "int8": 0.5},
    "ctranslate2": _CTRANSLATE2,
    "argos": _CTRANSLATE2,
    "huggingface": {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.2},
}
DTYPES = {name: tuple(dtypes) for name, dtypes in TOLERANCES.items()}
